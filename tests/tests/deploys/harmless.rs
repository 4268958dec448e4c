//! Changes that break no thread.

use std::collections::BTreeSet;

use hier_core::prelude::*;
use serde_json::{Map, Value, json};

use crate::kit::{Builder, Case, Logs, Program, ask, case, compile, line, note, review, state};
use crate::states::{Empty, Ephemeral, Number, Numbers, Optional, Pair, Tags, Text, Texts, Untracked, Wide};

state!(Signed { x: i64 });
state!(Decimal { x: f64 });
state!(WideNumbers { x: Vec<u64> });
state!(NumberSet { x: BTreeSet<u32> });
state!(OptionalText { x: Option<String> });
state!(WidePair { x: (u64, u64) });
state!(ById { #[reducer(by_id)] x: Vec<Bill> });
state!(Upsert { #[reducer(upsert)] x: Vec<Bill> });

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Bill {
    id: String,
    amount: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Invoice {
    id: String,
    amount: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NotedBill {
    /// A bill may have a note.
    note: Option<String>,
    #[serde(default)]
    urgent: bool,
    id: String,
    amount: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ShortBill {
    amount: u32,
}

impl hier_core::reducer::Identified for Bill {
    type Id = String;

    fn id(&self) -> &String {
        &self.id
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Level {
    #[default]
    Low,
    High,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) enum MoreLevels {
    /// The lowest level.
    #[default]
    Low,
    High,
    Other(String),
}

state!(Billed { x: Bill });
state!(Invoiced { x: Invoice });
state!(Noted { x: NotedBill });
state!(Short { x: ShortBill });
state!(ManyBilled { x: Vec<Bill> });
state!(ManyNoted { x: Vec<NotedBill> });
state!(Leveled { x: Level });
state!(MoreLeveled { x: MoreLevels });

#[allow(clippy::unnecessary_wraps, reason = "the signature of migrations")]
fn rename_x(stored: &mut Map<String, Value>) -> hier_core::Result<()> {
    if let Some(value) = stored.remove("x") {
        stored.insert("y".to_owned(), value);
    }
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "the signature of migrations")]
fn x_to_text(stored: &mut Map<String, Value>) -> hier_core::Result<()> {
    if let Some(value) = stored.get_mut("x") {
        *value = Value::String(value.to_string());
    }
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "the signature of migrations")]
fn drop_x(stored: &mut Map<String, Value>) -> hier_core::Result<()> {
    stored.remove("x");
    Ok(())
}

state!(
    #[state(version = 2, migrate = rename_x)]
    Moved { y: u32 }
);
state!(
    #[state(version = 2, migrate = x_to_text)]
    Spelled { x: String }
);
state!(
    #[state(version = 2, migrate = drop_x)]
    Dropped {}
);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = channels();
    cases.extend(types());
    cases.extend(positions());
    cases.extend(edges());
    cases.extend(inner_graphs());
    cases.extend(crate::agents::harmless());
    cases.extend(crate::secrets::harmless());
    cases
}

fn with<S: Logs>() -> Program {
    review::<S>().into()
}

fn channels() -> Vec<Case> {
    let five = || json!({ "x": 5 });
    vec![
        case("nothing", with::<Number>(), with::<Number>()).input(five()),
        case("channel added", with::<Empty>(), with::<Number>()),
        case("channel added to a finished thread", with::<Empty>(), with::<Number>()).finished(json!({})),
        case("untracked channel removed", with::<Untracked>(), with::<Empty>()),
        case("ephemeral channel stays", with::<Ephemeral>(), with::<Number>()).input(five()),
        case("plain channel gets a reducer", with::<Texts>(), with::<Tags>()).input(json!({ "x": ["a"] })),
        case("another name of a reducer", with::<ById>(), with::<Upsert>())
            .input(json!({ "x": [{ "id": "1", "amount": 5 }] })),
        case("channel renamed by a migration", with::<Number>(), with::<Moved>()).input(five()),
        case("type changed by a migration", with::<Number>(), with::<Spelled>()).input(five()),
        case("channel removed by a migration", with::<Number>(), with::<Dropped>()).input(five()),
        case("migration of a finished thread", with::<Number>(), with::<Moved>()).input(five()).finished(json!({})),
    ]
}

fn types() -> Vec<Case> {
    let bill = || json!({ "x": { "id": "1", "amount": 5 } });
    vec![
        case("wider number", with::<Number>(), with::<Wide>()).input(json!({ "x": 5 })),
        case("signed number", with::<Number>(), with::<Signed>()).input(json!({ "x": 5 })),
        case("decimal number", with::<Number>(), with::<Decimal>()).input(json!({ "x": 5 })),
        case("optional number", with::<Number>(), with::<Optional>()).input(json!({ "x": 5 })),
        case("optional text", with::<Text>(), with::<OptionalText>()).input(json!({ "x": "five" })),
        case("list of wider numbers", with::<Numbers>(), with::<WideNumbers>()).input(json!({ "x": [1, 2] })),
        case("set of the list", with::<Numbers>(), with::<NumberSet>()).input(json!({ "x": [1, 2] })),
        case("tuple of wider numbers", with::<Pair>(), with::<WidePair>()).input(json!({ "x": [1, 2] })),
        case("another name of a struct", with::<Billed>(), with::<Invoiced>()).input(bill()),
        case("struct with more optional fields", with::<Billed>(), with::<Noted>()).input(bill()),
        case("struct with fewer fields", with::<Billed>(), with::<Short>()).input(bill()),
        case("list of structs with more fields", with::<ManyBilled>(), with::<ManyNoted>())
            .input(json!({ "x": [{ "id": "1", "amount": 5 }] })),
        case("more variants", with::<Leveled>(), with::<MoreLeveled>()).input(json!({ "x": "High" })),
    ]
}

fn positions() -> Vec<Case> {
    let renamed = || line::<Empty>("review", "weigh", "confirm", "accept").renamed("sign", "confirm");
    let audit = || line::<Empty>("audit", "weigh", "sign", "accept").renamed("review", "audit");
    let longer = || {
        let graph = Builder::<Empty>::new("review").node("weigh", note("weigh")).node("sign", ask());
        let graph = graph.node("accept", note("accept")).node("sort", note("sort")).edge(START, "sort");
        compile(graph.edge("sort", "weigh").edge("weigh", "sign").edge("sign", "accept").edge("accept", END))
    };
    let stops = || {
        let graph = Builder::<Empty>::new("review").node("weigh", note("weigh")).node("sign", ask());
        let graph = graph.node("accept", note("accept")).interrupt_before(["accept"]).edge(START, "weigh");
        compile(graph.edge("weigh", "sign").edge("sign", "accept").edge("accept", END))
    };
    let described = || {
        let graph = Builder::<Empty>::new("review").description("reviews").node("weigh", note("weigh"));
        let graph = graph.node("sign", ask::<Empty>().timeout(std::time::Duration::from_mins(1)));
        let graph = graph.node("accept", note("accept").retry(3)).edge(START, "weigh");
        compile(graph.edge("weigh", "sign").edge("sign", "accept").edge("accept", END))
    };
    let sends = |work: &str| {
        let graph = Builder::<Empty>::new("review").node("split", note("split")).node(work, ask());
        compile(graph.edge(START, "split").each("split", "items", work, |_| [1_u64, 2]).edge(work, END))
    };
    let two = || Program::from(review::<Empty>()).with(line::<Number>("audit", "a", "b", "c").into());
    vec![
        case("node renamed", review::<Empty>(), renamed()),
        case("node of a finished thread renamed", review::<Empty>(), renamed()).finished(json!({})),
        case("graph renamed", review::<Empty>(), audit()),
        case("graph of a finished thread renamed", review::<Empty>(), audit()).finished(json!({})),
        case("node with Sends renamed", sends("work"), sends("check").renamed("work", "check")),
        case("node added", review::<Empty>(), longer()),
        case("breakpoint added", review::<Empty>(), stops()),
        case("options of nodes", review::<Empty>(), described()),
        case("graph added", review::<Empty>(), two()),
    ]
}

fn edges() -> Vec<Case> {
    // A graph that waits for `sign`, while the join has seen `a`.
    let joined = |first: &'static str, target: &'static str| {
        let graph = Builder::<Empty>::new("review").node(first, note("a")).node("begin", note("begin"));
        let graph = graph.node("sign", ask()).node(target, note("last")).edge(START, first).edge(START, "begin");
        graph.edge("begin", "sign").join([first, "sign"], target).edge(target, END)
    };
    let other_end = || {
        let graph = Builder::<Empty>::new("review").node("weigh", note("weigh")).node("sign", ask());
        let graph = graph.node("accept", note("accept")).node("tell", note("tell")).edge(START, "weigh");
        let graph = graph.edge("weigh", "sign").edge("sign", "accept");
        compile(graph.edge("accept", "tell").edge("tell", END))
    };
    let deferred = |defers: bool| {
        let graph = Builder::<Empty>::new("review").node("late", note("late")).node("sign", ask());
        let graph = graph.edge(START, "late").edge(START, "sign").edge("late", END).edge("sign", END);
        compile(if defers { graph.defer("late") } else { graph })
    };
    let joined_late = |defers: bool| {
        let graph = joined("a", "last");
        compile(if defers { graph.defer("last") } else { graph })
    };
    vec![
        case("edge added", review::<Empty>(), other_end()),
        case(
            "source of a join renamed",
            compile(joined("a", "last")),
            compile(joined("first", "last")).renamed("a", "first"),
        ),
        case(
            "target of a join renamed",
            compile(joined("a", "last")),
            compile(joined("a", "end")).renamed("last", "end"),
        ),
        case("node defers no more", deferred(true), deferred(false)),
        case("node defers", deferred(false), deferred(true)),
        case("target of a join defers", joined_late(false), joined_late(true)),
        case("target of a join defers no more", joined_late(true), joined_late(false)),
    ]
}

fn inner_graphs() -> Vec<Case> {
    let around = |inner: &hier_core::graph::CompiledGraph<Empty>, node: &'static str| {
        let graph = Builder::<Empty>::new("outer").node("first", note("first")).subgraph(node, inner);
        compile(graph.edge(START, "first").edge("first", node).edge(node, END))
    };
    let wide = || {
        let graph = Builder::<Empty>::new("outer").node("first", note("first")).subgraph("inner", &review::<Number>());
        compile(graph.edge(START, "first").edge("first", "inner").edge("inner", END))
    };
    let confirm = line::<Empty>("review", "weigh", "confirm", "accept").renamed("sign", "confirm");
    let audit = line::<Empty>("audit", "weigh", "sign", "accept").renamed("review", "audit");
    let inner = || around(&review::<Empty>(), "inner");
    vec![
        case("inner channel added", inner(), wide()),
        case("inner node renamed", inner(), around(&confirm, "inner")),
        case("inner graph renamed", inner(), around(&audit, "inner")),
    ]
}
