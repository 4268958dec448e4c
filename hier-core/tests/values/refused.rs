//! Values that cannot be stored are refused at their first write or when a client sends them. The error names their channel.

use std::net::IpAddr;
use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_core::graph::{DynCommand, DynGraph, DynGraphInfo, DynInput, DynRun, DynUpdates};
use hier_core::prelude::*;
use serde::{Deserializer, Serializer};
use serde_json::{Value, json};

/// Writes a text and reads a number.
#[derive(Clone, Debug, Default)]
struct OneWay;

impl Serialize for OneWay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("seven")
    }
}

impl<'de> Deserialize<'de> for OneWay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(|_| Self)
    }
}

/// serde keeps no integers of 128 bits where it does not know the variant yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Buffered {
    Large(u128),
    Name(String),
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Odd {
    one_way: Option<OneWay>,
    buffered: Option<Buffered>,
    deep: Value,
    n: u64,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Which {
    which: u8,
    #[state(flatten)]
    odd: Odd,
}

async fn write(state: &Which) -> WhichUpdate {
    match state.which {
        1 => Which::update().one_way(Some(OneWay)),
        2 => Which::update().buffered(Some(Buffered::Large(u128::MAX))),
        _ => Which::update().deep((0..200).fold(json!(1), |inner, _| json!([inner]))),
    }
}

graph! { Writing<Which> = Graph { nodes: [write], edges: [START >> write >> END] } }

async fn steps(run: &Run) -> hier_core::Result<WhichUpdate> {
    let _: OneWay = run.step("seven", async || Ok(OneWay)).await?;
    Ok(Which::update())
}

graph! { Stepping<Which> = Graph { nodes: [steps], edges: [START >> steps >> END] } }

#[tokio::test]
async fn unreadable_value_is_refused_with_its_channel() {
    for (which, expected) in [
        (1, ["channel `one_way`", "a `Option<OneWay>` cannot be read back", "a string does not fit"]),
        (2, ["channel `buffered`", "a `Option<Buffered>` cannot be read back", ""]),
        (3, ["`deep`", "nested deeper than 128 levels", "flatten it"]),
    ] {
        let saver = MemorySaver::new();
        let graph = Writing::compile().checkpointer(saver);
        let input = Which::update().which(which);
        let error = graph.invoke(input).thread("t").await.unwrap_err().to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
        // The thread has not changed.
        assert!(graph.state("t").await.unwrap().values.odd.one_way.is_none());
    }
    let graph = Stepping::compile().checkpointer(MemorySaver::new());
    let error = graph.invoke(Which::update()).thread("t").await.unwrap_err().to_string();
    assert!(error.contains("the result of step `seven` of node `steps` cannot be stored: a `OneWay`"), "{error}");
}

#[tokio::test]
async fn mismatched_json_is_refused_before_the_run() {
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
    let erased = Writing::compile().erase(|_| Ok(()));
    for (input, expected) in [
        (json!({ "n": "7" }), "`input.n` does not fit the channel: a string does not fit in a `u64`"),
        (json!({ "n": "NaN" }), "`input.n` does not fit the channel"),
        (json!({ "n": -1 }), "`input.n` does not fit the channel"),
        (json!({ "buffered": {} }), "`input.buffered` does not fit the channel"),
    ] {
        let error = erased.check(&DynInput::New(input)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let update = DynUpdates::values(json!({ "n": [] }));
    let error =
        erased.update_state(saver, Config::new().thread("t"), vec![vec![update]]).await.unwrap_err().to_string();
    assert!(error.contains("n` does not fit the channel: a list does not fit in a `u64`"), "{error}");
}

mod commands {
    use super::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Case {
        #[reducer(append)]
        log: Vec<String>,
    }

    async fn read(case: &Case) -> CaseUpdate {
        Case::update().log([format!("read {}", case.log.len())])
    }

    async fn take(Sent(ip): Sent<IpAddr>) -> CaseUpdate {
        Case::update().log([format!("took {ip}")])
    }

    graph! {
        Desk<Case> = Graph {
            nodes: [read, take],
            edges: [START >> read >> for ip in none { take(ip) }, take >> END],
        }
    }

    fn none(_: &Case) -> Vec<IpAddr> {
        Vec::new()
    }

    fn goto(node: &str, input: Option<Value>) -> DynInput {
        let target = input.map_or_else(|| json!(node), |input| json!({ "node": node, "input": input }));
        DynInput::Command(DynCommand::from_json(&json!({ "goto": target })).unwrap())
    }

    #[tokio::test]
    async fn input_of_a_goto_reaches_the_node_or_is_refused() {
        let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
        let erased = Desk::compile().erase(|_| Ok(()));
        let run = |input: DynInput| {
            let mut run = DynRun::new(input, Config::new().thread("t"));
            run.saver = Some(saver.clone());
            run
        };
        let _ = erased.run(run(DynInput::New(json!({})))).await.unwrap();
        for (input, expected) in [
            (json!("x"), "`goto`: `read` reads the state, but its payload is not an object of channels"),
            (
                json!({ "lo": [] }),
                "`goto`: `read` is sent a state with `lo`, which is not a channel; did you mean `log`?",
            ),
            (json!({ "log": 7 }), "`goto`: channel `log` of the state sent to `read`"),
        ] {
            let error = erased.check(&goto("read", Some(input))).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let end = erased.run(run(goto("take", Some(json!("10.0.0.7"))))).await.unwrap().into_state();
        assert_eq!(end["log"], json!(["read 0", "took 10.0.0.7"]));
        let end = erased.run(run(goto("read", Some(Value::Null)))).await.unwrap().into_state();
        assert_eq!(end["log"], json!(["read 0", "took 10.0.0.7", "read 2"]));
        // One node sees the state that was sent to it, the other sees the thread's.
        let both = json!({ "goto": ["read", { "node": "read", "input": { "log": ["1", "2", "3", "4", "5", "6"] } }] });
        let both = DynInput::Command(DynCommand::from_json(&both).unwrap());
        let end = erased.run(run(both)).await.unwrap().into_state();
        let mut log: Vec<&str> = end["log"].as_array().unwrap()[3..].iter().filter_map(Value::as_str).collect();
        log.sort_unstable();
        assert_eq!(log, ["read 3", "read 6"]);
    }

    /// A run begins at START, so a command that leads elsewhere would be half done.
    #[tokio::test]
    async fn command_with_a_target_starts_no_run() {
        let durable = Desk::compile().checkpointer(MemorySaver::new());
        let command = || Command::update(Case::update().log(["x"])).goto(Desk::read);
        let send = || Command::update(Case::update().log(["x"])).send(Desk::take, IpAddr::from([10, 0, 0, 7]));
        for error in [
            durable.invoke(command()).thread("t").await.unwrap_err(),
            durable.invoke(send()).thread("t").await.unwrap_err(),
            Desk::compile().invoke(command()).await.unwrap_err(),
            Desk::compile().invoke(send()).await.unwrap_err(),
        ] {
            assert!(error.to_string().contains("and nothing has run yet: begin with an input"), "{error}");
        }
        // Nothing was stored.
        assert!(durable.states("t").await.unwrap().is_empty());
        let begun = Command::update(Case::update().log(["x"]));
        assert_eq!(durable.invoke(begun).thread("t").await.unwrap().state().log, ["x", "read 1"]);
    }
}
