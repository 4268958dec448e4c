//! Whole states as inputs, and channels that an update sets twice.

use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, Overwrite, Schema};
use serde_json::json;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Order {
    amount: u32,
    paid: bool,
    #[reducer(append)]
    log: Vec<String>,
}

graph! {
    Desk<Order> = Graph { nodes: [pay], edges: [START >> pay >> END] }
}

async fn pay() -> OrderUpdate {
    Order::update().paid(true).log("a").log(["b", "c"]).amount(1_u32).amount(7_u32)
}

#[tokio::test]
async fn existing_thread_refuses_a_whole_state() {
    let desk = Desk::compile().checkpointer(MemorySaver::new());
    let whole = || Order { amount: 6, log: vec!["new".to_owned()], ..Order::default() };
    let thread = || Config::new().thread("t");
    let first = desk.invoke(whole()).config(thread()).await.unwrap().into_state();
    assert_eq!((first.amount, first.paid, &*first.log), (7, true, &["new", "a", "b", "c"].map(str::to_owned)[..]));
    let past = desk.states(thread()).await.unwrap().pop().unwrap().config;
    for config in [thread(), past] {
        let error = desk.invoke(whole()).config(config).await.unwrap_err();
        assert!(matches!(error, RunError::WholeState { .. }), "{error}");
        for words in ["thread `t`", "`desk`", "pass an update"] {
            assert!(error.to_string().contains(words), "no {words} in: {error}");
        }
    }
    assert_eq!(desk.state(thread()).await.unwrap().values, first, "nothing has changed");
    let second = desk.invoke(Order::update().amount(6_u32)).config(thread()).await.unwrap().into_state();
    assert_eq!((second.paid, second.log.len()), (true, 7));
    // Without a saver no state can be reset, not even in a loop.
    for _ in 0..2 {
        let end = Desk::compile().invoke(whole()).config(thread()).await.unwrap().into_state();
        assert_eq!(end.log.len(), 4);
    }
}

#[tokio::test]
async fn reduced_channel_that_is_set_twice_merges_both() {
    let desk = Desk::compile().checkpointer(MemorySaver::new());
    let input = Order::update().log("x").log(Overwrite(vec!["y".to_owned()])).log("z").amount(1_u32).amount(2_u32);
    let end = desk.invoke(input).thread("t").await.unwrap().into_state();
    assert_eq!((end.amount, &*end.log), (7, &["y", "z", "a", "b", "c"].map(str::to_owned)[..]));
    let command =
        Command::update(Order::update().log("1").amount(3_u32)).with_update(Order::update().log("2").amount(4_u32));
    let end = desk.invoke(command).thread("u").await.unwrap().into_state();
    assert_eq!((end.amount, &*end.log), (7, &["1", "2", "a", "b", "c"].map(str::to_owned)[..]));

    let schema = Schema::new().reduced("log", Builtin::Append).reduced("sum", Builtin::Sum).last("x");
    let mut graph = GraphBuilder::dynamic("d", schema);
    graph = graph.node("n", |_: Task<DynState>| async {}).edge(START, "n").edge("n", END);
    let graph = graph.compile().unwrap();
    let initial = graph.update(json!({})).unwrap();
    let schema = Schema::new().reduced("log", Builtin::Append).reduced("sum", Builtin::Sum).last("x");
    let mut update = initial;
    for (channel, value) in [
        ("log", json!([1])),
        ("log", json!([2])),
        ("sum", json!(3)),
        ("sum", json!(4)),
        ("x", json!(5)),
        ("x", json!(6)),
    ] {
        update = update.write(&schema, channel, value).unwrap();
    }
    let end = graph.invoke(update).await.unwrap().into_state();
    assert_eq!(end.to_value(), json!({ "log": [1, 2], "sum": 7, "x": 6 }));
}
