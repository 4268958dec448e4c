//! Inner graphs: repeated work after a failure, and the state that they keep between calls.

use hier_core::Durability;
use hier_core::checkpoint::{Checkpointer, ListQuery};
use hier_core::graph::{Checkpoints, NodeDef};
use hier_core::prelude::*;
use hier_core::state::{DynState, Schema};
use serde_json::{Value, json};

use super::kit::*;

/// The namespaces of the thread, without ids of tasks.
async fn namespaces(bench: &Bench) -> Vec<String> {
    let query = ListQuery { thread: Some("t".to_owned()), ..ListQuery::default() };
    let listed = bench.saver.list(query).await.unwrap();
    let mut names: Vec<String> = listed.iter().map(|listed| listed.namespace.to_string()).collect();
    names.sort();
    names.dedup();
    let name = |name: &String| name.split(':').next().unwrap_or_default().to_owned();
    names.iter().map(name).collect()
}

/// A node that logs its name and `x`.
fn notes() -> Node {
    does(|task| Ok(json!({ "log": [task.run().node(), task.state().get("x")] })))
}

/// Returns the writes of the inner graph in two runs, and the namespaces of its checkpoints.
async fn two_runs(checkpoints: Checkpoints) -> (Vec<Value>, Vec<String>) {
    let mut inner = over(Schema::new().last("x").reduced("seen", hier_core::state::Builtin::Append));
    inner = inner.node("in", does(|task| Ok(json!({ "seen": ["in", task.state().get("x")] }))));
    inner = inner
        .node("copy", does(|task| Ok(json!({ "x": task.state().get("seen") }))))
        .edge(START, "in")
        .edge("in", "copy");
    let mut outer = builder();
    outer = outer.subgraph("call", &compile(inner)).checkpoints("call", checkpoints);
    outer = outer.node("keep", does(|task| Ok(json!({ "log": [task.state().get("x")] }))));
    outer = outer.edge(START, "call").edge("call", "keep");
    let bench = Bench::new(outer);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let _ = bench.start(json!({ "x": 3 })).await.unwrap();
    let log = log_of(&bench.state().await);
    (log.as_array().cloned().unwrap_or_default(), namespaces(&bench).await)
}

#[tokio::test]
async fn subgraph_keeps_its_state_between_calls() {
    let (seen, stored) = two_runs(Checkpoints::PerCall).await;
    assert_eq!(
        (seen, stored),
        (vec![json!(["in", 1]), json!(["in", 3])], ["", "call", "call"].map(str::to_owned).into())
    );
    let (seen, stored) = two_runs(Checkpoints::PerThread).await;
    let both = json!(["in", 1, "in", 3]);
    assert_eq!((seen, stored), (vec![json!(["in", 1]), both], ["", "call"].map(str::to_owned).into()));
    let (seen, stored) = two_runs(Checkpoints::None).await;
    assert_eq!((seen, stored), (vec![json!(["in", 1]), json!(["in", 3])], vec![String::new()]));
}

/// `inner` is `c` and then `b`, which fails once.
fn failing(checkpoints: Checkpoints) -> Bench {
    let mut inner = marks(&["c", "z"]);
    inner = inner.node("b", fails(1)).edge(START, "c").edge("c", "b").edge("b", "z");
    let mut outer = marks(&["o", "sibling"]);
    outer = outer.subgraph("sub", &compile(inner)).checkpoints("sub", checkpoints);
    outer = outer.edge(START, "sub").edge(START, "sibling").edge("sub", "o");
    Bench::new(outer)
}

#[tokio::test]
async fn finished_inner_nodes_do_not_run_again() {
    for checkpoints in [Checkpoints::PerCall, Checkpoints::PerThread] {
        let bench = failing(checkpoints);
        let error = bench.start(json!({ "x": 1 })).await.unwrap_err();
        assert!(
            matches!(error.root(), RunError::Node { node, graph, .. } if node == "b" && graph == "case"),
            "{error}"
        );
        assert_eq!(bench.state().await.next, ["sub"]);
        // Its writes before the stop are returned too, once.
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["sibling", "c", "b", "z", "o"]), "{checkpoints:?}");
        let ran = json!({ "c": 1, "b": 2, "z": 1, "sibling": 1, "o": 1 });
        assert_eq!(bench.tally.all(), ran, "{checkpoints:?}");
    }
}

/// Its data is found under the old name of its node.
#[tokio::test]
async fn subgraph_of_a_renamed_node_continues() {
    for checkpoints in [Checkpoints::PerCall, Checkpoints::PerThread] {
        let mut inner = marks(&["c", "z"]);
        inner = inner.node("ask", asks(&["?"])).edge(START, "c").edge("c", "ask").edge("ask", "z");
        let inner = compile(inner);
        let graph = |node: &'static str| {
            let mut outer = marks(&["o"]);
            outer = outer.subgraph(node, &inner).checkpoints(node, checkpoints).edge(START, node).edge(node, "o");
            outer
        };
        let before = Bench::new(graph("old"));
        assert_eq!(questions(before.start(json!({ "x": 1 })).await.unwrap()).len(), 1);
        let mut after = Bench::on(graph("new"), before.saver.clone());
        after.graph = after.graph.renamed("old", "new");
        let place = after.state().await.tasks[0].state.clone().expect("a place");
        let inside = inner.clone().checkpointer(before.saver.clone()).state(place).await.unwrap();
        assert_eq!((inside.next, inside.values.to_value()["log"].clone()), (vec!["ask".to_owned()], json!(["c"])));
        assert_eq!(log(after.answer("yes").await.unwrap()), json!(["c", "yes", "z", "o"]), "{checkpoints:?}");
        assert_eq!(after.tally.all(), json!({ "ask": 1, "z": 1, "o": 1 }), "{checkpoints:?}");
        if checkpoints == Checkpoints::PerThread {
            // The next call continues with the state that the previous one kept.
            assert_eq!(questions(after.start(json!({ "x": 2 })).await.unwrap()).len(), 1);
        }
        assert_eq!(namespaces(&before).await, ["", "old"], "{checkpoints:?}");
    }
}

#[tokio::test]
async fn call_without_checkpoints_starts_again() {
    let bench = failing(Checkpoints::None);
    bench.start(json!({ "x": 1 })).await.unwrap_err();
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["sibling", "c", "b", "z", "o"]));
    assert_eq!(bench.tally.all(), json!({ "c": 2, "b": 2, "z": 1, "sibling": 1, "o": 1 }));
}

/// A new input is a new call: what an unfinished call had written does not come back.
#[tokio::test]
async fn new_input_starts_a_new_call() {
    let bench = failing(Checkpoints::PerCall);
    bench.start(json!({ "x": 1 })).await.unwrap_err();
    assert_eq!(log(bench.start(json!({ "x": 2 })).await.unwrap()), json!(["sibling", "c", "b", "z", "o"]));
    assert_eq!(bench.tally.all(), json!({ "c": 2, "b": 2, "z": 1, "sibling": 2, "o": 1 }));
}

/// Decision 16, over several interrupts: of a plain channel the last value comes back, of a list each part once.
#[tokio::test]
async fn resumed_call_returns_the_writes_of_all_runs() {
    for durability in [Durability::Sync, Durability::Exit] {
        let mut inner = marks(&["i1"]);
        inner =
            inner.node("ask1", asks(&["1"])).node("set", does(|_| Ok(json!({ "x": 9 })))).node("ask2", asks(&["2"]));
        inner = inner.edge(START, "i1").edge("i1", "ask1").edge("ask1", "set").edge("set", "ask2");
        let mut outer = builder();
        outer = outer.node("o", notes()).subgraph("sub", &compile(inner)).edge(START, "sub").edge("sub", "o");
        let mut bench = Bench::new(outer);
        bench.config = bench.config.durability(durability);
        let _ = bench.start(json!({ "x": 1, "log": ["in"] })).await.unwrap();
        let _ = bench.answer("A").await.unwrap();
        assert_eq!(bench.state().await.values.to_value(), json!({ "x": 1, "log": ["in"] }), "not before it ends");
        let end = bench.answer("B").await.unwrap();
        assert_eq!(end.state().to_value(), json!({ "x": 9, "log": ["in", "i1", "A", "B", "o", 9] }), "{durability:?}");
    }
}

/// Each Send to a graph is a separate call, and only the failed one runs again.
#[tokio::test]
async fn calls_by_send_are_resumed_one_by_one() {
    let mut inner = marks(&[]);
    inner = inner.node(
        "work",
        does(|task| {
            let x = task.state().get("x").cloned().unwrap_or_default();
            let name = format!("work {x}");
            let count = task.run().context().hit(&name);
            if x == 2 && count == 1 { Err(NodeError::permanent("boom")) } else { Ok(json!({ "log": [name] })) }
        }),
    );
    inner = inner.edge(START, "work");
    let mut outer = marks(&["z"]);
    outer = outer.subgraph("sub", &compile(inner)).node("seed", does(|_| Ok(json!({}))));
    outer = outer.edge(START, "seed").edge("sub", "z");
    outer = outer.each("seed", "items", "sub", |_| (1..4).map(|x| json!({ "x": x })));
    let bench = Bench::new(outer);
    bench.start(json!({ "log": [] })).await.unwrap_err();
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["work 1", "work 2", "work 3", "z"]));
    assert_eq!(bench.tally.all()["work 1"], 1);
    assert_eq!(bench.tally.all()["work 2"], 2);
}

/// A graph that keeps its state asks. It continues where it stopped, with its earlier work.
#[tokio::test]
async fn graph_that_keeps_its_state_can_ask() {
    let mut inner = over(schema().reduced("own", hier_core::state::Builtin::Append));
    inner = inner.node("i", does(|_| Ok(json!({ "own": ["i"] })))).node("ask", asks(&["q"]));
    inner = inner.node(
        "tell",
        does(|task| Ok(json!({ "log": [task.state().get("own").map(|own| own.as_array().map(Vec::len))] }))),
    );
    inner = inner.edge(START, "i").edge("i", "ask").edge("ask", "tell");
    let mut outer = builder();
    outer = outer.subgraph("sub", &compile(inner)).checkpoints("sub", Checkpoints::PerThread).edge(START, "sub");
    let bench = Bench::new(outer);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    assert_eq!(log(bench.answer("A").await.unwrap()), json!(["A", 1]));
    let _ = bench.start(json!({ "x": 2 })).await.unwrap();
    assert_eq!(log(bench.answer("B").await.unwrap()), json!(["A", 1, "B", 2]));
    assert_eq!(bench.tally.all(), json!({ "i": 2, "ask": 4, "tell": 2 }));
}

/// A graph that keeps a count, called once for each item.
fn counted_for_each(lenient: bool) -> Builder {
    let mut inner = over(schema().reduced("own", hier_core::state::Builtin::Sum));
    inner = inner.node("count", does(|_| Ok(json!({ "own": 1, "log": ["count"] })))).edge(START, "count");
    let mut outer = if lenient { builder() } else { strict() };
    outer = outer.node("plan", mark()).subgraph("sub", &compile(inner)).checkpoints("sub", Checkpoints::PerThread);
    outer =
        outer.edge(START, "plan").each("plan", "items", "sub", |_| [json!({}), json!({}), json!({})]).edge("sub", END);
    outer
}

/// Several calls would overwrite each other's state: none of them runs.
#[tokio::test]
async fn calls_of_a_per_thread_graph_do_not_run_in_parallel() {
    let refused = counted_for_each(false).compile().unwrap_err().to_string();
    assert!(refused.contains("share the state that `sub` keeps for the whole thread"), "{refused}");
    let bench = Bench::new(counted_for_each(true));
    for _ in 0..2 {
        let tried = match bench.stored().await {
            None => bench.start(json!({ "x": 1 })).await,
            Some(_) => bench.continue_run().await,
        };
        let error = tried.unwrap_err();
        assert!(matches!(&error, RunError::SharedCalls { node, calls: 3, .. } if node == "sub"), "{error}");
        let text = error.to_string();
        assert!(text.contains("`sub`") && text.contains("`checkpoints: per_call`"), "{text}");
        assert_eq!(bench.tally.all(), json!({ "plan": 1 }));
    }
    // An edge and a Send at once are two calls, too.
    let mut inner = marks(&["i"]);
    inner = inner.edge(START, "i");
    let mut outer = builder();
    let sends = NodeDef::task(|_: NodeTask| async move { Command::<DynState>::new().send("sub", json!({})) });
    outer = outer.node("plan", sends).subgraph("sub", &compile(inner)).checkpoints("sub", Checkpoints::PerThread);
    outer = outer.edge(START, "plan").edge("plan", "sub");
    let bench = Bench::new(outer);
    let error = bench.start(json!({ "x": 1 })).await.unwrap_err();
    assert!(matches!(&error, RunError::SharedCalls { calls: 2, .. }), "{error}");
}

/// In LangGraph, such a run repeats the last output of the subgraph without running it.
#[tokio::test]
async fn goto_of_a_command_runs_a_per_thread_graph_again() {
    let mut inner = marks(&["i"]);
    inner = inner.edge(START, "i");
    let outer = builder().subgraph("sub", &compile(inner)).checkpoints("sub", Checkpoints::PerThread);
    let bench = Bench::new(outer.edge(START, "sub"));
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let _ = bench.command(Command::new().goto("sub")).await.unwrap();
    assert_eq!(bench.tally.all(), json!({ "i": 2 }));
}

/// Later calls merge the outer values into the state that the graph keeps, and the first call finds them in its state.
#[tokio::test]
async fn first_call_of_a_per_thread_graph_merges_outer_values_once() {
    let mut inner = builder();
    inner = inner.node("ask", asks(&["q"])).node("see", does(|task| Ok(json!({ "x": task.state().get("log") }))));
    inner = inner.edge(START, "ask").edge("ask", "see");
    let mut outer = builder();
    outer = outer.subgraph("sub", &compile(inner)).checkpoints("sub", Checkpoints::PerThread).edge(START, "sub");
    let bench = Bench::new(outer);
    for (input, answer, seen) in [("a", "A", json!(["a", "A"])), ("b", "B", json!(["a", "A", "a", "A", "b", "B"]))] {
        let _ = bench.start(json!({ "log": [input] })).await.unwrap();
        let Outcome::Finished(state) = bench.answer(answer).await.unwrap() else { panic!("it has not finished") };
        assert_eq!(state.get("x"), Some(&seen));
    }
}

#[tokio::test]
async fn per_thread_graph_keeps_all_values_of_a_sent_payload() {
    let mut inner = over(schema().last("item"));
    inner = inner.node("ask", asks(&["q"]));
    inner = inner.node("tell", does(|task| Ok(json!({ "log": [task.state().get("item")] }))));
    inner = inner.edge(START, "ask").edge("ask", "tell");
    let sends = NodeDef::task(|task: NodeTask| {
        let item = task.state().get("x").cloned();
        async move { Command::<DynState>::new().send("sub", json!({ "item": item })) }
    });
    let mut outer = builder().node("plan", sends).edge(START, "plan");
    outer = outer.subgraph("sub", &compile(inner)).checkpoints("sub", Checkpoints::PerThread);
    let bench = Bench::new(outer);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    assert_eq!(log(bench.answer("A").await.unwrap()), json!(["A", 1]));
    let _ = bench.start(json!({ "x": 2 })).await.unwrap();
    assert_eq!(log(bench.answer("B").await.unwrap()), json!(["A", 1, "B", 2]));
}

#[tokio::test]
async fn per_thread_graph_reads_untracked_values_in_each_call() {
    let both = || schema().untracked("handle");
    let tell = || does(|task| Ok(json!({ "log": [task.state().get("handle")] })));
    let mut inner = over(both()).node("before", tell()).node("ask", asks(&["q"])).node("after", tell());
    inner = inner.edge(START, "before").edge("before", "ask").edge("ask", "after");
    let mut outer = over(both());
    outer = outer.subgraph("sub", &compile(inner)).checkpoints("sub", Checkpoints::PerThread).edge(START, "sub");
    let bench = Bench::new(outer);
    for (input, resumed, expected) in
        [("h1", "h2", json!(["h1", "A", "h2"])), ("h3", "h4", json!(["h1", "A", "h2", "h3", "A", "h4"]))]
    {
        let _ = bench.start(json!({ "handle": input })).await.unwrap();
        let answer = Command::resume("A").with_update(bench.update(json!({ "handle": resumed })));
        assert_eq!(log(bench.command(answer).await.unwrap()), expected);
    }
}
