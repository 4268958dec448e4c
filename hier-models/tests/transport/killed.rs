//! A process is killed between two turns. The next turn continues with the model's thoughts.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hier_agents::Effort;
use hier_agents::prelude::*;
use hier_models::Model;
use hier_sqlite::Sqlite;

use crate::providers::{Provider, all};
use crate::support::{Reply, Server};

graph! {
    Desk<BaseState> = Agent {
        system: "You look.",
        tools: [look],
        options: ModelOptions { reasoning: Effort::Low },
    }
}

/// Looks.
#[tool]
async fn look() -> String {
    "seen".to_owned()
}

const CHILD: &str = "HIER_TEST_KILLED";

async fn go(database: &Path, model: Model, is_new: bool) -> Outcome<BaseState> {
    let graph = Desk::compile().checkpointer(Sqlite::open(database).await.unwrap());
    let context = BaseContext::new(model);
    let config = Config::new().thread("t");
    let run = if is_new {
        graph.invoke(Message::user("go")).config(config).context(context).await
    } else {
        graph.invoke(()).config(config).context(context).await
    };
    run.unwrap()
}

#[tokio::test]
#[ignore = "a process that other tests start"]
async fn child_process() {
    let received = std::env::var(CHILD).expect("started by the test below");
    let [database, name, url] = received.split('|').collect::<Vec<_>>()[..] else { panic!("{received}") };
    let provider = all().into_iter().find(|provider| provider.name == name).unwrap();
    let out = go(Path::new(database), (provider.model)(url), true).await;
    panic!("it was to be killed, and ended: {out:?}");
}

fn start(database: &Path, provider: &Provider, url: &str) -> Child {
    let received = format!("{}|{}|{url}", database.display(), provider.name);
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "killed::child_process"])
        .env(CHILD, received)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn killed_process_loses_no_signature() {
    for provider in all() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("t.db");
        let first = Reply::Whole(200, "", provider.first.to_string());
        let server = Server::start([first, Reply::Silence, Reply::Judged(provider.judge)]).await;
        let mut child = start(&database, &provider, &server.url);
        for _ in 0..3_000 {
            if server.asked().len() == 2 {
                break;
            }
            assert_eq!(child.try_wait().unwrap(), None, "it waits for its second answer");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(server.asked().len(), 2, "{}: killed in the second turn", provider.name);
        let out = go(&database, (provider.model)(&server.url), false).await;
        assert_eq!(out.state().messages.last().unwrap().text(), "done", "{}", provider.name);
        let asked = server.asked();
        assert_eq!((asked.len(), &asked[1].body), (3, &asked[2].body), "{}: the same is asked again", provider.name);
    }
}
