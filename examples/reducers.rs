//! Every reducer and every kind of channel, in one run of three steps.
//!
//! In the first step two nodes, `am` and `pm`, run in parallel and write the same channels. Reducers merge their writes. In
//! the second step `rest` writes, and in the third `reset` overwrites instead of merging.
//!
//! The columns show the writes of `am` and `pm` and the values that later nodes see. A topic and an ephemeral channel last
//! one step. A plain channel has one writer per step, so only `am` writes `place`. If `pm` writes it too, the run fails with
//! an error that names both. With `writes: [place]` on both, the graph does not compile.
//!
//! Run it: `cargo run --example reducers`

use std::collections::{BTreeMap, BTreeSet};

use hier::Event;
use hier::channel::Kind;
use hier::prelude::*;
use hier::reducer::Identified;
use hier::state::{ChannelWrite, Overwrite, RemainingSteps};
use serde_json::Value;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Diary {
    #[reducer(append)]
    visits: Vec<String>,
    #[reducer(extend)]
    tags: BTreeSet<char>,
    #[reducer(extend)]
    prices: BTreeMap<String, u32>,
    #[reducer(sum)]
    steps: u64,
    #[reducer(product)]
    growth: f64,
    #[reducer(max)]
    warmest: i32,
    #[reducer(min)]
    coldest: i32,
    #[reducer(any)]
    rained: bool,
    #[reducer(all)]
    on_time: bool,
    #[reducer(by_id)]
    tasks: Vec<Item>,
    #[reducer(last)]
    mood: String,
    #[reducer(with = longest)]
    quote: String,
    #[reducer(messages)]
    talk: Messages,
    place: String, // plain: the last value, one writer per step
    #[state(rename = "type")]
    kind: String, // plain, with another name
    #[channel(ephemeral)]
    hint: Option<String>,
    #[channel(topic)]
    alarms: Vec<u8>,
    #[channel(topic(accumulate))]
    hours: Vec<u8>,
    #[channel(untracked)]
    #[serde(skip)]
    session: u32, // never leaves the process: not stored and not streamed
    remaining_steps: RemainingSteps, // managed: only the engine writes it
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Item {
    id: u32,
    what: String,
}

impl Identified for Item {
    type Id = u32;
    fn id(&self) -> &u32 {
        &self.id
    }
}

/// A custom reducer merges in place and may return a `Result`.
fn longest(old: &mut String, new: String) {
    if new.len() > old.len() {
        *old = new;
    }
}

graph! {
    Day<Diary> = Graph {
        nodes: [am, pm, rest, reset],
        edges: [START >> [am, pm] >> rest >> reset >> END],
    }
}

fn item(id: u32, what: &str) -> Item {
    Item { id, what: what.to_owned() }
}

async fn am() -> DiaryUpdate {
    let update = Diary::update().visits(["bank".to_owned()]).tags(['a', 'b']).prices([("tea".to_owned(), 3)]);
    let update = update.steps(4_000).growth(1.5).warmest(19).coldest(11).rained(false).on_time(true);
    let update = update.tasks([item(1, "pay"), item(2, "call")]).mood("calm").quote("Carpe diem");
    let update = update.talk([Message::user("Hi").with_id("m1")]).place("office").kind("weekday");
    update.hint("umbrella".to_owned()).alarms([7]).hours([7, 9]).session(7)
}

async fn pm() -> DiaryUpdate {
    let update = Diary::update().visits(["gym".to_owned()]).tags(['b', 'c']);
    let update = update.prices([("tea".to_owned(), 4), ("bun".to_owned(), 2)]).steps(2_500).growth(2.0);
    let update = update.warmest(24).coldest(9).rained(true).on_time(false).tasks([item(2, "called"), item(3, "shop")]);
    let update = update.mood("tired").quote("So it goes").talk([Message::user("Hello").with_id("m1")]);
    update.alarms([18]).hours([18])
}

async fn rest() -> DiaryUpdate {
    Diary::update().place("home").hours([23])
}

async fn reset() -> DiaryUpdate {
    Diary::update().visits(Overwrite(Vec::new())).steps(Overwrite(0)).talk([Message::remove("m1")])
}

#[tokio::main]
async fn main() -> hier::Result<()> {
    // A channel starts at its field's default. For another start, overwrite it or implement `Default`.
    let input = Diary::update().growth(Overwrite(1.0)).coldest(Overwrite(99)).on_time(Overwrite(true));
    let mut events = Day::compile().stream(input).modes([StreamMode::Values, StreamMode::Updates]);
    let mut columns = Vec::new();
    while let Some(event) = events.next().await {
        columns.push(match event? {
            Event::Values(state) => cells(|index, _| state.to_json(index).ok().flatten()),
            Event::Updates(done) => {
                cells(|_, name| done.update.writes().iter().find(|write| write.name() == name)?.to_json().ok())
            }
            _ => continue,
        });
    }
    // In order: the state with the input, the writes of am and pm, the state, the writes of rest, the state, …
    let shown = [1, 2, 3, 5, 7].map(|column| columns.get(column).cloned().unwrap_or_default());
    println!(
        "channel  kind             am wrote        pm wrote        rest sees          reset sees         at the end"
    );
    for (row, channel) in Diary::CHANNELS.iter().enumerate() {
        let kind = match (channel.kind, &channel.reducer) {
            (_, Some(reducer)) => reducer.to_string(),
            (Kind::Last, None) => "plain".to_owned(),
            (Kind::TopicAccumulate, None) => "topic, kept".to_owned(),
            (other, None) => format!("{other:?}").to_lowercase(),
        };
        let [am, pm, second, third, end] = shown.each_ref().map(|column| column.get(row).map_or("", String::as_str));
        println!("{:8} {kind:16} {am:15} {pm:15} {second:18} {third:18} {end}", channel.name);
    }
    let session = events.outcome().await?.state().session;
    println!("\nThe session is untracked, so streams do not show it. At the end it is {session}.");
    Ok(())
}

/// Returns a column: the value of each channel as a short text.
fn cells(value: impl Fn(usize, &str) -> Option<Value>) -> Vec<String> {
    let channels = Diary::CHANNELS.iter().enumerate();
    channels.map(|(index, channel)| value(index, &channel.name).as_ref().map_or_else(String::new, text)).collect()
}

fn text(value: &Value) -> String {
    let join = |texts: Vec<String>| texts.join(", ");
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => join(items.iter().map(text).collect()),
        Value::Object(fields) => match fields.get("what").or(fields.get("content")).or(fields.get("$overwrite")) {
            Some(field) => text(field),
            None => join(fields.iter().map(|(name, value)| format!("{name} {}", text(value))).collect()),
        },
        other => other.to_string(),
    }
}
