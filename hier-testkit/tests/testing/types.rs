//! Verdicts on changes of types, with the schemas that programs derive.

use std::collections::BTreeMap;

use hier_core::graph::{GraphBuilder, Task};
use hier_core::prelude::*;
use hier_testkit::lock::{Lock, LockBuilder, compare};
use serde_json::{Map, Value};

macro_rules! types {
    ($($(#[$attribute:meta])* $kind:ident $name:ident $fields:tt)*) => {
        $(
            #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
            $(#[$attribute])*
            pub(crate) $kind $name $fields
        )*
    };
}

/// A program before a change, and the types that the change keeps.
mod old {
    use super::*;

    types! {
        struct Bill { pub(crate) amount: i64 }
        #[serde(tag = "kind")]
        enum Event { #[default] None, Paid(Bill), Refunded(Bill) }
        #[serde(tag = "state")]
        enum Progress { #[default] Open, Done { by: String } }
        enum Status { #[default] Open, Closed }
        struct Case { #[serde(flatten)] pub(crate) event: Event, pub(crate) amount: i64 }
        struct Two { #[serde(flatten)] pub(crate) event: Event, #[serde(flatten)] pub(crate) progress: Progress }
        struct Tree { pub(crate) children: Vec<Tree>, #[serde(flatten)] pub(crate) event: Event }
    }
}

mod new {
    use super::old::{Bill, Progress};
    use super::*;

    types! {
        #[serde(tag = "kind")]
        enum Event { #[default] None, Paid(Bill), Returned(Bill) }
        #[serde(tag = "kind")]
        enum More { #[default] None, Paid(Bill), Refunded(Bill), Waived }
        struct Case { #[serde(flatten)] pub(crate) event: super::old::Event, pub(crate) amount: String }
        struct Two { #[serde(flatten)] pub(crate) event: Event, #[serde(flatten)] pub(crate) progress: Progress }
        struct MoreOfTwo { #[serde(flatten)] pub(crate) event: More, #[serde(flatten)] pub(crate) progress: Progress }
        struct Tree { pub(crate) children: Vec<Tree>, #[serde(flatten)] pub(crate) event: Event }
    }
}

macro_rules! lock {
    ($ty:ty) => {{
        #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
        struct Holder {
            value: $ty,
        }
        let graph = GraphBuilder::<Holder>::new("holder").node("keep", async |_: Task<Holder>| {});
        let graph = graph.edge("__start__", "keep").edge("keep", "__end__").compile().expect("a graph");
        LockBuilder::new().graph(&graph).build()
    }};
}

fn codes(old: &Lock, new: &Lock) -> Vec<&'static str> {
    compare(old, new).iter().map(|finding| finding.change.code()).collect()
}

/// The name and the lock of a new type, and the codes of the changes.
type Verdict<'a> = (&'a str, Lock, &'a [&'a str]);

#[test]
fn changes_of_derived_types_have_verdicts() {
    let (changed, widened) = (&["type-changed"][..], &["type-widened"][..]);
    let tables: &[(&str, Lock, &[Verdict<'_>])] = &[
        (
            "old::Event",
            lock!(old::Event),
            &[("new::Event", lock!(new::Event), changed), ("new::More", lock!(new::More), widened)],
        ),
        ("old::Case", lock!(old::Case), &[("new::Case", lock!(new::Case), changed)]),
        (
            "old::Two",
            lock!(old::Two),
            &[("new::Two", lock!(new::Two), changed), ("new::MoreOfTwo", lock!(new::MoreOfTwo), widened)],
        ),
        ("old::Tree", lock!(old::Tree), &[("new::Tree", lock!(new::Tree), changed)]),
        ("Option<String>", lock!(Option<String>), &[("Option<Status>", lock!(Option<old::Status>), changed)]),
        ("Option<Status>", lock!(Option<old::Status>), &[("Option<String>", lock!(Option<String>), widened)]),
        (
            "by u32",
            lock!(BTreeMap<u32, i64>),
            &[
                ("texts by u32", lock!(BTreeMap<u32, String>), changed),
                ("by i32", lock!(BTreeMap<i32, i64>), widened),
                ("by text", lock!(BTreeMap<String, i64>), widened),
            ],
        ),
        ("by i32", lock!(BTreeMap<i32, i64>), &[("by u32", lock!(BTreeMap<u32, i64>), changed)]),
        ("by text", lock!(BTreeMap<String, i64>), &[("by u32", lock!(BTreeMap<u32, i64>), changed)]),
        ("Map", lock!(Map<String, Value>), &[("by text", lock!(BTreeMap<String, i64>), changed)]),
    ];
    for (old, before, changes) in tables {
        assert_eq!(codes(before, before), [""; 0], "{old} does not change");
        for (new, after, expected) in *changes {
            assert_eq!(codes(before, after), *expected, "{old} to {new}\n{before}\n{after}");
        }
    }
}

mod texts {
    use super::*;

    types! {
        struct Status { pub(crate) text: String }
        struct Detail { pub(crate) status: Status }
    }
}

mod numbers {
    use super::*;

    types! {
        struct Status { pub(crate) number: i64 }
        struct Detail { pub(crate) status: Status }
    }
}

/// The lock of a graph over a state with a type, and with a question that has another type.
macro_rules! asking {
    ($state:ty, $question:ty) => {{
        #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
        struct Holder {
            value: $state,
        }
        #[derive(Question, Serialize, Deserialize, JsonSchema)]
        #[question(answer = Vec<$question>)]
        struct Confirm {
            value: $question,
        }
        let graph = GraphBuilder::<Holder>::new("holder").node("keep", async |_: Task<Holder>| {}).asks::<Confirm>();
        let graph = graph.edge("__start__", "keep").edge("keep", "__end__").compile().expect("a graph");
        LockBuilder::new().graph(&graph).build()
    }};
}

#[test]
fn types_of_questions_and_states_may_have_the_same_name() {
    let both = asking!(numbers::Detail, texts::Detail);
    assert_eq!(Lock::parse(&both.to_string()).as_ref(), Ok(&both));
    assert_eq!(codes(&both, &both), [""; 0], "{both}");
    assert_eq!(codes(&both, &asking!(numbers::Detail, numbers::Detail)), ["question-changed"]);
    assert_eq!(codes(&both, &asking!(texts::Detail, texts::Detail)), ["type-changed"]);
    let same = asking!(numbers::Detail, numbers::Detail);
    assert_eq!(same.types.keys().collect::<Vec<_>>(), ["Detail", "Status"], "{same}");
}
