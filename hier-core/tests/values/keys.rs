//! Keys of caches and of durable steps: equal for equal inputs, and for no others.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::checkpoint::MemorySaver;
use hier_core::prelude::*;
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Input {
    number: f64,
    nested: Option<Option<f64>>,
    pairs: HashMap<(u32, u32), String>,
    value: Value,
    runs: usize,
}

static RUNS: AtomicUsize = AtomicUsize::new(0);

async fn costly(_: &Input) -> InputUpdate {
    Input::update().runs(RUNS.fetch_add(1, Ordering::Relaxed) + 1)
}

graph! {
    Caching<Input> = Graph { nodes: [costly { cache: 1m }], edges: [START >> costly >> END] }
}

#[tokio::test]
async fn cache_distinguishes_values_that_json_does_not() {
    let graph = Caching::compile();
    let pairs = |first: u32| (first..first + 20).map(|at| ((at, at), at.to_string())).collect::<HashMap<_, _>>();
    let inputs = [
        Input { number: 0.0, ..Input::default() },
        Input { number: -0.0, ..Input::default() },
        Input { number: f64::NAN, ..Input::default() },
        Input { number: f64::INFINITY, ..Input::default() },
        Input { number: f64::NEG_INFINITY, ..Input::default() },
        Input { nested: Some(None), ..Input::default() },
        Input { nested: Some(Some(f64::NAN)), ..Input::default() },
        Input { nested: Some(Some(0.0)), ..Input::default() },
        Input { value: json!({ "a": 1, "b": [2, { "c": 3, "d": null }] }), ..Input::default() },
        Input { value: json!({ "a": 1, "b": [{ "c": 3, "d": null }, 2] }), ..Input::default() },
        Input { pairs: pairs(1), ..Input::default() },
        Input { pairs: pairs(2), ..Input::default() },
    ];
    let mut runs = Vec::new();
    for input in inputs.iter().chain(&inputs) {
        runs.push(graph.invoke(input.clone()).await.unwrap().state().runs);
    }
    // The maps of the second round are others, in another order.
    let again = Input {
        pairs: pairs(2).into_iter().collect::<BTreeMap<_, _>>().into_iter().rev().collect(),
        ..Input::default()
    };
    runs.push(graph.invoke(again).await.unwrap().state().runs);
    let first: Vec<usize> = (1..=inputs.len()).collect();
    assert_eq!(runs, [first.clone(), first, vec![inputs.len()]].concat());
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Steps {
    #[reducer(append)]
    log: Vec<String>,
}

type Arguments = BTreeMap<(u8, u8), Option<Option<f64>>>;

async fn steps(run: &Run) -> hier_core::Result<StepsUpdate> {
    let keys: [Arguments; 4] = [
        [((1, 2), None)].into(),
        [((1, 2), Some(None))].into(),
        [((1, 2), Some(Some(f64::NAN)))].into(),
        [((2, 1), None)].into(),
    ];
    let mut log = Vec::new();
    for key in &keys {
        log.push(run.step_for("step", key, async |key| Ok(format!("{key:?}"))).await?);
    }
    let _: bool = run.interrupt(&"again?").await?;
    for key in keys.iter().rev() {
        log.push(run.step_for("step", key, async |_| Ok("done again".to_owned())).await?);
    }
    Ok(Steps::update().log(log))
}

graph! { Stepping<Steps> = Graph { nodes: [steps], edges: [START >> steps >> END] } }

#[tokio::test]
async fn step_keys_cover_arguments_without_json() {
    let graph = Stepping::compile().checkpointer(MemorySaver::new());
    let _ = graph.invoke(Steps::update()).thread("t").await.unwrap();
    let end = graph.invoke(Command::resume(true)).thread("t").await.unwrap();
    let log = &end.state().log;
    assert_eq!(log[..4], ["{(1, 2): None}", "{(1, 2): Some(None)}", "{(1, 2): Some(Some(NaN))}", "{(2, 1): None}"]);
    assert_eq!(log[4..], vec!["done again"; 4]);
}
