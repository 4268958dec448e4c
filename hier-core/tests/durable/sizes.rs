//! What is stored of a thread grows with what it was given, and not with how often.

use hier_core::checkpoint::{MemorySaver, Record};
use hier_core::prelude::*;
use hier_core::state::Builtin;
use serde_json::{Value, json};

use super::faulty::Faulty;
use super::kit::*;

/// How many bytes of values have been stored in this namespace (without the ids of tasks).
fn stored(saver: &Faulty, wanted: &str) -> usize {
    let records = saver.records.lock().expect("no test panics here");
    let bytes = records.iter().filter_map(|record| match record {
        Record::Checkpoint { namespace, pieces, .. } if namespace.split(':').next() == Some(wanted) => {
            Some(pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>())
        }
        _ => None,
    });
    bytes.sum()
}

fn bench(builder: Builder) -> Bench<Faulty> {
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
        graph.node(
            "add",
            does(move |task| {
                let turn = task.run().context().of("add");
                Ok(json!({ "list": item(turn), "turn": turn }))
            }),
        );
        let more = |state: &DynState| if state.get("turn") == Some(&json!(100)) { "end" } else { "more" };
        graph.route(
            "add",
            "more",
            [("end", vec![hier_core::graph::Place::from(END)]), ("more", vec!["add".into()])],
            more,
        );
        graph.edge(START, "add");
        let mut bench = bench(graph);
        bench.config = bench.config.recursion_limit(200);
        let end = bench.start(json!({})).await.unwrap();
        assert!(end.is_finished(), "{end:?}");
        let bytes = stored(&bench.saver, "");
        assert!(bytes < 400_000, "{reducer:?}: {bytes} bytes for 100 items of 1000");
        assert_eq!(bench.state().await.values.to_value(), end.state().to_value(), "{reducer:?}");
    }
}
