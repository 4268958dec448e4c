//! Tests of `#[derive(State)]` and `#[derive(View)]` at run time.

mod shapes;
mod views;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use hier_agents::prelude::*;
use hier_core::channel::Kind;
use hier_core::graph::{FullState, GraphInput, GraphOutput};
use hier_core::reducer::Identified;
use hier_core::state::{
    ChannelWrite, Contains, IsLastStep, Overwrite, RemainingSteps, SharesWith, State, Values, Writes,
};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Root {
    #[reducer(append)]
    log: Vec<String>,
    owner: Option<String>,
}

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Base {
    #[state(flatten)]
    root: Root,
    #[reducer(sum)]
    tokens: u64,
    steps_left: RemainingSteps,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Finding {
    id: u32,
    text: String,
}

impl Identified for Finding {
    type Id = u32;
    fn id(&self) -> &u32 {
        &self.id
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Totals {
    net: i64,
    tax: i64,
}

#[allow(clippy::needless_pass_by_value)] // the shape of a reducer
fn merge_totals(old: &mut Totals, new: Totals) {
    old.net += new.net;
    old.tax += new.tax;
}

fn at_most_nine(old: &mut u8, new: u8) -> Result<(), String> {
    *old += new;
    if *old > 9 { Err(format!("{old} is more than 9")) } else { Ok(()) }
}

/// Can neither be serialised nor shown nor compared.
#[derive(Clone)]
struct Handle;

/// Every kind of channel and every reducer.
#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: Base,
    #[reducer(append)]
    list: Vec<u32>,
    #[reducer(append)]
    text: String,
    #[reducer(extend)]
    map: BTreeMap<String, u32>,
    #[reducer(extend)]
    set: BTreeSet<u32>,
    #[reducer(sum)]
    count: i32,
    #[reducer(product)]
    factor: f64,
    #[reducer(max)]
    risk: f64,
    #[reducer(min)]
    floor: i8,
    #[reducer(any)]
    any: bool,
    #[reducer(all)]
    all: bool,
    #[reducer(by_id)]
    findings: Vec<Finding>,
    #[reducer(upsert)]
    notes: Vec<Finding>,
    #[reducer(last)]
    verdict: Option<bool>,
    #[reducer(with = merge_totals)]
    totals: Totals,
    #[reducer(with = self::at_most_nine)]
    #[channel(delta)]
    small: u8,
    #[channel(ephemeral)]
    hint: Option<String>,
    #[channel(untracked)]
    #[serde(skip)]
    handle: Option<Handle>,
    #[channel(topic)]
    seen: Vec<String>,
    #[channel(topic(accumulate))]
    all_seen: Vec<String>,
    artifact: Option<String>,
    title: String,
    year: u16,
    #[state(rename = "kind-of-filing")]
    r#type: String,
    remaining_steps: RemainingSteps,
    is_last: IsLastStep,
}

/// The state after these updates.
fn applied<S: State>(mut state: S, updates: impl IntoIterator<Item = S::Update>) -> S {
    for update in updates {
        for write in update.into_writes() {
            state.reduce(write).unwrap();
        }
    }
    state
}

/// The index of a channel.
fn index<S: State>(name: &str) -> usize {
    S::CHANNELS.iter().position(|channel| channel.name == name).unwrap()
}

fn value<S: State>(state: &S, name: &str) -> Option<Value> {
    state.to_json(index::<S>(name)).unwrap()
}

#[test]
fn every_reducer_merges_in_place() {
    let finding = |id, text: &str| Finding { id, text: text.to_owned() };
    let first = Filing::update()
        .list([1, 2])
        .text("a")
        .map([("x".to_owned(), 1), ("y".to_owned(), 1)])
        .set([1, 2])
        .count(2)
        .factor(Overwrite(2.0))
        .risk(0.5)
        .floor(-1)
        .any(true)
        .all(Overwrite(true))
        .findings([finding(1, "one"), finding(2, "two")])
        .notes([finding(1, "note")])
        .verdict(Some(true))
        .totals(Totals { net: 1, tax: 2 })
        .small(4);
    let second = Filing::update()
        .list(vec![3])
        .text("b".to_owned())
        .map([("x".to_owned(), 2)])
        .set([2, 3])
        .count(3)
        .factor(1.5)
        .risk(0.25)
        .floor(5)
        .any(false)
        .all(false)
        .findings([finding(1, "uno")])
        .notes([finding(3, "other")])
        .verdict(Some(false))
        .totals(Totals { net: 10, tax: 20 })
        .small(5);
    let state = applied(Filing::default(), [first, second]);
    assert_eq!(state.list, [1, 2, 3]);
    assert_eq!(state.text, "ab");
    assert_eq!(state.map, BTreeMap::from([("x".to_owned(), 2), ("y".to_owned(), 1)]));
    assert_eq!(state.set, BTreeSet::from([1, 2, 3]));
    assert_eq!((state.count, state.small, state.floor), (5, 9, -1));
    assert_eq!((state.factor, state.risk), (3.0, 0.5));
    assert!(state.any && !state.all);
    assert_eq!(state.findings, [finding(1, "uno"), finding(2, "two")]);
    assert_eq!(state.notes, [finding(1, "note"), finding(3, "other")]);
    assert_eq!(state.verdict, Some(false));
    assert_eq!(state.totals, Totals { net: 11, tax: 22 });
}

#[test]
fn reducer_may_fail() {
    let mut state = Filing { small: 6, count: i32::MAX, ..Filing::default() };
    let fails = |state: &mut Filing, update: FilingUpdate| {
        state.reduce(update.into_writes().into_iter().next().unwrap()).unwrap_err().to_string()
    };
    assert_eq!(fails(&mut state, Filing::update().small(4)), "10 is more than 9");
    assert!(fails(&mut state, Filing::update().count(1)).contains("`sum` overflowed"));
}

#[test]
fn overwrite_replaces_merged_values() {
    let before = Filing { list: vec![1, 2], seen: vec!["a".to_owned()], ..Filing::default() };
    let update = Filing::update().list(Overwrite(vec![])).seen(Overwrite(vec!["b".to_owned()])).log(Overwrite(vec![]));
    assert!(update.writes().iter().all(ChannelWrite::is_overwrite));
    let state = applied(before, [update]);
    assert!(state.list.is_empty());
    assert_eq!(state.seen, ["b"]);
}

#[test]
fn plain_channels_take_the_last_value() {
    let update = Filing::update().artifact("a".to_owned()).title("t").year(2026).hint(None).r#type("vat");
    assert!(!update.writes().iter().any(ChannelWrite::is_overwrite));
    let state = applied(Filing { hint: Some("h".to_owned()), ..Filing::default() }, [update]);
    assert_eq!((state.artifact.as_deref(), &*state.title, state.year), (Some("a"), "t", 2026));
    assert_eq!((state.hint, &*state.r#type), (None, "vat"));
}

#[test]
fn method_called_twice_merges_reduced_channels() {
    let update = Filing::update().list([1]).tokens(1).list([2]).tokens(2).year(2025).year(2026);
    let state = applied(Filing::default(), [update]);
    assert_eq!((state.list, state.base.tokens, state.year), (vec![1, 2], 3, 2026));
}

#[test]
fn channel_table_lists_own_channels_first() {
    let names: Vec<_> = Filing::CHANNELS.iter().map(|channel| &*channel.name).collect();
    let own = "list text map set count factor risk floor any all findings notes verdict totals small hint handle seen \
               all_seen artifact title year kind-of-filing";
    let flattened = "tokens log owner";
    assert_eq!(names, own.split(' ').chain(flattened.split(' ')).collect::<Vec<_>>());
    let spec = |name| Filing::CHANNELS.get(index::<Filing>(name)).unwrap();
    assert_eq!(spec("list").kind, Kind::Reduced);
    assert_eq!(spec("list").reducer.as_deref(), Some("append"));
    assert_eq!(spec("totals").reducer.as_deref(), Some("with = merge_totals"));
    assert_eq!((spec("small").reducer.as_deref(), spec("small").delta), (Some("with = self::at_most_nine"), true));
    assert_eq!((spec("hint").kind, spec("handle").kind), (Kind::Ephemeral, Kind::Untracked));
    assert_eq!((spec("seen").kind, spec("all_seen").kind), (Kind::Topic, Kind::TopicAccumulate));
    assert_eq!((spec("artifact").kind, spec("owner").kind), (Kind::Last, Kind::Last));
    assert_eq!(Filing::default().channel(index::<Filing>("log")), Some(spec("log")));
    assert_eq!(Filing::default().channel(names.len()), None);
}

#[test]
fn channels_flattened_twice_are_read_and_written() {
    let state = applied(Filing::default(), [Filing::update().log(["a".to_owned()]).owner("o".to_owned()).tokens(7)]);
    assert_eq!(
        (&*state.base.root.log, state.base.root.owner.as_deref(), state.base.tokens),
        (&["a".to_owned()][..], Some("o"), 7)
    );
    let keys = Filing::channels();
    assert_eq!(keys.log.get(&state), &["a"]);
    assert_eq!((keys.tokens.get(&state), keys.tokens.name()), (&7, "tokens"));
    assert_eq!(keys.r#type.name(), "kind-of-filing");
    let write = keys.log.write::<Filing>(vec!["b".to_owned()]);
    assert_eq!((write.channel(), write.name()), (index::<Filing>("log"), "log"));
    let state = applied(state, [FilingUpdate::from_writes(Writes::from_iter([write]))]);
    assert_eq!(Contains::<Root>::part(&state).log, ["a", "b"]);
    assert_eq!(format!("{:?}", Filing::update().list([1]).log(["x".to_owned()])), "[list, log]");
}

#[test]
fn managed_fields_follow_the_run() {
    assert!(Filing::CHANNELS.iter().all(|channel| channel.name != "remaining_steps" && channel.name != "is_last"));
    let state = Filing::default();
    assert_eq!(Filing::channels().remaining_steps.get(&state).get(), 0);
    assert_eq!(Filing::channels().steps_left.name(), "steps_left");
    assert!(!Filing::channels().is_last.get(&state).get());
}

#[test]
fn expiring_channels_are_cleared() {
    #[derive(State, Clone, Debug, Serialize, Deserialize)]
    struct Started {
        #[state(flatten)]
        base: Base,
        #[reducer(product)]
        factor: u32,
        #[channel(topic)]
        seen: Vec<u32>,
    }
    impl Default for Started {
        fn default() -> Self {
            Self { base: Base::default(), factor: 1, seen: Vec::new() }
        }
    }
    let mut state =
        applied(Started::default(), [Started::update().factor(6).seen([1]).tokens(3).owner("o".to_owned())]);
    assert_eq!((state.factor, state.seen.len(), state.base.tokens), (6, 1, 3));
    (0..Started::CHANNELS.len()).for_each(|channel| state.clear(channel));
    assert_eq!((state.factor, state.seen.len(), state.base), (1, 0, Base::default()));
}

#[test]
fn values_and_writes_round_trip_through_json() {
    let state = Filing { list: vec![1], handle: Some(Handle), r#type: "vat".to_owned(), ..Filing::default() };
    assert_eq!(value(&state, "list"), Some(json!([1])));
    assert_eq!(value(&state, "kind-of-filing"), Some(json!("vat")));
    assert_eq!(value(&state, "handle"), None);
    assert_eq!(value(&state, "log"), Some(json!([])));
    let update = Filing::update().list(Overwrite(vec![2])).owner("o".to_owned()).handle(Handle).year(1);
    let json = json!({ "list": { "$overwrite": [2] }, "owner": "o", "year": 1 });
    assert_eq!(update.writes().to_json().unwrap(), json);
}

#[test]
fn values_and_writes_move_between_states_by_type() {
    /// Shares `list`, but as a plain channel, and `owner`, but as a reduced one.
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Child {
        list: Vec<u32>,
        #[reducer(last)]
        owner: Option<String>,
    }
    let state = applied(Filing::default(), [Filing::update().list([1]).owner("o".to_owned())]);
    let mut child = Child::default();
    child.set_any(index::<Child>("list"), state.get_any(index::<Filing>("list")).unwrap());
    child.set_any(index::<Child>("owner"), state.get_any(index::<Filing>("owner")).unwrap());
    assert_eq!((&*child.list, child.owner.as_deref()), (&[1][..], Some("o")));
    child.set_any(index::<Child>("list"), &"of another type");
    assert_eq!(child.list, [1]);

    let mut state = state;
    for write in Child::update().list(vec![2]).owner(Some("p".to_owned())).into_writes() {
        let channel = index::<Filing>(write.name());
        let spec = state.channel(channel).unwrap().clone();
        state.reduce(<Filing as Values>::Write::from_any(channel, &spec, write.into_any()).unwrap()).unwrap();
    }
    assert_eq!((&*state.list, state.base.root.owner.as_deref()), (&[1, 2][..], Some("p")));
    let other: Box<dyn Any + Send> = Box::new(1_u8);
    let spec = state.channel(0).unwrap();
    assert!(<Filing as Values>::Write::from_any(0, spec, other).is_none());
}

#[test]
fn whole_state_is_an_update_of_every_channel() {
    let state = Filing { list: vec![1], base: Base { tokens: 2, ..Base::default() }, ..Filing::default() };
    let writes = crate::writes(GraphInput::<Filing, FullState>::into_input(state));
    assert_eq!(writes.len(), Filing::CHANNELS.len());
    let state = applied(Filing::default(), [FilingUpdate::from_writes(writes)]);
    assert_eq!((state.list, state.base.tokens), (vec![1], 2));
    let update = Filing::update().list([1]);
    assert_eq!(crate::writes(GraphInput::<Filing, FullState>::into_input(update)).len(), 1);
}

/// Returns the writes of a new input.
fn writes<S: Values>(input: hier_core::graph::Input<S>) -> Writes<S> {
    match input {
        hier_core::graph::Input::New(writes) | hier_core::graph::Input::Whole(writes) => writes,
        other => panic!("no new input: {other:?}"),
    }
}
