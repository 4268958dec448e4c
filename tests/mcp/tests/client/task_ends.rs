//! Tasks of a server whose run is cancelled, times out or dies.

use std::path::PathBuf;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use hier_agents::prelude::*;
use hier_core::CancellationToken;
use hier_core::graph::CompiledGraph;
use hier_mcp::McpClient;
use hier_mcp_tests::agent::{Desk, Helper, answers, desk};
use hier_sqlite::Sqlite;
use serde_json::json;

use crate::tasks::{Served, completed, count, serve, set, until};

graph! { Hurried<BaseState, Desk> = Graph { nodes: [Helper { timeout: 500ms }], edges: [START >> Helper >> END] } }

/// The graph without a checkpointer, and with one.
fn both(compile: fn() -> CompiledGraph<BaseState, Desk>) -> [CompiledGraph<BaseState, Desk>; 2] {
    [compile(), compile().checkpointer(MemorySaver::new())]
}

fn printing(client: &McpClient) -> Desk {
    desk(client, [Message::call("print", json!({}))])
}

fn counts(office: &Served) -> [usize; 2] {
    ["tools/call", "tasks/cancel"].map(|method| count(office, method))
}

#[tokio::test]
async fn cancelled_run_cancels_its_task() {
    for helper in both(Helper::compile) {
        let (office, builder) = serve().await;
        let (context, token) = (printing(&builder().build().unwrap()), CancellationToken::new());
        let run = helper.invoke(Message::user("Go.")).thread("t").context(context).cancel(token.clone());
        let run = tokio::spawn(async move { run.await.map(|_| ()) });
        until(&office, "tasks/get", 2).await;
        token.cancel();
        assert!(matches!(run.await.unwrap(), Err(RunError::Cancelled { .. })));
        assert_eq!(counts(&office), [1, 1]);
    }
}

#[tokio::test]
async fn node_that_times_out_cancels_its_task() {
    for hurried in both(Hurried::compile) {
        let (office, builder) = serve().await;
        let context = printing(&builder().build().unwrap());
        let failed = hurried.invoke(Message::user("Go.")).thread("t").context(context).await.unwrap_err().to_string();
        assert!(failed.contains("took longer than 500ms"), "{failed}");
        assert_eq!(counts(&office), [1, 1]);
    }
}

/// Nobody can resume a run that is not durable.
#[tokio::test]
async fn dropped_run_cancels_its_task_unless_it_is_durable() {
    for (cancelled, helper) in [1, 0].into_iter().zip(both(Helper::compile)) {
        let (office, builder) = serve().await;
        let run = helper.invoke(Message::user("Go.")).thread("t").context(printing(&builder().build().unwrap()));
        let run = tokio::spawn(async move { run.await.map(|_| ()) });
        until(&office, "tasks/get", 2).await;
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
        until(&office, "tasks/cancel", cancelled).await;
        assert_eq!(counts(&office), [1, cancelled]);
    }
}

const FILE: &str = "TASK_ENDS_FILE";
const SERVER: &str = "TASK_ENDS_SERVER";

#[tokio::test]
#[ignore = "a process that other tests start"]
async fn child_process() {
    let file = std::env::var_os(FILE).map(PathBuf::from).expect("started by the test below");
    let client = McpClient::http("office", std::env::var(SERVER).unwrap()).build().unwrap();
    let helper = Helper::compile().checkpointer(Sqlite::open(file).await.unwrap());
    let out = helper.invoke(Message::user("Go.")).thread("t").context(printing(&client)).await;
    panic!("the program should be dead: {out:?}");
}

/// The first process starts the task and is killed, the second one is cancelled or waits for the end.
#[tokio::test]
async fn killed_process_leaves_its_task_to_the_next_one() {
    for is_cancelled in [false, true] {
        let (office, builder) = serve().await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("threads.db");
        let mut process = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "task_ends::child_process", "--ignored", "--nocapture"])
            .env(FILE, &file)
            .env(SERVER, office.lock().unwrap().url.clone())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until(&office, "tasks/get", 2).await;
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(counts(&office), [1, 0]);

        let helper = Arc::new(Helper::compile().checkpointer(Sqlite::open(&file).await.unwrap()));
        let (token, client) = (CancellationToken::new(), builder().build().unwrap());
        let context = desk(&client, [Message::assistant("Done.")]);
        let polled = count(&office, "tasks/get");
        let run = helper.invoke(()).thread("t").context(context).cancel(token.clone());
        let run = tokio::spawn(async move { run.await.map(|out| answers(&out)) });
        until(&office, "tasks/get", polled + 2).await;
        if is_cancelled {
            token.cancel();
            assert!(matches!(run.await.unwrap(), Err(RunError::Cancelled { .. })));
            assert_eq!(counts(&office), [1, 1]);
        } else {
            set(&office, completed("printed"));
            assert_eq!(run.await.unwrap().unwrap(), ["printed"]);
            assert_eq!(counts(&office), [1, 0]);
        }
    }
}
