//! The hook that records where a node panicked, next to the hooks of the program. A process has one hook, so this
//! is one test.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::graph::{GraphBuilder, NodeDef};
use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trace {
    done: bool,
}

async fn panic_report() -> String {
    let mut graph = GraphBuilder::<Trace>::new("graph");
    graph = graph.node("n", NodeDef::task(|_| async { boom() })).edge(START, "n").edge("n", END);
    let graph = graph.compile().expect("the graph is right");
    graph.invoke(Trace::update()).await.expect_err("the node panics").to_string()
}

fn boom() {
    panic!("boom");
}

#[tokio::test]
async fn panic_hook_of_the_program_is_called_and_replaceable() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    panic::set_hook(Box::new(|_| {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }));
    for calls in 1..3 {
        let received = panic_report().await;
        assert!(received.contains(&format!("panicked: boom (at {}:", file!())), "{received}");
        assert_eq!(CALLS.load(Ordering::SeqCst), calls);
    }

    // A panic outside the engine is reported, and then the hook is removed.
    assert!(panic::catch_unwind(boom).is_err());
    panic::set_hook(Box::new(|_| {}));
    let received = panic_report().await;
    assert!(received.ends_with("panicked: boom"), "the location of another panic: {received}");
}
