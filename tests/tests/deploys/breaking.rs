//! Changes that break threads.

use hier_core::prelude::*;
use serde_json::json;

use crate::kit::{Builder, Case, Logs, Program, ask, case, compile, line, note, review, state};
use crate::states::{Empty, Ephemeral, Number, Numbers, Pair, Tags, Text, Texts, Untracked, Wide};

state!(Renamed { y: u32 });
state!(Narrow { x: u8 });
state!(Triple { x: (u32, u32, u32) });

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SmallBill {
    amount: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LargeBill {
    amount: u32,
    currency: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) enum ThreeLevels {
    #[default]
    Low,
    High,
    Highest,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) enum TwoLevels {
    #[default]
    Low,
    High,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) enum OtherLevels {
    #[default]
    Low,
    High,
    Top,
}

state!(Small { x: SmallBill });
state!(Large { x: LargeBill });
state!(Nested { x: Vec<SmallBill> });
state!(NestedLarge { x: Vec<LargeBill> });
state!(Three { x: ThreeLevels });
state!(Two { x: TwoLevels });
state!(Other { x: OtherLevels });

fn sum(old: &mut u32, new: u32) {
    *old += new;
}

fn greatest(old: &mut u32, new: u32) {
    *old = new.max(*old);
}

state!(Summed {
    #[reducer(with = sum)]
    #[channel(delta)]
    x: u32
});
state!(Greatest {
    #[reducer(with = greatest)]
    #[channel(delta)]
    x: u32
});
fn unique(old: &mut Vec<String>, new: Vec<String>) {
    old.extend(new);
    old.dedup();
}

state!(UniqueTags { #[reducer(with = unique)] x: Vec<String> });

#[allow(clippy::unnecessary_wraps, reason = "the signature of migrations")]
fn unchanged(_: &mut serde_json::Map<String, serde_json::Value>) -> hier_core::Result<()> {
    Ok(())
}

state!(
    #[state(version = 2, migrate = unchanged)]
    Second {}
);
state!(
    #[state(version = 3, migrate = unchanged)]
    Third {}
);

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = channels();
    cases.extend(types());
    cases.extend(positions());
    cases.extend(joins());
    cases.extend(inner_graphs());
    cases.extend(crate::agents::breaking());
    cases.extend(crate::questions::breaking());
    cases.extend(crate::secrets::breaking());
    cases
}

fn with<S: Logs>() -> Program {
    review::<S>().into()
}

fn channels() -> Vec<Case> {
    let five = json!({ "x": 5 });
    vec![
        case("channel removed", with::<Number>(), with::<Empty>()).input(five.clone()).breaks(&["channel-removed"]),
        case("field renamed", with::<Number>(), with::<Renamed>()).input(five.clone()).breaks(&["channel-removed"]),
        case("channel of a finished thread removed", with::<Number>(), with::<Empty>())
            .input(five.clone())
            .finished(json!({}))
            .breaks(&["channel-removed"]),
        case("value expires", with::<Number>(), with::<Ephemeral>()).input(five.clone()).breaks(&["value-expires"]),
        case("channel untracked", with::<Number>(), with::<Untracked>()).input(five).breaks(&["value-expires"]),
        case("version lowered", with::<Second>(), with::<Empty>()).breaks(&["version-lowered"]),
        case("migration missing", with::<Empty>(), with::<Third>()).breaks(&["migration-missing"]),
        case("unapplied write of another reducer", beside::<Tags>(), beside::<UniqueTags>())
            .input(json!({}))
            .breaks(&["reducer-changed"]),
        case("unapplied write of a lost reducer", beside::<Tags>(), beside::<Texts>()).breaks(&["reducer-changed"]),
        case("parts of a custom reducer", twice::<Summed>(), twice::<Greatest>())
            .input(json!({ "x": 1 }))
            .breaks(&["parts-unreadable"]),
    ]
}

/// A thread that waits in a step with a finished task, which has written to `x`.
trait WritesX: Logs {
    fn x() -> Self::Update;
}

macro_rules! writes_x {
    ($($state:ident: $value:expr),*) => {
        $(impl WritesX for $state {
            fn x() -> Self::Update {
                $state::update().x($value)
            }
        })*
    };
}

writes_x!(Tags: vec!["new".to_owned()], Texts: vec!["new".to_owned()], UniqueTags: vec!["new".to_owned()], Summed: 1, Greatest: 1);

fn writes<S: WritesX>() -> hier_core::graph::NodeDef<S> {
    hier_core::graph::NodeDef::task(|_: hier_core::graph::Task<S>| async { S::x() })
}

fn beside<S: WritesX>() -> Program {
    let graph = Builder::<S>::new("review").node("sign", ask()).node("write", writes::<S>());
    compile(graph.edge(START, "sign").edge(START, "write").edge("sign", END).edge("write", END)).into()
}

/// A thread that waits after two writes to `x`.
fn twice<S: WritesX>() -> Program {
    let graph = Builder::<S>::new("review").node("a", writes::<S>()).node("b", writes::<S>()).node("sign", ask());
    compile(graph.edge(START, "a").edge("a", "b").edge("b", "sign").edge("sign", END)).into()
}

fn types() -> Vec<Case> {
    let changed = &["type-changed"];
    vec![
        case("number to text", with::<Number>(), with::<Text>()).input(json!({ "x": 5 })).breaks(changed),
        case("text to number", with::<Text>(), with::<Number>()).input(json!({ "x": "five" })).breaks(changed),
        case("narrower number", with::<Wide>(), with::<Narrow>()).input(json!({ "x": 300 })).breaks(changed),
        case("number to list", with::<Number>(), with::<Numbers>()).input(json!({ "x": 5 })).breaks(changed),
        case("list of numbers to list of texts", with::<Numbers>(), with::<Texts>())
            .input(json!({ "x": [1, 2] }))
            .breaks(changed),
        case("longer tuple", with::<Pair>(), with::<Triple>()).input(json!({ "x": [1, 2] })).breaks(changed),
        case("required field added", with::<Small>(), with::<Large>())
            .input(json!({ "x": { "amount": 5 } }))
            .breaks(changed),
        case("required field added in a list", with::<Nested>(), with::<NestedLarge>())
            .input(json!({ "x": [{ "amount": 5 }] }))
            .breaks(changed),
        case("variant removed", with::<Three>(), with::<Two>()).input(json!({ "x": "Highest" })).breaks(changed),
        case("variant renamed", with::<Three>(), with::<Other>()).input(json!({ "x": "Highest" })).breaks(changed),
        case("type of a finished thread", with::<Text>(), with::<Number>())
            .input(json!({ "x": "five" }))
            .finished(json!({}))
            .breaks(changed),
    ]
}

fn positions() -> Vec<Case> {
    let unnamed = || line::<Empty>("review", "weigh", "confirm", "accept");
    let without = || {
        let graph = Builder::<Empty>::new("review").node("weigh", note("weigh")).node("accept", note("accept"));
        compile(graph.edge(START, "weigh").edge("weigh", "accept").edge("accept", END))
    };
    let sends = |work: &'static str| {
        let graph = Builder::<Empty>::new("review").node("split", note("split")).node(work, ask());
        compile(graph.edge(START, "split").each("split", "items", work, |_| [1_u64, 2]).edge(work, END))
    };
    let both = || {
        let graph = Builder::<Empty>::new("review").node("sign", ask()).node("confirm", note("confirm"));
        compile(graph.edge(START, "sign").edge("sign", "confirm").edge("confirm", END))
    };
    vec![
        case("node removed", review::<Empty>(), without()).breaks(&["node-removed"]),
        case("node renamed", review::<Empty>(), unnamed()).breaks(&["node-removed"]),
        case("new name of a node that does not exist", review::<Empty>(), unnamed().renamed("sign", "confirmed"))
            .breaks(&["node-removed"]),
        case("node with Sends removed", sends("work"), sends("check")).breaks(&["node-removed"]),
        case("another node in its place", both(), both().renamed("sign", "confirm")).breaks(&["node-replaced"]),
        case("graph renamed", review::<Empty>(), line::<Empty>("audit", "weigh", "sign", "accept"))
            .breaks(&["graph-removed"]),
        case(
            "graph of a finished thread renamed",
            review::<Empty>(),
            line::<Empty>("audit", "weigh", "sign", "accept"),
        )
        .finished(json!({}))
        .breaks(&["graph-removed"]),
    ]
}

/// A graph that waits for `sign`, while the join has seen `a`.
fn joined(sources: &[&'static str]) -> Builder<Empty> {
    let mut graph = Builder::<Empty>::new("review").node("last", note("last"));
    for name in ["a", "b", "first"] {
        graph = graph.node(name, note(name)).edge(START, name);
    }
    let graph = graph.node("sign", ask()).edge("first", "sign").edge("last", END).edge("b", END);
    if sources.is_empty() { graph } else { graph.join(sources.iter().copied(), "last") }
}

fn joins() -> Vec<Case> {
    let removed = || compile(joined(&[]).edge("a", "last").edge("sign", "last"));
    let leads = |to: &'static str| {
        let graph = Builder::<Empty>::new("review").node("a", note("a")).node("sign", ask()).node("s", note("s"));
        let graph = graph.node("t", note("t")).node("last", note("last")).edge(START, "a").edge(START, "sign");
        let other = if to == "s" { "t" } else { "s" };
        let graph = graph.edge("sign", to).edge(START, other).join(["a", "s"], "last").edge("last", END).edge("t", END);
        compile(graph)
    };
    vec![
        case("join in another order", compile(joined(&["a", "sign"])), compile(joined(&["sign", "a"])))
            .breaks(&["join-changed"]),
        case("join removed", compile(joined(&["a", "sign"])), removed()).breaks(&["join-changed"]),
        case("join of more nodes", compile(joined(&["a", "sign"])), compile(joined(&["a", "b", "sign"])))
            .breaks(&["join-changed"]),
        case("join out of reach", leads("s"), leads("t")).breaks(&["join-starves"]),
        case("join of edges", removed(), compile(joined(&["a", "sign"]))).breaks(&["join-starves"]),
    ]
}

/// A graph with the node `inner`, which runs a graph.
pub(crate) fn around<S: Logs + hier_core::state::SharesWith<Empty>>(
    inner: &hier_core::graph::CompiledGraph<S>,
) -> Builder<Empty> {
    let graph = Builder::<Empty>::new("outer").node("first", note("first")).subgraph("inner", inner);
    graph.edge(START, "first").edge("first", "inner").edge("inner", END)
}

fn function() -> Program {
    let graph = Builder::<Empty>::new("outer").node("first", note("first")).node("inner", ask());
    compile(graph.edge(START, "first").edge("first", "inner").edge("inner", END)).into()
}

state!(InnerNumber {
    #[state(rename = "inner_x")]
    x: u32
});

fn sets<S: WritesX>() -> hier_core::graph::CompiledGraph<S> {
    let graph = Builder::<S>::new("review").node("weigh", writes::<S>()).node("sign", ask());
    compile(graph.edge(START, "weigh").edge("weigh", "sign").edge("sign", END))
}

writes_x!(InnerNumber: 5, Number: 5, Text: "five".to_owned());

fn inner_graphs() -> Vec<Case> {
    let inner = || compile(around(&review::<Empty>()));
    vec![
        case("inner channel removed", compile(around(&sets::<InnerNumber>())), inner()).breaks(&["channel-removed"]),
        case("inner type changed", compile(around(&sets::<Number>())), compile(around(&sets::<Text>())))
            .breaks(&["type-changed"]),
        case("inner node removed", inner(), compile(around(&line::<Empty>("review", "weigh", "confirm", "accept"))))
            .breaks(&["node-removed"]),
        case("inner graph replaced", inner(), compile(around(&line::<Empty>("audit", "weigh", "sign", "accept"))))
            .breaks(&["inner-graph-changed"]),
        case("inner graph to function", inner(), function()).breaks(&["inner-graph-removed"]),
        case("function to inner graph", function(), inner()).breaks(&["inner-graph-added"]),
    ]
}
