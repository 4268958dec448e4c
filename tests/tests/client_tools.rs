//! A client tool in a file: the program dies while the client runs the tool, and another one receives the result.

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::checkpoint::WhenRunning;
use hier_core::graph::CompiledGraph;
use hier_core::message::ToolCall;
use hier_core::{Durability, RunError};
use hier_sqlite::Sqlite;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Picked {
    name: String,
}

/// Lets the user pick a file.
#[tool(client, timeout = 1h)]
async fn pick_file(kind: String) -> Picked;

static WEIGHED: AtomicUsize = AtomicUsize::new(0);

/// Weighs.
#[tool]
async fn weigh() -> String {
    format!("weighed {} times in this life", 1 + WEIGHED.fetch_add(1, Ordering::Relaxed))
}

/// Ends the program in the middle of the step, if it is to die.
#[tool]
async fn wait() -> String {
    if std::env::var_os(FILE).is_some() {
        tokio::time::sleep(Duration::from_millis(300)).await;
        std::process::abort();
    }
    "waited".to_owned()
}

graph! {
    Desk<MessagesState> = Agent {
        tools: [pick_file, weigh, wait],
        asks: [PickFileCall],
    }
}

const FILE: &str = "HIER_TEST_CLIENT_TOOLS_FILE";

async fn desk(file: &Path) -> (Sqlite, CompiledGraph<MessagesState, BaseContext>) {
    let saver = Sqlite::open(file).await.expect("a file");
    (saver.clone(), Desk::compile().checkpointer(saver))
}

fn config() -> Config {
    Config::new().thread("case").durability(Durability::Sync).when_running(WhenRunning::TakeOver)
}

fn calls(names: &[(&str, Value)]) -> Message {
    let call = |(name, args): &(&str, Value)| ToolCall::new(*name, args.clone()).with_id(*name);
    Message::calls("", names.iter().map(call))
}

/// Runs in a process that the test below starts. The process ends in a tool of the server.
#[tokio::test]
#[ignore = "a process that other tests start"]
async fn child_process() {
    let file = std::env::var_os(FILE).map(PathBuf::from).expect("started by the test below");
    let (_saver, desk) = desk(&file).await;
    let all = calls(&[("pick_file", json!({"kind": "png"})), ("weigh", json!({})), ("wait", json!({}))]);
    let context = BaseContext::new(ScriptedModel::new([all]));
    let out = desk.invoke(Message::user("Look.")).config(config()).context(context).await;
    panic!("the program should be dead: {out:?}");
}

#[tokio::test]
async fn result_resumes_the_thread_once_in_another_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("desk.db");
    let mut process = Process::new(std::env::current_exe().expect("this program"));
    process.args(["--exact", "child_process", "--ignored", "--nocapture"]).env(FILE, &file);
    let output = process.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && !text.contains("should be dead"), "{text}");

    // The second life completes the step. The tool of the server that had ended does not run again.
    let (saver, graph) = desk(&file).await;
    let out = graph.invoke(()).config(config()).context(BaseContext::default()).await.expect("a run");
    let open = out.questions::<DeskQuestion>().expect("declared questions");
    let [DeskQuestion::PickFileCall(pick)] = &*open else { panic!("{out:?}") };
    assert_eq!((&*pick.args().kind, &*pick.call().id), ("png", "pick_file"));
    assert!(pick.due().is_some());
    assert_eq!(WEIGHED.load(Ordering::Relaxed), 0);
    drop(graph);
    saver.close().await.expect("it closes");

    // The third life receives the result, and refuses it the second time.
    let (saver, graph) = desk(&file).await;
    let open = graph.state("case").await.expect("a thread").questions::<DeskQuestion>().expect("declared questions");
    let [DeskQuestion::PickFileCall(again)] = &*open else { panic!("{open:?}") };
    assert_eq!((again.id(), again.due()), (pick.id(), pick.due()), "the deadline does not move");
    let model = ScriptedModel::new([Message::assistant("Done.")]);
    let context = || BaseContext::new(model.clone());
    let answer = || again.answer(Picked { name: "a.png".to_owned() }.into());
    let out = graph.invoke(answer()).config(config()).context(context()).await.expect("a run");
    assert_eq!(out.text(), "Done.");
    let texts: Vec<String> = out.state().messages().iter().map(Message::text).collect();
    let results = [r#"{"name":"a.png"}"#, "weighed 1 times in this life", "waited"];
    assert_eq!(texts, [&["Look.", ""], &results[..], &["Done."]].concat());
    let twice: RunError = graph.invoke(answer()).config(config()).context(context()).await.expect_err("it is answered");
    assert_eq!((model.requests().len(), WEIGHED.load(Ordering::Relaxed)), (1, 0), "{twice}");
    saver.close().await.expect("it closes");
}
