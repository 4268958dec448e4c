//! Results that are used again for equal inputs.

use std::cell::Cell;
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

thread_local! {
    /// How often the node ran, in a test: each has a thread of its own, or begins with a new bench.
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
    graph: hier_core::graph::CompiledGraph<Trace, (), Whole, Trace>,
    of: std::marker::PhantomData<G>,
}

impl<G: Graph<State = Trace, Context = (), Input = Whole, Output = Trace>> Bench<G> {
    fn new() -> Self {
        RUNS.set(0);
        Self { graph: G::compile(), of: std::marker::PhantomData }
    }

    async fn run(&self, input: TraceUpdate) -> Result<String, RunError> {
        let out = self.graph.invoke(input, Config::default(), ()).await?;
        Ok(out.into_state().log.join(" "))
    }
}

/// How often the node has run since the bench was made.
fn runs() -> usize {
    RUNS.get()
}

#[tokio::test]
async fn an_equal_input_is_a_hit_and_another_one_is_not() {
    let bench = Bench::<Cached>::new();
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(bench.run(Trace::update().x(2)).await.unwrap(), "x2 run2");
    assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1");
    assert_eq!(runs(), 2);
    let other = Bench::<Cached>::new();
    assert_eq!(other.run(Trace::update().x(2)).await.unwrap(), "x2 run1", "each compiled graph has its own cache");
}

#[tokio::test]
async fn what_is_managed_or_untracked_is_not_part_of_the_input() {
    let bench = Bench::<Cached>::new();
    bench.run(Trace::update().handle(1)).await.unwrap();
    bench.run(Trace::update().handle(2)).await.unwrap();
    let config = Config::default().recursion_limit(7);
    let _ = bench.graph.invoke(Trace::update(), config, ()).await.unwrap();
    assert_eq!(runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_lives_as_long_as_its_ttl_or_until_it_is_cleared() {
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
    async fn failures_are_never_kept() {
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
    async fn a_hit_leads_where_the_node_led() {
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
    async fn a_hit_is_routed_like_a_run() {
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
    async fn what_was_sent_is_the_input_of_a_task_that_was_sent_it() {
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
    async fn a_whole_subgraph_can_be_kept() {
        let bench = Bench::<Outer>::new();
        for _ in 0..2 {
            assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "x1 run1 node");
        }
        assert_eq!(runs(), 1);
    }
}

#[tokio::test]
async fn a_hit_is_marked_in_the_stream_and_has_no_task_result() {
    let bench = Bench::<Cached>::new();
    let mut told = Vec::new();
    for _ in 0..2 {
        let modes = [StreamMode::Updates, StreamMode::Tasks];
        let mut events = bench.graph.stream(Trace::update(), Config::default(), (), modes);
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
    let mut events = bench.graph.stream(Trace::update(), Config::default(), (), [StreamMode::Updates]);
    let data = events.next().await.unwrap().unwrap().data().unwrap();
    assert_eq!(data, serde_json::json!({ "costly": { "log": ["x0 run1"] }, "__metadata__": { "cached": true } }));
}

/// What one person was told or has answered is no other's.
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

    async fn told<G>(graph: &Compiled<G>, person: &str) -> String
    where
        G: Graph<State = Trace, Context = String, Input = Whole, Output = Trace>,
    {
        let out = graph.invoke(Trace::update(), Config::default(), person.to_owned()).await.unwrap();
        out.into_state().log.join(" ")
    }

    #[tokio::test]
    async fn a_result_that_used_the_context_is_not_kept() {
        let (alone, around, public) = (Secrets::compile(), Around::compile(), Public::compile());
        for person in ["ann", "bob", "ann"] {
            assert_eq!(told::<Secrets>(&alone, person).await, format!("secrets of {person}"));
            assert_eq!(told::<Around>(&around, person).await, format!("secrets of {person}"), "in a graph inside");
        }
        RUNS.set(0);
        assert_eq!(told::<Public>(&public, "ann").await, "run1");
        assert_eq!(told::<Public>(&public, "bob").await, "run1", "what used no context is for everybody");
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
        G: Graph<State = Trace, Context = (), Input = Whole, Output = Trace>,
    {
        for thread in ["a", "b"] {
            let asked = graph.invoke(Trace::update(), Config::thread(thread), ()).await.unwrap();
            assert!(matches!(asked, Outcome::Interrupted(_)));
        }
        for (thread, answer) in [("b", "approve"), ("a", "REJECT")] {
            let end = graph.invoke(Command::resume(answer), Config::thread(thread), ()).await.unwrap();
            assert_eq!(end.into_state().log, [answer]);
        }
        let asked = graph.invoke(Trace::update(), Config::thread("c"), ()).await.unwrap();
        assert!(matches!(asked, Outcome::Interrupted(_)), "the third is asked too");
    }

    #[tokio::test]
    async fn a_result_that_used_an_answer_is_not_kept() {
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

    /// There is an end to what is kept; what is kept last stays.
    #[tokio::test]
    async fn a_cache_keeps_the_latest_results() {
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

/// What tells inputs apart is what the node reads, or what a function says.
mod keys {
    use hier_core::graph::{Compiled, NodeDef};

    use super::*;

    /// What the node sees.
    #[derive(View)]
    #[view(of = Trace)]
    struct OnlyX<'a> {
        x: &'a i64,
        remaining_steps: &'a RemainingSteps,
    }

    async fn by_view(OnlyX { x, remaining_steps }: OnlyX<'_>) -> TraceUpdate {
        assert!(remaining_steps.get() > 0);
        says(format!("x{x} run{}", hit()))
    }

    graph! { Viewed<Trace> = Graph { nodes: [by_view { cache: 60s }], edges: [START >> by_view >> END] } }

    #[tokio::test]
    async fn a_node_with_a_view_has_equal_inputs_if_what_it_sees_is_equal() {
        let bench = Bench::<Viewed>::new();
        assert_eq!(bench.run(Trace::update().x(1).log(["a"])).await.unwrap(), "a x1 run1");
        assert_eq!(bench.run(Trace::update().x(1).log(["b"])).await.unwrap(), "b x1 run1", "the log is not looked at");
        assert_eq!(bench.run(Trace::update().x(2).log(["b"])).await.unwrap(), "b x2 run2");
    }

    /// The same channel under the name that it has in a larger state.
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Renamed {
        #[state(rename = "y")]
        x: i64,
        #[reducer(append)]
        log: Vec<String>,
    }

    #[derive(View)]
    #[view(of = Renamed)]
    struct RenamedX<'a> {
        x: &'a i64,
    }

    async fn of_renamed(RenamedX { x }: RenamedX<'_>) -> RenamedUpdate {
        Renamed::update().log([format!("y{x} run{}", hit())])
    }

    graph! { OfRenamed<Renamed> = Graph { nodes: [of_renamed { cache: 60s }], edges: [START >> of_renamed >> END] } }

    #[tokio::test]
    async fn a_renamed_channel_is_looked_at() {
        RUNS.set(0);
        let graph = OfRenamed::compile();
        let mut told = Vec::new();
        for (x, log) in [(1, "a"), (1, "b"), (2, "c")] {
            let out = graph.invoke(Renamed::update().x(x).log([log]), Config::default(), ()).await.unwrap();
            told.push(out.into_state().log[1].clone());
        }
        assert_eq!(told, ["y1 run1", "y1 run1", "y2 run2"]);
    }

    async fn sent_and_state(Sent(n): Sent<u32>, state: &Trace) -> TraceUpdate {
        says(format!("{n} of {} run{}", state.x, hit()))
    }

    fn one(_: &Trace) -> [u32; 1] {
        [7]
    }

    graph! { Both<Trace> = Graph {
        nodes: [sent_and_state { cache: 60s }],
        edges: [START >> for n in one { sent_and_state(n) }, sent_and_state >> END],
    } }

    #[tokio::test]
    async fn what_was_sent_does_not_hide_the_state_that_the_node_reads_too() {
        let bench = Bench::<Both>::new();
        assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "7 of 1 run1");
        assert_eq!(bench.run(Trace::update().x(2)).await.unwrap(), "7 of 2 run2");
        assert_eq!(bench.run(Trace::update().x(1)).await.unwrap(), "7 of 1 run1");
    }

    fn evenness(state: &Trace) -> bool {
        state.x % 2 == 0
    }

    graph! { Keyed<Trace> = Graph {
        nodes: [costly { cache: Cache { ttl: 60s, key: evenness } }],
        edges: [START >> costly >> END],
    } }

    #[tokio::test]
    async fn a_function_says_what_tells_inputs_apart() {
        let bench = Bench::<Keyed>::new();
        for (x, expected) in [(1, "x1 run1"), (3, "x1 run1"), (4, "x4 run2"), (5, "x1 run1"), (2, "x4 run2")] {
            assert_eq!(bench.run(Trace::update().x(x)).await.unwrap(), expected);
        }
    }

    async fn item(Sent(n): Sent<u32>) -> TraceUpdate {
        says(format!("{n} run{}", hit()))
    }

    fn upto(state: &Trace) -> Vec<u32> {
        (0..u32::try_from(state.x).unwrap_or(0)).collect()
    }

    graph! { KeyedSends<Trace> = Graph {
        nodes: [item { cache: Cache { ttl: 60s, key: |Sent(n): Sent<u32>| n / 10 } }],
        edges: [START >> for n in upto { item(n) }, item >> END],
    } }

    #[tokio::test]
    async fn a_key_takes_what_a_node_can_take() {
        let bench = Bench::<KeyedSends>::new();
        bench.run(Trace::update().x(1)).await.unwrap();
        assert_eq!(bench.run(Trace::update().x(3)).await.unwrap(), "0 run1 0 run1 0 run1");
    }

    async fn secrets(state: &Trace, run: &Run<String>) -> TraceUpdate {
        says(format!("{} of {} run{}", state.x, run.context(), hit()))
    }

    fn whose(state: &Trace, run: &Run<String>) -> (i64, String) {
        (state.x, run.context().clone())
    }

    fn anybodys(state: &Trace) -> i64 {
        state.x
    }

    graph! { Whose<Trace, String> = Graph {
        nodes: [secrets { cache: Cache { ttl: 60s, key: whose } }],
        edges: [START >> secrets >> END],
    } }
    graph! { Anybodys<Trace, String> = Graph {
        nodes: [secrets { cache: Cache { ttl: 60s, key: anybodys } }],
        edges: [START >> secrets >> END],
    } }
    graph! { AroundWhose<Trace, String> = Graph { nodes: [Whose { cache: 60s }], edges: [START >> Whose >> END] } }

    async fn told<G>(graph: &Compiled<G>, person: &str) -> String
    where
        G: Graph<State = Trace, Context = String, Input = hier_core::graph::Whole, Output = Trace>,
    {
        let out = graph.invoke(Trace::update().x(1), Config::default(), person.to_owned()).await.unwrap();
        out.into_state().log.join(" ")
    }

    #[tokio::test]
    async fn a_key_that_tells_people_apart_keeps_what_is_theirs() {
        RUNS.set(0);
        let (whose, around) = (Whose::compile(), AroundWhose::compile());
        for (person, expected) in [("ann", "1 of ann run1"), ("bob", "1 of bob run2"), ("ann", "1 of ann run1")] {
            assert_eq!(told::<Whose>(&whose, person).await, expected);
        }
        // Of a graph around it nobody has said so: also where the inner result was there already.
        for (person, expected) in [("ann", "1 of ann run3"), ("ann", "1 of ann run3"), ("bob", "1 of bob run4")] {
            assert_eq!(told::<AroundWhose>(&around, person).await, expected);
        }
    }

    #[tokio::test]
    async fn a_key_that_does_not_keeps_nothing_of_theirs() {
        RUNS.set(0);
        let graph = Anybodys::compile();
        for (person, expected) in [("ann", "1 of ann run1"), ("bob", "1 of bob run2"), ("ann", "1 of ann run3")] {
            assert_eq!(told::<Anybodys>(&graph, person).await, expected);
        }
    }

    #[tokio::test]
    async fn a_node_of_a_builder_has_a_key_too() {
        RUNS.set(0);
        let code = NodeDef::task(async |task: Task<Trace>| says(format!("x{} run{}", task.state().x, hit())));
        let code = code.cache(Duration::from_mins(1)).cache_key(|task| task.state().x % 2);
        let mut graph = GraphBuilder::<Trace>::new("keyed");
        graph.node("costly", code).edge(START, "costly").edge("costly", END);
        let graph = graph.compile().unwrap();
        let mut told = Vec::new();
        for x in [1, 3, 2] {
            let out = graph.invoke(Trace::update().x(x), Config::default(), ()).await.unwrap();
            told.push(out.into_state().log.join(" "));
        }
        assert_eq!(told, ["x1 run1", "x1 run1", "x2 run2"]);
    }

    #[tokio::test]
    async fn a_key_that_is_no_json_is_an_error_that_says_so() {
        let code = NodeDef::task(async |_: Task<Trace>| says("never"));
        let pairs = |_: &Task<Trace>| std::collections::HashMap::from([((1, 2), 3)]);
        let mut graph = GraphBuilder::<Trace>::new("keyed");
        graph.node("costly", code.cache(Duration::from_mins(1)).cache_key(pairs));
        graph.edge(START, "costly").edge("costly", END);
        let failed = graph.compile().unwrap().invoke(Trace::update(), Config::default(), ()).await.unwrap_err();
        assert!(failed.to_string().contains("the key of its `cache` is no JSON"), "{failed}");
    }
}
