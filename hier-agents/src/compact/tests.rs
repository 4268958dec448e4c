//! Whatever the conversation and whatever the goal: what is sent is a valid conversation, and short.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::ladder::{Goal, Step, climb};
use super::record::{Compaction, Mark, is_system};
use super::size::{Used, size_of_all};
use super::view::{compacted, sent};
use hier_checkpoint::message::{Body, Content, Message, Messages, Part, Reasoning, ToolCall};

/// What is said next.
#[derive(Clone, Debug)]
enum Said {
    System(usize),
    User(usize),
    Image,
    /// The model speaks: so much text, so many calls, with reasoning or not.
    Model(usize, usize, bool),
    /// The oldest call without a result gets one of this length.
    Result(usize),
    /// A result that nothing has called.
    Orphan,
    /// The same id as another call, as some providers give.
    Again,
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        1 => (0..200_usize).prop_map(Said::System),
        4 => (0..3_000_usize).prop_map(Said::User),
        1 => Just(Said::Image),
        5 => (0..2_000_usize, 0..4_usize, any::<bool>()).prop_map(|(text, calls, thinks)| Said::Model(text, calls, thinks)),
        6 => (0..6_000_usize).prop_map(Said::Result),
        1 => Just(Said::Orphan),
        1 => Just(Said::Again),
    ]
}

/// The same without what is never shortened.
fn unsigned() -> impl Strategy<Value = Said> {
    said().prop_map(|said| match said {
        Said::Model(text, calls, true) => Said::Model(text, calls, false),
        Said::System(length) => Said::User(length),
        Said::Image => Said::Result(20_000),
        other => other,
    })
}

/// The conversation in which this is said.
fn talk(said: &[Said]) -> Messages {
    let (mut list, mut open) = (Vec::new(), Vec::<ToolCall>::new());
    for (place, next) in said.iter().enumerate() {
        let call =
            |id: String| ToolCall { name: "look".to_owned(), args: json!({"what": "y".repeat(place * 7 % 900)}), id };
        let message = match *next {
            Said::System(length) => Message::system("s".repeat(length)),
            Said::User(length) => Message::user("u".repeat(length)),
            Said::Image => Message::user(Content::parts([Part::text("see"), Part::image("https://example.org/1.png")])),
            Said::Model(length, calls, thinks) => {
                let made: Vec<_> = (0..calls).map(|number| call(format!("call-{place}-{number}"))).collect();
                open.extend(made.iter().cloned());
                let thoughts = thinks.then(|| Reasoning::new("maker", "hm").with_data(json!({"signature": place})));
                Message::calls("a".repeat(length), made).with_reasoning(thoughts)
            }
            Said::Result(_) if open.is_empty() => continue,
            Said::Result(length) => Message::tool(&open.remove(place % open.len()), "r".repeat(length)),
            Said::Orphan => Message::tool(&call("nobody".to_owned()), "lost"),
            Said::Again => {
                open.push(call("same".to_owned()));
                Message::calls("", [call("same".to_owned())])
            }
        };
        list.push(message);
    }
    list.into()
}

/// The pairs of calls and results, as places: a result belongs to the last call of its id that has none.
fn pairs(messages: &Messages) -> Vec<(usize, usize)> {
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut pairs = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        message.tool_calls().iter().for_each(|call| open.entry(&call.id).or_default().push(place));
        if let Some(call) = message.tool_call_id().and_then(|id| open.get_mut(id)?.pop()) {
            pairs.push((call, place));
        }
    }
    pairs
}

/// What is sent is made of what was said, in its order, and nothing in it lacks its other half.
fn check(all: &Messages, record: &Compaction) -> Result<(), TestCaseError> {
    let view = compacted(all, Some(record));
    let cut = record.cut_at(all);
    let ids = |messages: &Messages| messages.iter().filter_map(|message| message.id.clone()).collect::<Vec<_>>();
    let system: Vec<_> = all.iter().filter(|message| is_system(message)).collect();
    let kept: Vec<_> = view.iter().filter(|message| is_system(message)).collect();
    prop_assert_eq!(system, kept, "instructions are all sent, as they are");
    let rest: Vec<_> = ids(all).into_iter().skip(cut).collect();
    prop_assert!(ids(&view).ends_with(&rest), "all behind the cut is sent, in its order");
    if cut > 0 {
        let first = view.iter().find(|message| !is_system(message)).unwrap();
        prop_assert!(matches!(first.body, Body::User { .. }), "the user begins: {first:?}");
        let results = view.iter().filter(|message| message.tool_call_id().is_some()).count();
        prop_assert_eq!(pairs(&view).len(), results, "no result is alone");
    }
    for message in view.iter().filter(|message| !message.reasoning().is_empty()) {
        prop_assert!(all.iter().any(|whole| whole == message), "what may be signed is as it was: {message:?}");
    }
    for (call, result) in pairs(all) {
        let has =
            |place: usize| view.place(all.get(place).and_then(|message| message.id.as_deref()).unwrap_or("")).is_some();
        if record.cut.is_some() && (call < cut) == (result < cut) {
            prop_assert_eq!(has(call), has(result), "a call and its result go together");
        }
    }
    prop_assert!(view.iter().all(|message| message.content().is_some()));
    Ok(())
}

fn goal(tokens: u64, pins_last: bool) -> Goal {
    Goal { tokens, fixed: 0, used: Used { tokens: 0, scale: 1.0, reported: None }, pins_last }
}

/// Up all the rungs, with this summary.
fn shortened(all: &Messages, before: Option<&Compaction>, goal: Goal) -> Compaction {
    let climb = climb(all, before, goal);
    match climb.next.clone() {
        Step::Done => climb.record,
        Step::SumUp(range) => climb.summed_up(all, goal, range.end, ("They talked.".to_owned(), "m".to_owned())).record,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_sent_is_valid(
        said in vec(said(), 0..60), more in vec(said(), 0..20), tokens in 10..6_000_u64, pins in any::<bool>(),
    ) {
        let all = talk(&said);
        let record = shortened(&all, None, goal(tokens, pins));
        check(&all, &record)?;
        if let Some(cut) = record.cut.as_ref().map(|_| record.cut_at(&all)) {
            prop_assert!(pairs(&all).iter().all(|(call, result)| *call >= cut || *result < cut), "no pair is cut apart");
        }
        // Later it is the same, with what came since behind it; and it can be made shorter again.
        let later = all.followed_by(talk(&more).iter().cloned().collect());
        check(&later, &record)?;
        let again = shortened(&later, Some(&record), goal(tokens, pins));
        prop_assert!(again.cut_at(&later) >= record.cut_at(&later), "a summary is never taken back");
        check(&later, &again)?;
    }

    #[test]
    fn any_cut_is_valid(
        said in vec(said(), 1..40), cut in 0..40_usize, cleared in 0..40_usize, offloaded in 0..40_usize,
        clipped in proptest::option::of(0..500_usize),
    ) {
        let all = talk(&said);
        let clipped = clipped.and_then(|most| Some(super::Clipping::new(Mark::behind(&all, all.len())?, most)));
        let record = Compaction {
            cut: Mark::behind(&all, cut),
            cleared: Mark::behind(&all, cleared),
            offloaded: Mark::behind(&all, offloaded),
            clipped,
            summary: "They talked.".to_owned(),
            ..Compaction::default()
        };
        check(&all, &record)?;
    }

    /// What can be shortened is: what is left is instructions, and what a provider has signed.
    #[test]
    fn the_goal_is_reached(
        said in vec(unsigned(), 0..80), pins in any::<bool>(),
    ) {
        let all = talk(&said);
        // Room for the shortest form of as many messages, should none of them be summed up because all belong together.
        let goal = goal(12_000, pins);
        let record = shortened(&all, None, goal);
        let size = size_of_all(sent(&all, &record).iter().map(|message| &**message));
        prop_assert!(size <= 12_000, "{size} tokens are sent: {record:?}");
    }
}

/// A record that stands for messages which are gone is not used.
#[test]
fn what_was_removed_is_in_no_summary() {
    let all: Messages = ["a", "b", "c", "d"].map(|text| Message::user(text).with_id(text)).into();
    let record = Compaction { cut: Mark::behind(&all, 2), summary: "a and b".to_owned(), ..Compaction::default() };
    assert_eq!(compacted(&all, Some(&record)).len(), 3);
    for gone in ["a", "b"] {
        let left: Messages = all.iter().filter(|message| message.text() != gone).cloned().collect::<Vec<_>>().into();
        assert!(!record.fits(&left));
        assert_eq!(compacted(&left, Some(&record)), left);
    }
    // Instructions come and go with those who give them.
    let told = all.preceded_by(Some(Message::system("be kind")));
    assert!(record.fits(&told));
}
