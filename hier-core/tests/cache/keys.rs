//! Inputs differ by the channels that the node reads, or by a key function.

use hier_core::graph::{Compiled, GraphBuilder, NodeDef, Task};

use super::*;

/// The channels that the node reads.
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
async fn cache_key_of_a_view_node_covers_only_its_view() {
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
async fn cache_key_covers_a_renamed_channel() {
    RUNS.set(0);
    let graph = OfRenamed::compile();
    let mut received = Vec::new();
    for (x, log) in [(1, "a"), (1, "b"), (2, "c")] {
        let out = graph.invoke(Renamed::update().x(x).log([log])).await.unwrap();
        received.push(out.into_state().log[1].clone());
    }
    assert_eq!(received, ["y1 run1", "y1 run1", "y2 run2"]);
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
async fn cache_key_covers_payload_and_state() {
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
async fn key_function_determines_equal_inputs() {
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
async fn key_function_accepts_the_arguments_of_a_node() {
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

fn regardless_of_context(state: &Trace) -> i64 {
    state.x
}

graph! { Whose<Trace, String> = Graph {
    nodes: [secrets { cache: Cache { ttl: 60s, key: whose } }],
    edges: [START >> secrets >> END],
} }
graph! { Anybodys<Trace, String> = Graph {
    nodes: [secrets { cache: Cache { ttl: 60s, key: regardless_of_context } }],
    edges: [START >> secrets >> END],
} }
graph! { AroundWhose<Trace, String> = Graph { nodes: [Whose { cache: 60s }], edges: [START >> Whose >> END] } }

async fn answer_for<G>(graph: &Compiled<G>, person: &str) -> String
where
    G: Graph<State = Trace, Context = String, Input = hier_core::graph::FullState, Output = Trace>,
{
    let out = graph.invoke(Trace::update().x(1)).context(person.to_owned()).await.unwrap();
    out.into_state().log.join(" ")
}

#[tokio::test]
async fn key_with_the_user_caches_per_user() {
    RUNS.set(0);
    let (whose, around) = (Whose::compile(), AroundWhose::compile());
    for (person, expected) in [("ann", "1 of ann run1"), ("bob", "1 of bob run2"), ("ann", "1 of ann run1")] {
        assert_eq!(answer_for::<Whose>(&whose, person).await, expected);
    }
    // The surrounding graph has no key, so it is not cached, even if the inner result was.
    for (person, expected) in [("ann", "1 of ann run3"), ("ann", "1 of ann run3"), ("bob", "1 of bob run4")] {
        assert_eq!(answer_for::<AroundWhose>(&around, person).await, expected);
    }
}

#[tokio::test]
async fn key_without_the_user_caches_nothing_personal() {
    RUNS.set(0);
    let graph = Anybodys::compile();
    for (person, expected) in [("ann", "1 of ann run1"), ("bob", "1 of bob run2"), ("ann", "1 of ann run3")] {
        assert_eq!(answer_for::<Anybodys>(&graph, person).await, expected);
    }
}

#[tokio::test]
async fn builder_node_accepts_a_key_function() {
    RUNS.set(0);
    let code = NodeDef::task(async |task: Task<Trace>| says(format!("x{} run{}", task.state().x, hit())));
    let code = code.cache(Duration::from_mins(1)).cache_key(|task| task.state().x % 2);
    let mut graph = GraphBuilder::<Trace>::new("keyed");
    graph = graph.node("costly", code).edge(START, "costly").edge("costly", END);
    let graph = graph.compile().unwrap();
    let mut received = Vec::new();
    for x in [1, 3, 2] {
        let out = graph.invoke(Trace::update().x(x)).await.unwrap();
        received.push(out.into_state().log.join(" "));
    }
    assert_eq!(received, ["x1 run1", "x1 run1", "x2 run2"]);
}

/// A key that cannot be serialized.
struct Unserializable;

impl Serialize for Unserializable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it is locked"))
    }
}

#[tokio::test]
async fn unserializable_key_is_an_error() {
    let code = NodeDef::task(async |_: Task<Trace>| says("never"));
    let mut graph = GraphBuilder::<Trace>::new("keyed");
    graph = graph.node("costly", code.cache(Duration::from_mins(1)).cache_key(|_| Unserializable));
    graph = graph.edge(START, "costly").edge("costly", END);
    let failed = graph.compile().unwrap().invoke(Trace::update()).await.unwrap_err();
    assert!(failed.to_string().contains("the key of its `cache` cannot be serialized: it is locked"), "{failed}");
}
