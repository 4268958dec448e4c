//! Events of runs on threads, in the order of LangGraph 1.2.22.

use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{FullState, GraphBuilder, GraphInput, NodeDef, Task};
use hier_core::prelude::*;
use hier_core::state::{ChannelWrite, DynState, DynUpdate, Update};
use hier_core::{Event, NodeError, StateUpdate};
use serde_json::{Value, json};

use super::kit::*;

const MODES: [StreamMode; 5] =
    [StreamMode::Values, StreamMode::Updates, StreamMode::Custom, StreamMode::Tasks, StreamMode::Checkpoints];

/// An event as `[mode, payload]`, without values that differ between runs.
fn short(mode: &str, data: &Value) -> Value {
    let values = |questions: &Value| match questions.as_array() {
        Some(list) => list.iter().map(|question| question["value"].clone()).collect(),
        None => Value::Null,
    };
    match mode {
        "checkpoints" => {
            let Value::Object(metadata) = &data["metadata"] else { panic!("{data}") };
            json!([mode, metadata["source"], metadata["step"], data["next"], data["values"]])
        }
        "tasks" if data.get("input").is_some() => json!([mode, "start", data["name"]]),
        "tasks" => json!([mode, "result", data["name"], data["error"], data["result"], values(&data["interrupts"])]),
        "updates" if data.get("__interrupt__").is_some() => json!([mode, "asks", values(&data["__interrupt__"])]),
        _ => json!([mode, data]),
    }
}

/// Returns the events of a stream, each with the depth of its graph.
async fn events_of(bench: &Bench, input: impl GraphInput<DynState, FullState>, subgraphs: bool) -> Vec<Value> {
    let config = bench.config.clone().stream_subgraphs(subgraphs);
    let mut stream = bench.graph.stream(input).config(config).context(bench.tally.clone()).modes(MODES);
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        let event: Event<DynState> = match event {
            Ok(event) => event,
            Err(error) => {
                events.push(json!(["error", error.to_string()]));
                break;
            }
        };
        let json = event.to_json().unwrap();
        let depth = json["ns"].as_array().unwrap().len();
        let mut short = short(json["type"].as_str().unwrap(), &json["data"]);
        if subgraphs {
            short.as_array_mut().unwrap().insert(0, json!(depth));
        }
        events.push(short);
    }
    events
}

/// Compares a stream with LangGraph's.
fn same(received: &[Value], expected: &Value) {
    let expected = expected.as_array().unwrap();
    for (received, expected) in received.iter().zip(expected) {
        assert_eq!(received, expected);
    }
    assert_eq!(received.len(), expected.len());
}

fn start(bench: &Bench) -> DynUpdate {
    bench.update(json!({ "x": 1 }))
}

/// `a` as given, then a `b` that logs its name.
fn then_b(a: Node) -> Bench {
    let mut graph = marks(&["b"]);
    graph = graph.node("a", a).edge(START, "a").edge("a", "b");
    Bench::new(graph)
}

/// Returns these events and those after `a`.
fn from_a_on(begin: &Value) -> Value {
    let rest = json!([
        ["updates", { "a": { "log": ["a"] } }],
        ["tasks", "result", "a", null, { "log": ["a"] }, []],
        ["values", { "log": ["a"], "x": 1 }],
        ["checkpoints", "loop", 1, ["b"], { "log": ["a"], "x": 1 }],
        ["tasks", "start", "b"],
        ["updates", { "b": { "log": ["b"] } }],
        ["tasks", "result", "b", null, { "log": ["b"] }, []],
        ["values", { "log": ["a", "b"], "x": 1 }],
        ["checkpoints", "loop", 2, [], { "log": ["a", "b"], "x": 1 }],
    ]);
    [begin, &rest].into_iter().flat_map(|events| events.as_array().unwrap()).cloned().collect()
}

#[tokio::test]
async fn all_modes_have_one_order() {
    let bench = then_b(NodeDef::task(async |task: NodeTask| {
        task.run().emit(json!({ "c": 1 }));
        task.state().update(json!({ "log": ["a"] }))
    }));
    let expected = json!([
        ["checkpoints", "input", -1, ["__start__"], { "log": [] }],
        ["values", { "log": [], "x": 1 }],
        ["checkpoints", "loop", 0, ["a"], { "log": [], "x": 1 }],
        ["tasks", "start", "a"],
        ["custom", { "c": 1 }],
    ]);
    same(&events_of(&bench, start(&bench), false).await, &from_a_on(&expected));
}

#[tokio::test]
async fn continued_run_reports_its_checkpoint() {
    let bench = then_b(fails(1));
    let expected = json!([
        ["checkpoints", "input", -1, ["__start__"], { "log": [] }],
        ["values", { "log": [], "x": 1 }],
        ["checkpoints", "loop", 0, ["a"], { "log": [], "x": 1 }],
        ["tasks", "start", "a"],
        ["tasks", "result", "a", "boom", {}, []],
        ["error", "node `a` of graph `case` failed: boom"],
    ]);
    same(&events_of(&bench, start(&bench), false).await, &expected);
    let expected = json!([
        ["values", { "log": [], "x": 1 }],
        ["checkpoints", "loop", 0, ["a"], { "log": [], "x": 1 }],
        ["tasks", "start", "a"],
    ]);
    same(&events_of(&bench, (), false).await, &from_a_on(&expected));
    let end = json!([
        ["values", { "log": ["a", "b"], "x": 1 }],
        ["checkpoints", "loop", 2, [], { "log": ["a", "b"], "x": 1 }],
    ]);
    same(&events_of(&bench, (), false).await, &end);
}

#[tokio::test]
async fn replay_and_update_report_their_fork() {
    let mut bench = Bench::new(row(&["a", "b"]));
    assert!(matches!(bench.start(json!({ "x": 1 })).await, Ok(Outcome::Finished(_))));
    bench.config = bench.at(2).await;
    for (source, x) in [("fork", 1), ("update", 7)] {
        if source == "update" {
            let update = StateUpdate::update(bench.update(json!({ "x": x })));
            bench.config = bench.graph.update_state(bench.config.clone(), update).await.unwrap();
        }
        let expected = json!([
            ["values", { "log": ["a"], "x": x }],
            ["checkpoints", source, 2, ["b"], { "log": ["a"], "x": x }],
            ["tasks", "start", "b"],
            ["updates", { "b": { "log": ["b"] } }],
            ["tasks", "result", "b", null, { "log": ["b"] }, []],
            ["values", { "log": ["a", "b"], "x": x }],
            ["checkpoints", "loop", 3, [], { "log": ["a", "b"], "x": x }],
        ]);
        same(&events_of(&bench, (), false).await, &expected);
    }
}

#[tokio::test]
async fn replay_of_the_input_begins_at_the_start() {
    let mut bench = Bench::new(row(&["a"]));
    assert!(matches!(bench.start(json!({ "x": 1 })).await, Ok(Outcome::Finished(_))));
    bench.config = bench.at(0).await;
    let events = events_of(&bench, (), false).await;
    assert_eq!(events[1], json!(["checkpoints", "fork", 0, ["__start__"], { "log": [] }]));
    assert_eq!(events.last(), Some(&json!(["checkpoints", "loop", 2, [], { "log": ["a"], "x": 1 }])));
}

/// A question is a separate event here, and not repeated among the values.
#[tokio::test]
async fn question_precedes_the_end_of_its_task_in_the_stream() {
    let mut graph = marks(&["p"]);
    graph = graph.node("q", asks(&["?"])).edge(START, "p").edge(START, "q");
    let bench = Bench::new(graph);
    let events = events_of(&bench, start(&bench), false).await;
    // The order of the two is not fixed.
    let of_q: Vec<Value> = events.iter().filter(|event| event[2] == "q" || event[1] == "asks").cloned().collect();
    let asked =
        json!([["tasks", "start", "q"], ["updates", "asks", ["?"]], ["tasks", "result", "q", null, {}, ["?"]],]);
    same(&of_q, &asked);
    assert_eq!(events[events.len() - 1], json!(["values", { "log": ["p"], "x": 1 }]));
    let expected = json!([
        ["values", { "log": [], "x": 1 }],
        ["checkpoints", "loop", 0, ["p", "q"], { "log": [], "x": 1 }],
        ["tasks", "start", "p"],
        ["tasks", "start", "q"],
        ["updates", { "__metadata__": { "cached": true }, "p": { "log": ["p"] } }],
        ["updates", { "q": { "log": ["yes"] } }],
        ["tasks", "result", "q", null, { "log": ["yes"] }, []],
        ["values", { "log": ["p", "yes"], "x": 1 }],
        ["checkpoints", "loop", 1, [], { "log": ["p", "yes"], "x": 1 }],
    ]);
    same(&events_of(&bench, Command::resume("yes"), false).await, &expected);
}

/// An input from `update_state` is applied with the superstep that it waits in.
#[tokio::test]
async fn values_show_the_input_of_a_superstep_that_asks() {
    let mut graph = marks(&["a"]).node("b", asks(&["?"]));
    graph = graph.edge(START, "a").edge("a", "b").interrupt_before(["b"]);
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let input = StateUpdate::input(bench.update(json!({ "x": 5, "log": ["in"] })));
    bench.graph.update_state(bench.config.clone(), input).await.unwrap();
    let before = bench.state().await;
    assert_eq!((json!(before.next), log_of(&before)), (json!(["__start__", "b"]), json!(["a"])));
    let expected = json!([
        ["values", { "log": ["a"], "x": 1 }],
        ["checkpoints", "input", 2, ["__start__"], { "log": ["a"], "x": 1 }],
        ["tasks", "start", "b"],
        ["updates", "asks", ["?"]],
        ["tasks", "result", "b", null, {}, ["?"]],
        ["values", { "log": ["a", "in"], "x": 5 }],
    ]);
    same(&events_of(&bench, (), false).await, &expected);
    let waiting = bench.state().await;
    assert_eq!((json!(waiting.next), log_of(&waiting)), (json!(["b"]), json!(["a", "in"])));
    let events = events_of(&bench, Command::resume("yes"), false).await;
    let values: Vec<&Value> =
        events.iter().filter(|event| event[0] == "values").map(|event| &event[1]["log"]).collect();
    assert_eq!(values, [&json!(["a"]), &json!(["a", "in", "yes"]), &json!(["a", "in", "yes", "a"])]);
}

#[tokio::test]
async fn node_and_its_handler_both_report_their_end() {
    let broken = || does(|_| Err(NodeError::permanent("boom")));
    let handled = broken().on_error(async |task: NodeTask| task.state().update(json!({ "log": ["handled"] })));
    let fails = broken().on_error(async |_: NodeTask| Err::<DynUpdate, _>(NodeError::permanent("the handler too")));
    let asks = broken().on_error(async |task: NodeTask| {
        let answer: String = task.run().interrupt(&"what now?").await?;
        task.state().update(json!({ "log": [answer] }))
    });
    for (node, result) in [
        (asks, json!(["tasks", "result", "__error_handler__a", null, {}, ["what now?"]])),
        (handled, json!(["tasks", "result", "__error_handler__a", null, { "log": ["handled"] }, []])),
        (fails, json!(["tasks", "result", "__error_handler__a", "the handler too", {}, []])),
    ] {
        for nodes in [&[][..], &["b"]] {
            let mut graph = marks(nodes).node("a", node.clone()).edge(START, "a");
            for other in nodes {
                graph = graph.edge(START, *other);
            }
            let bench = Bench::new(graph);
            let events = events_of(&bench, start(&bench), false).await;
            let of_a =
                |event: &&Value| event[0] == "tasks" && event[2].as_str().is_some_and(|name| name.ends_with('a'));
            let of_a: Vec<Value> = events.iter().filter(of_a).cloned().collect();
            same(&of_a, &json!([["tasks", "start", "a"], ["tasks", "result", "a", "boom", {}, []], result]));
        }
    }
}

/// With the differences that the docs name: a subgraph starts from the parent's values before its input, and its node's
/// update is what it wrote, write by write.
#[tokio::test]
async fn inner_question_is_reported_once_per_level() {
    let mut inner = marks(&["s1"]);
    inner = inner.node("s2", asks(&["?"])).edge(START, "s1").edge("s1", "s2");
    let mut graph = builder();
    graph = graph.subgraph("sub", &compile(inner)).edge(START, "sub");
    let bench = Bench::new(graph);
    let expected = json!([
        [0, "checkpoints", "input", -1, ["__start__"], { "log": [] }],
        [0, "values", { "log": [], "x": 1 }],
        [0, "checkpoints", "loop", 0, ["sub"], { "log": [], "x": 1 }],
        [0, "tasks", "start", "sub"],
        [1, "checkpoints", "input", -1, ["__start__"], { "log": [], "x": 1 }],
        [1, "values", { "log": [], "x": 1 }],
        [1, "checkpoints", "loop", 0, ["s1"], { "log": [], "x": 1 }],
        [1, "tasks", "start", "s1"],
        [1, "updates", { "s1": { "log": ["s1"] } }],
        [1, "tasks", "result", "s1", null, { "log": ["s1"] }, []],
        [1, "values", { "log": ["s1"], "x": 1 }],
        [1, "checkpoints", "loop", 1, ["s2"], { "log": ["s1"], "x": 1 }],
        [1, "tasks", "start", "s2"],
        [1, "updates", "asks", ["?"]],
        [1, "tasks", "result", "s2", null, {}, ["?"]],
        [0, "updates", "asks", ["?"]],
        [0, "tasks", "result", "sub", null, {}, ["?"]],
    ]);
    same(&events_of(&bench, start(&bench), true).await, &expected);
    let expected = json!([
        [0, "values", { "log": [], "x": 1 }],
        [0, "checkpoints", "loop", 0, ["sub"], { "log": [], "x": 1 }],
        [0, "tasks", "start", "sub"],
        [1, "values", { "log": ["s1"], "x": 1 }],
        [1, "checkpoints", "loop", 1, ["s2"], { "log": ["s1"], "x": 1 }],
        [1, "tasks", "start", "s2"],
        [1, "updates", { "s2": { "log": ["yes"] } }],
        [1, "tasks", "result", "s2", null, { "log": ["yes"] }, []],
        [1, "values", { "log": ["s1", "yes"], "x": 1 }],
        [1, "checkpoints", "loop", 2, [], { "log": ["s1", "yes"], "x": 1 }],
        [0, "updates", { "sub": [{ "log": ["s1"] }, { "log": ["yes"] }] }],
        [0, "tasks", "result", "sub", null, [{ "log": ["s1"] }, { "log": ["yes"] }], []],
        [0, "values", { "log": ["s1", "yes"], "x": 1 }],
        [0, "checkpoints", "loop", 1, [], { "log": ["s1", "yes"], "x": 1 }],
    ]);
    same(&events_of(&bench, Command::resume("yes"), true).await, &expected);
}

/// A state with a secret.
#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Vault {
    #[channel(secret)]
    token: Option<String>,
    #[reducer(append)]
    log: Vec<String>,
}

#[tokio::test]
async fn restored_results_are_streamed_without_secrets() {
    let renew = async |_: Task<Vault>| Vault::update().token("t0k3n".to_owned()).log(["renewed"]);
    let ask = async |task: Task<Vault>| {
        let answer: String = task.run().interrupt("?").await?;
        Ok::<_, NodeError>(Vault::update().log([answer]))
    };
    let graph = GraphBuilder::<Vault>::new("vault").node("renew", renew).node("ask", ask);
    let graph = graph.edge(START, "renew").edge(START, "ask").edge("renew", END).edge("ask", END);
    let graph = graph.compile().unwrap().checkpointer(MemorySaver::default());
    let _ = graph.invoke(Vault::update()).thread("t").await.unwrap();
    let mut stream = graph.stream(Command::resume("yes")).thread("t").modes([StreamMode::Updates]);
    let mut restored: Vec<String> = Vec::new();
    while let Some(event) = stream.next().await {
        if let Event::Updates(update) = event.unwrap()
            && update.cached
        {
            restored.extend(update.update.writes().iter().map(|write| write.name().to_owned()));
        }
    }
    assert_eq!(restored, ["log"]);
}
