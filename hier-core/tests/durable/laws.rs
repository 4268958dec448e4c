//! Laws of durable threads, over random graphs and random writes, on whatever saver. Other packages include this file to
//! check them on their savers.

use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, ListQuery};
use hier_core::graph::{CompiledGraph, GraphBuilder, NodeDef, Task};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, DynUpdate, Overwrite, Schema, Write};
use hier_core::{Durability, Outcome, StateSnapshot};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

pub(crate) type Saver = Arc<dyn Checkpointer>;
type Compiled = CompiledGraph<DynState>;

/// A random graph that ends: edges and Sends lead forward, and the last node goes back to the first this many times.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    nodes: usize,
    edges: Vec<(usize, usize)>,
    sends: Vec<(usize, usize, usize)>,
    join: Option<(usize, usize)>,
    deferred: Vec<usize>,
    overwriting: Vec<usize>,
    rounds: i64,
}

/// Random graphs.
pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    (2..6_usize).prop_flat_map(|nodes| {
        let pair = move || (0..nodes, 0..nodes).prop_filter("forward", |(from, to)| from < to);
        let sends = vec((pair(), 1..3_usize).prop_map(|((from, to), count)| (from, to, count)), 0..3);
        let some = || vec(0..nodes, 0..2);
        (vec(pair(), 1..7), sends, proptest::option::of(pair()), some(), some(), 0..3_i64).prop_map(
            move |(edges, sends, join, deferred, overwriting, rounds)| {
                let mut shape = Shape { nodes, edges, sends, join, deferred, overwriting, rounds };
                // All are reached.
                shape.edges.extend((1..nodes).map(|to| (to - 1, to)));
                shape
            },
        )
    })
}

fn name(node: usize) -> String {
    format!("n{node}")
}

fn node(overwrites: bool, is_first: bool) -> NodeDef<DynState> {
    NodeDef::task(move |task: Task<DynState>| {
        let seen = task.state().get("log").and_then(Value::as_array).map_or(0, Vec::len);
        let entry = json!([[task.run().node(), seen, task.sent_json().ok().flatten(), task.state().get("hint")]]);
        let schema = task.state().schema().clone();
        let write = || {
            let update = DynUpdate::default().write(&schema, "sum", json!(1))?;
            let update = if is_first {
                update.write(&schema, "rounds", json!(1))?.write(&schema, "hint", json!(seen))?
            } else {
                update
            };
            // Only a node that runs alone may overwrite: others could do so in the same step.
            if overwrites && is_first {
                return update.write(&schema, "log", Overwrite(entry));
            }
            update.write(&schema, "log", entry)?.write(&schema, "news", json!([seen]))
        };
        std::future::ready(write())
    })
}

impl Shape {
    fn graph(&self, saver: &Saver) -> Compiled {
        let schema = Schema::new()
            .reduced("log", Builtin::Append)
            .reduced("sum", Builtin::Sum)
            .reduced("rounds", Builtin::Sum)
            .topic("news", true)
            .ephemeral("hint");
        let mut graph = GraphBuilder::dynamic("law", schema);
        graph = graph.lenient();
        for at in 0..self.nodes {
            graph = graph.node(name(at), node(self.overwriting.contains(&at), at == 0));
        }
        graph = graph.edge(START, "n0");
        for (from, to) in &self.edges {
            graph = graph.edge(&*name(*from), &*name(*to));
        }
        for (number, (from, to, count)) in self.sends.iter().copied().enumerate() {
            graph =
                graph.each(&*name(from), format!("send{number}"), &*name(to), move |_| (0..count).collect::<Vec<_>>());
        }
        if let Some((first, second)) = self.join {
            graph = graph.join([&*name(first), &*name(second)], &*name(self.nodes - 1));
        }
        for node in self.deferred.iter().filter(|node| **node > 0) {
            graph = graph.defer(&name(*node));
        }
        let rounds = self.rounds;
        let again = move |state: &DynState| {
            if state.get("rounds").and_then(Value::as_i64) <= Some(rounds) { "again" } else { "end" }
        };
        graph = graph.route(&*name(self.nodes - 1), "again", [("again", vec!["n0"]), ("end", Vec::new())], again);
        graph.compile().unwrap_or_else(|error| panic!("{error}")).checkpointer(saver.clone())
    }
}

fn config(thread: &str) -> Config {
    Config::new().thread(thread).recursion_limit(200)
}

async fn start(graph: &Compiled, config: Config) -> Result<Outcome<DynState>, RunError> {
    graph.invoke(graph.update(json!({ "log": ["in"] })).expect("an update")).config(config).await
}

/// A run that stops after each step and continues equals one that never stopped.
pub(crate) async fn stopping_changes_nothing(shape: Shape, saver: Saver) {
    let graph = shape.graph(&saver);
    let whole = start(&graph, config("whole")).await.expect("it ends").into_state().to_value();
    for durability in [Durability::Sync, Durability::Exit] {
        let thread = format!("stops {durability:?}");
        let stops = config(&thread).interrupt_after((0..shape.nodes).map(name)).durability(durability);
        let mut outcome = start(&graph, stops.clone()).await.expect("it begins");
        while !outcome.is_finished() {
            let state = graph.state(config(&thread)).await.expect("it can be read");
            assert_eq!(state.values.to_value(), outcome.state().to_value(), "the stored values are complete");
            // Another process would build the graph anew.
            outcome = shape.graph(&saver).invoke(()).config(stops.clone()).await.expect("it goes on");
        }
        assert_eq!(outcome.into_state().to_value(), whole, "{durability:?}");
    }
}

/// From each checkpoint of its history a run comes to the same end.
pub(crate) async fn replaying_changes_nothing(shape: Shape, saver: Saver) {
    let graph = shape.graph(&saver);
    let whole = start(&graph, config("whole")).await.expect("it ends").into_state().to_value();
    let history = graph.history(config("whole"), ListQuery::default()).await.expect("it can be read");
    let record = |at: &StateSnapshot<DynState>| (at.checkpoint, at.values.to_value(), at.next.clone());
    let records: Vec<_> = history.iter().map(record).collect();
    for at in history.iter().step_by(history.len() / 8 + 1) {
        let from = config("whole").checkpoint(at.checkpoint.expect("it is stored"));
        let again = graph.invoke(()).config(from).await.expect("it ends again").into_state().to_value();
        assert_eq!(again, whole, "from step {}", at.step);
        let live = graph.state(config("whole")).await.expect("it can be read");
        assert_eq!(live.values.to_value(), whole, "and that is the latest");
    }
    let after = graph.history(config("whole"), ListQuery::default()).await.expect("it can be read");
    let kept: Vec<_> = after[after.len() - records.len()..].iter().map(record).collect();
    assert_eq!(kept, records, "the old branch is as it was");
}

/// One turn of a thread: what is added to its list, whether that takes the place of what was there, and how many turns
/// the next goes back.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    items: Vec<u16>,
    overwrites: bool,
    back: Option<usize>,
}

/// Random turns.
pub(crate) fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let back = prop_oneof![6 => Just(None), 1 => (0..12_usize).prop_map(Some)];
    let turn = (vec(any::<u16>(), 0..6), proptest::bool::weighted(0.08), back);
    vec(turn.prop_map(|(items, overwrites, back)| Turn { items, overwrites, back }), 1..60)
}

/// A list that is stored in parts equals the written values, on each branch, at each turn.
pub(crate) async fn parts_make_the_whole(turns: Vec<Turn>, saver: Saver) {
    let schema = Schema::new().reduced("list", Builtin::Append);
    let mut graph = GraphBuilder::dynamic("turns", schema);
    graph = graph.node("turn", |_: Task<DynState>| async {}).edge(START, "turn").edge("turn", END);
    let graph: Compiled = graph.compile().expect("it is a graph").checkpointer(saver);
    let schema = graph.state(config("t")).await.expect("it is empty").values.schema().clone();
    let mut made: Vec<(Config, Value)> = Vec::new();
    for turn in turns {
        let (from, mut list) = match turn.back.filter(|back| *back < made.len()) {
            Some(back) => made[made.len() - 1 - back].clone(),
            None => (config("t"), made.last().map_or(json!([]), |(_, list)| list.clone())),
        };
        let items = json!(turn.items);
        let write: Write<Value> = if turn.overwrites { Overwrite(items.clone()).into() } else { items.clone().into() };
        let update = DynUpdate::default().write(&schema, "list", write).expect("there is such a channel");
        let end = graph.invoke(update).config(from).await.expect("it ends");
        match (turn.overwrites, list.as_array_mut()) {
            (false, Some(list)) => list.extend(items.as_array().cloned().unwrap_or_default()),
            _ => list = items,
        }
        assert_eq!(end.state().get("list"), Some(&list));
        let state = graph.state(config("t")).await.expect("it can be read");
        assert_eq!(state.values.get("list"), Some(&list));
        made.push((state.config, list));
    }
    for (at, list) in made {
        let state = graph.state(at).await.expect("it can be read");
        assert_eq!(state.values.get("list"), Some(&list));
    }
}
