//! Results that are used again for equal inputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::graph::Whole;
use hier_core::prelude::*;

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

/// How often the node ran.
type Runs = Arc<AtomicUsize>;

#[allow(clippy::needless_pass_by_value)] // shorter where it is called
fn says(text: impl ToString) -> TraceUpdate {
    Trace::update().log([text.to_string()])
}

async fn costly(state: &Trace, run: &Run<Runs>) -> TraceUpdate {
    let runs = run.context().fetch_add(1, Ordering::SeqCst) + 1;
    says(format!("x{} run{runs}", state.x))
}

async fn node(run: &Run<Runs>) -> TraceUpdate {
    says(run.node())
}

graph! { Cached<Trace, Runs> = Graph {
    nodes: [costly { cache: 60s }],
    edges: [START >> costly >> END],
} }

struct Bench<G: Graph> {
    graph: hier_core::graph::CompiledGraph<Trace, Runs, Whole, Trace>,
    runs: Runs,
    of: std::marker::PhantomData<G>,
}

impl<G: Graph<State = Trace, Context = Runs, Input = Whole, Output = Trace>> Bench<G> {
    fn new() -> Self {
        Self { graph: G::compile(), runs: Runs::default(), of: std::marker::PhantomData }
    }

    async fn run(&self, input: TraceUpdate) -> Result<String, RunError> {
        let out = self.graph.invoke(input, Config::default(), self.runs.clone()).await?;
        Ok(out.into_state().log.join(" "))
    }

    fn count(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn an_equal_input_is_a_hit_and_another_one_is_not() {
    let bench = Bench::<Cached>::new();
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(bench.run(Trace::update().x(2)).await.unwrap(), "x2 run2");
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(bench.count(), 2);
    let other = Bench::<Cached>::new();
    assert_eq!(other.run(Trace::update().x(2)).await.unwrap(), "x2 run1", "each compiled graph has its own cache");
}

#[tokio::test]
async fn what_is_managed_or_untracked_is_not_part_of_the_input() {
    let bench = Bench::<Cached>::new();
    bench.run(Trace::update().handle(1)).await.unwrap();
    bench.run(Trace::update().handle(2)).await.unwrap();
    let config = Config::default().recursion_limit(7);
    let _ = bench.graph.invoke(Trace::update(), config, bench.runs.clone()).await.unwrap();
    assert_eq!(bench.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_lives_as_long_as_its_ttl_or_until_it_is_cleared() {
    let bench = Bench::<Cached>::new();
    bench.run(Trace::update()).await.unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    bench.run(Trace::update()).await.unwrap();
    assert_eq!(bench.count(), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(bench.run(Trace::update()).await.unwrap(), "x0 run2", "the time counts from when it was stored");
    bench.graph.clear_cache();
    assert_eq!(bench.run(Trace::update()).await.unwrap(), "x0 run3");
}

mod failures {
    use super::*;

    async fn fails_once(run: &Run<Runs>) -> Result<TraceUpdate> {
        match run.context().fetch_add(1, Ordering::SeqCst) {
            0 => Err(NodeError::new("once")),
            runs => Ok(says(format!("run{}", runs + 1))),
        }
    }

    async fn fails(run: &Run<Runs>) -> Result<()> {
        run.context().fetch_add(1, Ordering::SeqCst);
        Err(NodeError::new("always"))
    }

    async fn handles() -> TraceUpdate {
        says("handled")
    }

    graph! { FailsOnce<Trace, Runs> = Graph {
        nodes: [fails_once { cache: 60s }],
        edges: [START >> fails_once >> END],
    } }
    graph! { Handled<Trace, Runs> = Graph {
        nodes: [fails { cache: 60s, on_error: handles }],
        edges: [START >> fails >> END],
    } }

    #[tokio::test]
    async fn failures_are_never_kept() {
        let bench = Bench::<FailsOnce>::new();
        assert!(bench.run(Trace::update()).await.is_err());
        assert_eq!(bench.run(Trace::update()).await.unwrap(), "run2");
        assert_eq!(bench.run(Trace::update()).await.unwrap(), "run2");
        let bench = Bench::<Handled>::new();
        assert_eq!(bench.run(Trace::update()).await.unwrap(), "handled");
        assert_eq!(bench.run(Trace::update()).await.unwrap(), "handled");
        assert_eq!(bench.count(), 2);
    }
}

mod routing {
    use super::*;

    async fn chooses(run: &Run<Runs>) -> Command<Trace> {
        run.context().fetch_add(1, Ordering::SeqCst);
        Command::update(says("chooses")).goto(Chooses::node).send(Chooses::item, 7_u8)
    }

    async fn item(Sent(n): Sent<u8>) -> TraceUpdate {
        says(n)
    }

    graph! { Chooses<Trace, Runs> = Graph {
        nodes: [chooses { cache: 60s, goto: [node, item] }, node, item],
        edges: [START >> chooses, node >> END, item >> END],
    } }

    #[tokio::test]
    async fn a_hit_leads_where_the_node_led() {
        let bench = Bench::<Chooses>::new();
        for _ in 0..3 {
            assert_eq!(bench.run(Trace::update()).await.unwrap(), "chooses node 7");
        }
        assert_eq!(bench.count(), 1);
    }

    fn is_big(state: &Trace) -> bool {
        state.x > 5
    }

    graph! { Routed<Trace, Runs> = Graph {
        nodes: [costly { cache: 60s }, node],
        edges: [START >> costly >> if is_big { node } else { END }, node >> END],
    } }

    #[tokio::test]
    async fn a_hit_is_routed_like_a_run() {
        let bench = Bench::<Routed>::new();
        for _ in 0..2 {
            assert_eq!(bench.run(Trace::update().x(9)).await.unwrap(), "x9 run1 node");
            assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run2");
        }
    }

    async fn square(Sent(n): Sent<u32>, run: &Run<Runs>) -> TraceUpdate {
        run.context().fetch_add(1, Ordering::SeqCst);
        says(n * n)
    }

    fn numbers(state: &Trace) -> Vec<u32> {
        (0..u32::try_from(state.x).unwrap_or(0)).collect()
    }

    graph! { Squares<Trace, Runs> = Graph {
        nodes: [square { cache: 60s }],
        edges: [START >> for n in numbers { square(n) }, square >> END],
    } }

    #[tokio::test]
    async fn what_was_sent_is_the_input_of_a_task_that_was_sent_it() {
        let bench = Bench::<Squares>::new();
        assert_eq!(bench.run(Trace::update().x(3)).await.unwrap(), "0 1 4");
        assert_eq!(bench.run(Trace::update().x(4)).await.unwrap(), "0 1 4 9");
        assert_eq!(bench.count(), 4);
    }
}

mod subgraphs {
    use super::*;

    graph! { Inner<Trace, Runs> = Graph { nodes: [costly, node], edges: [START >> costly >> node >> END] } }
    graph! { Outer<Trace, Runs> = Graph { nodes: [Inner { cache: 60s }], edges: [START >> Inner >> END] } }

    #[tokio::test]
    async fn a_whole_subgraph_can_be_kept() {
        let bench = Bench::<Outer>::new();
        for _ in 0..2 {
            assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1 node");
        }
        assert_eq!(bench.count(), 1);
    }
}

#[tokio::test]
async fn a_hit_is_marked_in_the_stream_and_has_no_task_result() {
    let bench = Bench::<Cached>::new();
    let mut told = Vec::new();
    for _ in 0..2 {
        let modes = [StreamMode::Updates, StreamMode::Tasks];
        let mut events = bench.graph.stream(Trace::update(), Config::default(), bench.runs.clone(), modes);
        let mut kinds = Vec::new();
        while let Some(event) = events.next().await {
            kinds.push(match event.unwrap() {
                Event::TaskStarted(_) => "start",
                Event::TaskFinished(_) => "end",
                Event::Updates(update) if update.cached => "cached",
                Event::Updates(_) => "update",
                _ => "else",
            });
        }
        told.push(kinds);
    }
    assert_eq!(told, [vec!["start", "update", "end"], vec!["start", "cached"]]);
    let mut events = bench.graph.stream(Trace::update(), Config::default(), bench.runs.clone(), [StreamMode::Updates]);
    let data = events.next().await.unwrap().unwrap().data().unwrap();
    assert_eq!(data, serde_json::json!({ "costly": { "log": ["x0 run1"] }, "__metadata__": { "cached": true } }));
}
