//! Detached subagents whose runtime shuts down.

use std::sync::Arc;

use hier_agents::prelude::*;
use hier_core::checkpoint::{Checkpointer, Claim, WhenRunning};
use hier_core::graph::DynGraph;
use hier_sqlite::{Sqlite, Survives};
use tokio::runtime::{Builder, Runtime};

use crate::site::{Foreman, Mine};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Each commit waits for the disk, and a runtime that shuts down does not wait for commits.
#[test]
fn shutdown_of_the_runtime_releases_the_subagent_and_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = Sqlite::options().survives(Survives::PowerLoss).open(folder.path().join("desk.db"));
    let (saver, mine) = (runtime().block_on(file).unwrap(), Mine::new());
    let graph = Foreman::compile().checkpointer(saver.clone()).with_context(mine.clone());
    let turn = |text| runtime().block_on(graph.invoke(Message::user(text)).thread("t")).unwrap();
    assert!(turn("Dig.").is_finished());
    let erased = Foreman::compile().erase(|_| Ok(Mine::new()));
    let threads = runtime().block_on(erased.detached(Arc::new(saver.clone()), "t")).unwrap();
    for _ in 0..5 {
        let runtime = runtime();
        runtime.spawn(graph.continue_detached("t"));
        runtime.block_on(mine.works(1));
        drop(runtime);
        let claim = Claim { when_running: WhenRunning::Reject, ..Claim::default() };
        let lease = self::runtime().block_on(saver.acquire(&threads[0], claim)).expect("the thread is free");
        self::runtime().block_on(saver.release(&lease)).unwrap();
    }
    mine.gate.add_permits(1);
    let end = turn("Wait.");
    let results = end.state().base.messages.iter().filter(|message| message.tool_call_id().is_some());
    assert_eq!(results.map(Message::text).next_back().unwrap(), "`miner-1` reported.\ndone");
}
