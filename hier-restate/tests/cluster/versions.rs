//! New versions of the program, and threads that begin in one place and end in another.

use hier_core::checkpoint::Checkpointer;
use hier_core::graph::{DynCommand, DynInput};
use hier_core::prelude::*;
use hier_restate::Error;
use hier_sqlite::Sqlite;
use serde_json::json;
use uuid::Uuid;

use crate::support::{serve, serve_as};

mod first {
    use hier_core::prelude::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(super) struct Case {
        pub(super) text: String,
        pub(super) answer: String,
    }

    graph! {
        pub(super) Review<Case> = Graph {
            nodes: [find, ask],
            edges: [START >> find >> ask >> END],
        }
    }

    async fn find() -> CaseUpdate {
        Case::update().text("one\ntwo")
    }

    async fn ask(run: &Run) -> hier_core::Result<CaseUpdate> {
        let answer: String = run.interrupt(&"good?").await?;
        Ok(Case::update().answer(answer))
    }
}

mod second {
    use hier_core::Result;
    use hier_core::prelude::*;

    /// Version 1 had one text of all findings.
    #[allow(clippy::unnecessary_wraps)] // the type of migrations
    fn from_v1(stored: &mut serde_json::Map<String, serde_json::Value>) -> Result<()> {
        if let Some(serde_json::Value::String(text)) = stored.remove("text") {
            stored.insert("findings".to_owned(), text.lines().collect());
        }
        Ok(())
    }

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 2, migrate = from_v1)]
    pub(super) struct Case {
        #[reducer(append)]
        pub(super) findings: Vec<String>,
        pub(super) answer: String,
    }

    graph! {
        pub(super) Review<Case> = Graph {
            nodes: [find, ask, close],
            edges: [START >> find >> ask >> close >> END],
        }
    }

    async fn find() {}

    async fn ask(run: &Run) -> Result<CaseUpdate> {
        let answer: String = run.interrupt(&"good?").await?;
        Ok(Case::update().answer(answer))
    }

    async fn close() -> CaseUpdate {
        Case::update().findings(["closed".to_owned()])
    }
}

/// As the second, without a way from the first.
mod other {
    use hier_core::prelude::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 3)]
    pub(super) struct Case {
        #[reducer(append)]
        pub(super) findings: Vec<String>,
    }

    graph! {
        pub(super) Review<Case> = Graph {
            nodes: [find, ask],
            edges: [START >> find >> ask >> END],
        }
    }

    async fn find() {}

    async fn ask() {}
}

fn yes() -> DynInput {
    let mut command = DynCommand::default();
    command.resume = Some(json!("yes"));
    DynInput::Command(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn new_version_migrates_threads_or_refuses_them() {
    let name = format!("review-{}", Uuid::new_v4().simple());
    let config = || Config::new().thread("v");
    let graph = serve_as(&name, |endpoint| endpoint.graph(&name, first::Review::compile(), ())).await;
    let end = graph.invoke(DynInput::New(json!({}))).config(config()).await.unwrap();
    assert_eq!(end.state()["text"], json!("one\ntwo"));

    serve_as(&name, |endpoint| endpoint.graph(&name, other::Review::compile(), ())).await;
    let Error::Run(refused) = graph.invoke(yes()).config(config()).await.unwrap_err() else { panic!("it is refused") };
    assert!(refused.message.contains("version"), "{refused}");

    serve_as(&name, |endpoint| endpoint.graph(&name, second::Review::compile(), ())).await;
    let end = graph.invoke(yes()).config(config()).await.unwrap();
    assert_eq!(end.state(), &json!({ "findings": ["one", "two", "closed"], "answer": "yes" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn thread_in_a_database_continues_on_and_off_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let saver = Sqlite::open(folder.path().join("threads.db")).await.unwrap();
    let local = first::Review::compile().checkpointer(saver.clone());
    let kept = saver.clone();
    let graph = serve(|endpoint, name| endpoint.graph(name, first::Review::compile(), ()).saver(kept)).await;
    // Begun in process, ended on the cluster.
    let asked = local.invoke(first::Case::update()).thread("a").await.unwrap();
    assert!(!asked.is_finished());
    let end = graph.invoke(yes()).thread("a").await.unwrap();
    assert_eq!((end.is_finished(), &end.state()["answer"]), (true, &json!("yes")));
    // And the other way round.
    let asked = graph.invoke(DynInput::New(json!({}))).thread("b").await.unwrap();
    assert!(!asked.is_finished());
    let end = local.invoke(Command::resume("no")).thread("b").await.unwrap();
    assert_eq!((end.is_finished(), end.state().answer.as_str()), (true, "no"));
    assert_eq!(graph.state("b").await.unwrap().values["answer"], json!("no"));
    // A deletion includes the database, also if it is repeated.
    for _ in 0..2 {
        graph.delete("b").await.unwrap();
        assert!(saver.get("b", "", None).await.unwrap().is_none());
    }
    assert!(saver.get("a", "", None).await.unwrap().is_some());
}
