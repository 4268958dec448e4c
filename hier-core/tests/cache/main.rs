//! Results that are used again for equal inputs.

mod keys;

use std::cell::Cell;
use std::time::Duration;

use hier_core::graph::{FullState, Graph};
use hier_core::prelude::*;
use hier_core::state::RemainingSteps;
use hier_core::{Event, Result};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trace {
    #[reducer(append)]
    log: Vec<String>,
    x: i64,
    #[channel(untracked)]
    #[serde(skip)]
    handle: Option<u8>,
    remaining_steps: RemainingSteps,
}

thread_local! {
    /// Counts the runs of the node in a test. Each test has its own thread, or begins with a new bench.
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a run.
fn hit() -> usize {
    RUNS.set(RUNS.get() + 1);
    RUNS.get()
}

#[allow(clippy::needless_pass_by_value)] // shorter where it is called
fn says(text: impl ToString) -> TraceUpdate {
    Trace::update().log([text.to_string()])
}

async fn costly(state: &Trace) -> TraceUpdate {
    says(format!("x{} run{}", state.x, hit()))
}

async fn node(run: &Run) -> TraceUpdate {
    says(run.node())
}

graph! { Cached<Trace> = Graph {
    nodes: [costly { cache: 60s }],
    edges: [START >> costly >> END],
} }

struct Bench<G: Graph> {
    graph: hier_core::graph::CompiledGraph<Trace, (), FullState, Trace>,
    of: std::marker::PhantomData<G>,
}

impl<G: Graph<State = Trace, Context = (), Input = FullState, Output = Trace>> Bench<G> {
    fn new() -> Self {
        RUNS.set(0);
        Self { graph: G::compile(), of: std::marker::PhantomData }
    }

    async fn run(&self, input: TraceUpdate) -> Result<String, RunError> {
        let out = self.graph.invoke(input).await?;
        Ok(out.into_state().log.join(" "))
    }
}

/// The number of runs since the bench was created.
fn runs() -> usize {
    RUNS.get()
}

#[tokio::test]
async fn equal_input_is_a_hit_and_different_input_a_miss() {
    let bench = Bench::<Cached>::new();
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(bench.run(Trace::update().x(2)).await.unwrap(), "x2 run2");
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(runs(), 2);
    let other = Bench::<Cached>::new();
    assert_eq!(other.run(Trace::update().x(2)).await.unwrap(), "x2 run1", "each compiled graph has its own cache");
}

mod other {
    use super::*;

    async fn costly(state: &Trace) -> TraceUpdate {
        says(format!("other{} run{}", state.x, hit()))
    }

    graph! { Other<Trace> = Graph {
        nodes: [costly { cache: 60s }],
        edges: [START >> costly >> END],
    } }

    graph! { Both<Trace> = Graph {
        nodes: [one = Cached, two = Other],
        edges: [START >> one >> two >> END],
    } }

    /// Nodes of one name with equal inputs, in two graphs of one process, also within one graph.
    #[tokio::test]
    async fn graphs_do_not_share_results() {
        let (cached, other) = (Bench::<Cached>::new(), Bench::<Other>::new());
        assert_eq!(cached.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
        assert_eq!(other.run(Trace::update().x(1)).await.unwrap(), "other1 run2");
        assert_eq!(cached.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
        let both = Bench::<Both>::new();
        let first = both.run(Trace::update().x(1)).await.unwrap();
        assert!(first.contains("x1 run1") && first.contains("other1 run2"), "{first}");
    }
}

#[tokio::test]
async fn managed_and_untracked_channels_are_not_part_of_the_key() {
    let bench = Bench::<Cached>::new();
    bench.run(Trace::update().handle(1)).await.unwrap();
    bench.run(Trace::update().handle(2)).await.unwrap();
    let config = Config::new().recursion_limit(7);
    let _ = bench.graph.invoke(Trace::update()).config(config).await.unwrap();
    assert_eq!(runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn result_expires_after_its_ttl_or_a_clear() {
    let bench = Bench::<Cached>::new();
    bench.run(Trace::update()).await.unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    bench.run(Trace::update()).await.unwrap();
    assert_eq!(runs(), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(bench.run(Trace::update()).await.unwrap(), "x0 run2", "the time counts from when it was stored");
    bench.graph.clear_cache();
    assert_eq!(bench.run(Trace::update()).await.unwrap(), "x0 run3");
}

mod failures {
    use super::*;

    async fn fails_once() -> Result<TraceUpdate> {
        match hit() {
            1 => Err(NodeError::new("once")),
            runs => Ok(says(format!("run{runs}"))),
        }
    }

    async fn fails() -> Result<()> {
        hit();
        Err(NodeError::new("always"))
    }

    async fn handles() -> TraceUpdate {
        says("handled")
    }

    graph! { FailsOnce<Trace> = Graph {
        nodes: [fails_once { cache: 60s }],
        edges: [START >> fails_once >> END],
    } }
    graph! { Handled<Trace> = Graph {
        nodes: [fails { cache: 60s, on_error: handles }],
        edges: [START >> fails >> END],
    } }

    #[tokio::test]
    async fn failures_are_never_cached() {
        let bench = Bench::<FailsOnce>::new();
        assert!(bench.run(Trace::update()).await.is_err());
        assert_eq!(bench.run(Trace::update()).await.unwrap(), "run2");
        assert_eq!(bench.run(Trace::update()).await.unwrap(), "run2");
        let bench = Bench::<Handled>::new();
        assert_eq!(bench.run(Trace::update()).await.unwrap(), "handled");
        assert_eq!(bench.run(Trace::update()).await.unwrap(), "handled");
        assert_eq!(runs(), 2);
    }
}

mod routing {
    use super::*;

    async fn chooses() -> Command<Trace> {
        hit();
        Command::update(says("chooses")).goto(Chooses::node).send(Chooses::item, 7_u8)
    }

    async fn item(Sent(n): Sent<u8>) -> TraceUpdate {
        says(n)
    }

    graph! { Chooses<Trace> = Graph {
        nodes: [chooses { cache: 60s, goto: [node, item] }, node, item],
        edges: [START >> chooses, node >> END, item >> END],
    } }

    #[tokio::test]
    async fn hit_repeats_the_nodes_command() {
        let bench = Bench::<Chooses>::new();
        for _ in 0..3 {
            assert_eq!(bench.run(Trace::update()).await.unwrap(), "chooses node 7");
        }
        assert_eq!(runs(), 1);
    }

    fn is_big(state: &Trace) -> bool {
        state.x > 5
    }

    graph! { Routed<Trace> = Graph {
        nodes: [costly { cache: 60s }, node],
        edges: [START >> costly >> if is_big { node } else { END }, node >> END],
    } }

    #[tokio::test]
    async fn hit_follows_routes_like_a_run() {
        let bench = Bench::<Routed>::new();
        for _ in 0..2 {
            assert_eq!(bench.run(Trace::update().x(9)).await.unwrap(), "x9 run1 node");
            assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run2");
        }
    }

    async fn square(Sent(n): Sent<u32>) -> TraceUpdate {
        hit();
        says(n * n)
    }

    fn numbers(state: &Trace) -> Vec<u32> {
        (0..u32::try_from(state.x).unwrap_or(0)).collect()
    }

    graph! { Squares<Trace> = Graph {
        nodes: [square { cache: 60s }],
        edges: [START >> for n in numbers { square(n) }, square >> END],
    } }

    #[tokio::test]
    async fn payload_is_the_input_of_a_sent_task() {
        let bench = Bench::<Squares>::new();
        assert_eq!(bench.run(Trace::update().x(3)).await.unwrap(), "0 1 4");
        assert_eq!(bench.run(Trace::update().x(4)).await.unwrap(), "0 1 4 9");
        assert_eq!(runs(), 4);
    }
}

mod subgraphs {
    use super::*;

    graph! { Inner<Trace> = Graph { nodes: [costly, node], edges: [START >> costly >> node >> END] } }
    graph! { Outer<Trace> = Graph { nodes: [Inner { cache: 60s }], edges: [START >> Inner >> END] } }

    #[tokio::test]
    async fn subgraph_result_can_be_cached() {
        let bench = Bench::<Outer>::new();
        for _ in 0..2 {
            assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1 node");
        }
        assert_eq!(runs(), 1);
    }
}

#[tokio::test]
async fn hit_is_marked_in_the_stream_and_has_no_task_result() {
    let bench = Bench::<Cached>::new();
    let mut received = Vec::new();
    for _ in 0..2 {
        let modes = [StreamMode::Updates, StreamMode::Tasks];
        let mut events = bench.graph.stream(Trace::update()).modes(modes);
        let mut kinds = Vec::new();
        while let Some(event) = events.next().await {
            kinds.push(match event.unwrap() {
                Event::Task(task) if task.phase.name() == "task" => "start",
                Event::Task(_) => "end",
                Event::Updates(update) if update.cached => "cached",
                Event::Updates(_) => "update",
                _ => "else",
            });
        }
        received.push(kinds);
    }
    assert_eq!(received, [vec!["start", "update", "end"], vec!["start", "cached"]]);
    let mut events = bench.graph.stream(Trace::update()).modes([StreamMode::Updates]);
    let data = events.next().await.unwrap().unwrap().data().unwrap();
    assert_eq!(data, serde_json::json!({ "costly": { "log": ["x0 run1"] }, "__metadata__": { "cached": true } }));
}

/// Results and answers of one person are not used for another.
mod people {
    use hier_core::checkpoint::MemorySaver;
    use hier_core::graph::Compiled;

    use super::*;

    async fn secrets(run: &Run<String>) -> TraceUpdate {
        hit();
        says(format!("secrets of {}", run.context()))
    }

    async fn public(_: &Trace) -> TraceUpdate {
        says(format!("run{}", hit()))
    }

    graph! { Secrets<Trace, String> = Graph { nodes: [secrets { cache: 60s }], edges: [START >> secrets >> END] } }
    graph! { Within<Trace, String> = Graph { nodes: [secrets], edges: [START >> secrets >> END] } }
    graph! { Around<Trace, String> = Graph { nodes: [Within { cache: 60s }], edges: [START >> Within >> END] } }
    graph! { Public<Trace, String> = Graph { nodes: [public { cache: 60s }], edges: [START >> public >> END] } }

    async fn answer_for<G>(graph: &Compiled<G>, person: &str) -> String
    where
        G: Graph<State = Trace, Context = String, Input = FullState, Output = Trace>,
    {
        let out = graph.invoke(Trace::update()).context(person.to_owned()).await.unwrap();
        out.into_state().log.join(" ")
    }

    #[tokio::test]
    async fn result_that_used_the_context_is_not_cached() {
        let (alone, around, public) = (Secrets::compile(), Around::compile(), Public::compile());
        for person in ["ann", "bob", "ann"] {
            assert_eq!(answer_for::<Secrets>(&alone, person).await, format!("secrets of {person}"));
            assert_eq!(
                answer_for::<Around>(&around, person).await,
                format!("secrets of {person}"),
                "in a graph inside"
            );
        }
        RUNS.set(0);
        assert_eq!(answer_for::<Public>(&public, "ann").await, "run1");
        assert_eq!(answer_for::<Public>(&public, "bob").await, "run1", "a result without context is shared");
    }

    async fn ask(run: &Run) -> Result<TraceUpdate> {
        hit();
        let answer: String = run.interrupt(&"pay?").await?;
        Ok(says(answer))
    }

    graph! { Asks<Trace> = Graph { nodes: [ask { cache: 60s }], edges: [START >> ask >> END] } }
    graph! { AskInside<Trace> = Graph { nodes: [ask], edges: [START >> ask >> END] } }
    graph! { AsksInside<Trace> = Graph { nodes: [AskInside { cache: 60s }], edges: [START >> AskInside >> END] } }

    /// Two threads in one state are asked the same; each gets its own answer, and a third is asked too.
    async fn asked_apart<G>(graph: Compiled<G>)
    where
        G: Graph<State = Trace, Context = (), Input = FullState, Output = Trace>,
    {
        for thread in ["a", "b"] {
            let asked = graph.invoke(Trace::update()).thread(thread).await.unwrap();
            assert!(matches!(asked, Outcome::Interrupted(_)));
        }
        for (thread, answer) in [("b", "approve"), ("a", "REJECT")] {
            let end = graph.invoke(Command::resume(answer)).thread(thread).await.unwrap();
            assert_eq!(end.into_state().log, [answer]);
        }
        let asked = graph.invoke(Trace::update()).thread("c").await.unwrap();
        assert!(matches!(asked, Outcome::Interrupted(_)), "the third is asked too");
    }

    #[tokio::test]
    async fn result_that_used_an_answer_is_not_cached() {
        asked_apart::<Asks>(Asks::compile().checkpointer(MemorySaver::new())).await;
        asked_apart::<AsksInside>(AsksInside::compile().checkpointer(MemorySaver::new())).await;
    }
}

mod size {
    use super::*;

    async fn square(Sent(n): Sent<u32>) -> TraceUpdate {
        hit();
        says(n)
    }

    fn numbers(state: &Trace) -> Vec<u32> {
        let from = u32::try_from(state.x).unwrap_or(0);
        (from..from + 5_000).collect()
    }

    graph! { Many<Trace> = Graph {
        nodes: [square { cache: 60s }],
        edges: [START >> for n in numbers { square(n) }, square >> END],
    } }

    /// The cache is bounded, and keeps the latest results.
    #[tokio::test]
    async fn cache_keeps_the_latest_results() {
        let bench = Bench::<Many>::new();
        for from in [0, 5_000, 10_000] {
            bench.run(Trace::update().x(from)).await.unwrap();
        }
        assert_eq!(RUNS.get(), 15_000);
        bench.run(Trace::update().x(10_000)).await.unwrap();
        assert_eq!(RUNS.get(), 15_000, "the latest are there");
        bench.run(Trace::update().x(0)).await.unwrap();
        assert!(RUNS.get() > 15_000, "the oldest are not");
    }
}
