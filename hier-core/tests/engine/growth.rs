//! The stored size of a thread grows with its changes, not with steps times state. After a run the engine keeps nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::Durability;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Commit, Lease, LeaseState, MemorySaver, SaverError, WriteRecord,
};
use hier_core::graph::{CompiledGraph, GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, Schema};
use hier_testkit::{Layered, SaverLayer};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Counts the stored bytes.
#[derive(Default)]
struct Counting {
    memory: MemorySaver,
    /// True if commits are made in the background, as for a shared saver.
    in_background: bool,
    bytes: AtomicUsize,
    rows: AtomicUsize,
}

impl Counting {
    fn count(&self, records: &[WriteRecord]) {
        for record in records {
            let (rows, bytes) = match record {
                WriteRecord::Checkpoint { checkpoint, pieces, .. } => {
                    let sent = checkpoint.agenda.sends.iter().map(|send| send.payload.len()).sum::<usize>();
                    (1 + pieces.len(), sent + pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>())
                }
                WriteRecord::Writes { writes, .. } => {
                    (writes.writes.len(), writes.writes.iter().map(|write| write.value.len()).sum())
                }
            };
            self.rows.fetch_add(rows, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

#[hier_core::async_trait]
impl SaverLayer for Counting {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.memory
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities().with_leases_expiring(self.in_background)
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        self.count(&commit.records);
        self.memory.commit(lease, commit).await
    }
}

/// The write of a step: the kind of channel and the size.
type Change = (&'static str, usize);

fn written(step: usize, (channel, size): Change) -> Value {
    let text = "x".repeat(size);
    match channel {
        "last" => json!(text),
        "map" => json!({ format!("{step}"): text }),
        "by_id" => json!([{ "id": step, "text": text }]),
        _ => json!([text]),
    }
}

fn wide(step: usize) -> bool {
    (step + 1).is_multiple_of(4)
}

/// One node a step; in each fourth two, so that tasks write for themselves.
fn graph(changes: &[Change]) -> CompiledGraph<DynState, Arc<()>> {
    let schema = Schema::new().last("still").last("last").last("step");
    let schema = schema.reduced("list", Builtin::Append).reduced("map", Builtin::Extend);
    let schema = schema.reduced("by_id", Builtin::ById).reduced("beside", Builtin::Append);
    let mut graph: GraphBuilder<DynState, Arc<()>> = GraphBuilder::dynamic("grows", schema);
    let (changes, count) = (changes.to_vec(), changes.len());
    let at = |state: &DynState| {
        let step = state.get("step").and_then(Value::as_u64);
        step.and_then(|step| usize::try_from(step).ok()).unwrap_or_default()
    };
    graph = graph.node("change", move |task: Task<DynState, Arc<()>>| {
        let step = at(task.state());
        let change = changes[step];
        async move { task.state().update(json!({ change.0: written(step, change), "step": step + 1 })) }
    });
    graph = graph
        .node("beside", |task: Task<DynState, Arc<()>>| async move { task.state().update(json!({ "beside": ["y"] })) });
    graph = graph.edge(START, "change").edge("beside", END);
    let places = [
        ("one", vec![hier_core::graph::EdgeEnd::from("change")]),
        ("two", vec!["change".into(), "beside".into()]),
        ("end", vec![END.into()]),
    ];
    graph = graph.route("change", "more", places, move |state: &DynState| match at(state) {
        step if step >= count => "end",
        step if wide(step) => "two",
        _ => "one",
    });
    graph.compile().expect("a graph")
}

/// A state of which only a small part changes.
const STILL: usize = 100_000;

/// Runs it, and returns how many bytes and rows were stored.
async fn stored(changes: &[Change], durability: Durability, in_background: bool) -> (usize, usize) {
    let (saver, context) = (Arc::new(Layered(Counting { in_background, ..Counting::default() })), Arc::new(()));
    let graph = graph(changes).checkpointer(saver.clone());
    let held = (Arc::strong_count(&saver), Arc::strong_count(&context));
    let input = graph.update(json!({ "still": "s".repeat(STILL) })).expect("an input");
    let config = Config::new().thread("t").durability(durability).recursion_limit(changes.len() + 2);
    let end = graph.invoke(input).config(config).context(context.clone()).await.expect("it ends");
    assert!(end.is_finished(), "{end:?}");
    drop(end);
    let after = (Arc::strong_count(&saver), Arc::strong_count(&context));
    assert_eq!(after, held, "the engine keeps something of a run that has ended");
    (saver.bytes.load(Ordering::Relaxed), saver.rows.load(Ordering::Relaxed))
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let channel = prop::sample::select(vec!["last", "list", "map", "by_id"]);
    prop::collection::vec((channel, 0..1_000_usize), 20..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// An addition is stored as the write of its task, as an addition, and now and then within a whole value.
    #[test]
    fn stored_size_is_proportional_to_the_change(changes in changes()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let changed: usize = changes.iter().map(|(_, size)| size).sum();
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            for in_background in [false, true] {
                let (bytes, rows) = runtime.block_on(stored(&changes, durability, in_background));
// The input is stored as given, and as the value.
                let most = 2 * STILL + 4 * changed + 100 * changes.len() + 1_000;
                prop_assert!(bytes <= most, "{durability:?}: {bytes} bytes of at most {most} for {changed} bytes that changed");
                let most = 8 * (changes.len() + 2);
                prop_assert!(rows <= most, "{durability:?}: {rows} rows of at most {most} in {} steps", changes.len());
            }
        }
    }
}
