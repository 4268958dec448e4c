//! The stored size of a thread grows with its inputs, not with their number.

use hier_core::Durability;
use hier_core::checkpoint::{Checkpointer, MemorySaver, WriteRecord};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, Schema};
use hier_testkit::Layered;
use serde_json::{Value, json};

use super::faulty::Faulty;
use super::kit::*;

/// The bytes of the values in this namespace, without the ids of tasks.
fn stored(saver: &Faulty, wanted: &str) -> usize {
    let records = saver.records.lock().expect("no test panics here");
    let bytes = records.iter().filter_map(|record| match record {
        WriteRecord::Checkpoint { namespace, pieces, .. } if namespace.split(':').next() == Some(wanted) => {
            Some(pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>())
        }
        _ => None,
    });
    bytes.sum()
}

fn bench(builder: Builder) -> Bench<Layered<Faulty>> {
    Bench::on(builder, Faulty::new(&MemorySaver::new(), usize::MAX))
}

/// Lists that are declared at run time are stored in parts, as those of derived states.
#[tokio::test]
async fn lists_of_a_dynamic_state_are_stored_in_parts() {
    for (reducer, item) in [
        (Builtin::Append, (|turn| json!([format!("{turn:01000}")])) as fn(usize) -> Value),
        (Builtin::ById, |turn| json!([{ "id": turn, "text": format!("{turn:01000}") }])),
        (Builtin::Extend, |turn| json!({ format!("{turn}"): format!("{turn:01000}") })),
    ] {
        let mut graph = over(Schema::new().reduced("list", reducer).last("turn"));
        graph = graph.node(
            "add",
            does(move |task| {
                let turn = task.run().context().of("add");
                Ok(json!({ "list": item(turn), "turn": turn }))
            }),
        );
        let more = |state: &DynState| if state.get("turn") == Some(&json!(100)) { "end" } else { "more" };
        graph = graph.route(
            "add",
            "more",
            [("end", vec![hier_core::graph::EdgeEnd::from(END)]), ("more", vec!["add".into()])],
            more,
        );
        graph = graph.edge(START, "add");
        let mut bench = bench(graph);
        bench.config = bench.config.recursion_limit(200);
        let end = bench.start(json!({})).await.unwrap();
        assert!(end.is_finished(), "{end:?}");
        let bytes = stored(&bench.saver, "");
        assert!(bytes < 400_000, "{reducer:?}: {bytes} bytes for 100 items of 1000");
        assert_eq!(bench.state().await.values.to_value(), end.state().to_value(), "{reducer:?}");
    }
}

/// A subgraph keeps only those of its writes that can reach the outer graph, also in storage: of a plain channel
/// one value, however often it was written.
#[tokio::test]
async fn returned_writes_of_a_subgraph_are_compact() {
    for durability in [Durability::Sync, Durability::Exit] {
        let mut inner = builder();
        inner = inner.node(
            "write",
            does(|task| {
                let turn = task.run().context().of("write");
                Ok(json!({ "x": format!("{turn:050000}"), "log": [turn] }))
            }),
        );
        let more = |state: &DynState| if log_length(state) < 40 { "more" } else { "end" };
        inner = inner.route("write", "more", [("more", vec!["write"]), ("end", vec!["ask"])], more);
        inner = inner.node("ask", asks(&["?"])).edge(START, "write");
        let mut outer = builder();
        outer = outer.subgraph("sub", &compile(inner)).edge(START, "sub");
        let mut bench = bench(outer);
        bench.config = bench.config.durability(durability);
        assert_eq!(asked(bench.start(json!({ "log": [] })).await.unwrap()), ["?"]);
        let place = bench.state().await.tasks[0].state.clone().unwrap();
        let saved = bench.saver.get("t", place.checkpoint_namespace(), None).await.unwrap().unwrap();
        let returned = saved.checkpoint.channels.iter().position(|name| &**name == "__returned__");
        let chain = &saved.values.iter().find(|(channel, _)| Some(*channel) == returned).unwrap().1;
        let bytes = chain.full.iter().chain(&chain.deltas).map(Vec::len).sum::<usize>();
        assert!(bytes < 200_000, "{durability:?}: {bytes} bytes of 40 values of 50,000, of which one counts");
        let end = bench.answer("yes").await.unwrap();
        let state = end.state().to_value();
        assert_eq!(state["x"], json!(format!("{:050000}", 40)), "{durability:?}");
        let log: Vec<Value> = (1..=40).map(Value::from).chain([json!("yes")]).collect();
        assert_eq!(state["log"], json!(log), "{durability:?}");
    }
}

fn log_length(state: &DynState) -> usize {
    state.get("log").and_then(Value::as_array).map_or(0, Vec::len)
}

/// No record contains the value of an untracked channel: not the input, not the write of a task next to an open question,
/// and not the checkpoint of a superstep.
#[tokio::test]
async fn untracked_values_are_not_stored() {
    let mut graph = over(schema().untracked("handle"));
    graph = graph.node("opens", does(|_| Ok(json!({ "handle": "in memory", "x": "in the database" }))));
    graph = graph.node("asks", asks(&["continue?"])).node("last", mark());
    graph = graph.edge(START, "opens").edge(START, "asks").edge("opens", "last").edge("asks", "last");
    let bench = Bench::on(graph, Faulty::new(&MemorySaver::new(), usize::MAX));
    asked(bench.start(json!({ "handle": "in memory" })).await.expect("it asks"));
    log(bench.answer("yes").await.expect("it ends"));
    let records = format!("{:?}", bench.saver.records.lock().expect("no test panics here"));
    let has = |text: &str| records.contains(&format!("{:?}", text.as_bytes()).replace(['[', ']'], ""));
    assert!(has("in the database"), "{records}");
    assert!(!has("in memory"), "{records}");
}

/// The outer graph decides if it stores a subgraph's write. A write that was lost would be missing after the answer.
#[tokio::test]
async fn outer_graph_decides_if_a_write_is_stored() {
    for is_tracked in [false, true] {
        let handle = |tracks: bool| if tracks { schema().last("handle") } else { schema().untracked("handle") };
        let mut inner = over(handle(!is_tracked)).node("write", does(|_| Ok(json!({ "handle": "a value" }))));
        inner = inner.edge(START, "write");
        let mut outer = over(handle(is_tracked)).subgraph("sub", &compile(inner)).node("asks", asks(&["continue?"]));
        outer = outer.edge(START, "sub").edge(START, "asks");
        let bench = Bench::on(outer, MemorySaver::new());
        asked(bench.start(json!({})).await.expect("it asks"));
        let writes = bench.stored().await.expect("a checkpoint").writes;
        let stored = writes.iter().flat_map(|task| &task.writes).any(|write| &*write.channel == "handle");
        assert_eq!(stored, is_tracked);
        let Outcome::Finished(end) = bench.answer("yes").await.expect("it ends") else { panic!("nothing is asked") };
        assert_eq!(end.get("handle"), is_tracked.then_some(&json!("a value")));
    }
}
