//! Properties of compactions: the view of any conversation is valid, and as short as requested.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::record::{Compaction, MessageMark, is_system};
use super::size::{ContextUsage, size_of_all};
use super::stages::{CompactionGoal, NextStage, apply_stages};
use super::view::{compacted, sent_messages};
use hier_checkpoint::message::{Body, Content, Message, Messages, Part, Reasoning, ToolCall};

#[derive(Clone, Debug)]
enum NextMessage {
    System(usize),
    User(usize),
    Image,
    /// A reply: the length of its text, the number of its calls, and whether it has reasoning.
    Model(usize, usize, bool),
    /// A result of this length for the oldest open call.
    Result(usize),
    /// A result without a call.
    Orphan,
    /// A call with the id of an earlier call, as some providers send it.
    Again,
}

fn parts() -> impl Strategy<Value = NextMessage> {
    prop_oneof![
        1 => (0..200_usize).prop_map(NextMessage::System),
        4 => (0..3_000_usize).prop_map(NextMessage::User),
        1 => Just(NextMessage::Image),
        5 => (0..2_000_usize, 0..4_usize, any::<bool>()).prop_map(|(text, calls, thinks)| NextMessage::Model(text, calls, thinks)),
        6 => (0..6_000_usize).prop_map(NextMessage::Result),
        1 => Just(NextMessage::Orphan),
        1 => Just(NextMessage::Again),
    ]
}

/// Excludes messages that are never shortened.
fn unsigned() -> impl Strategy<Value = NextMessage> {
    parts().prop_map(|parts| match parts {
        NextMessage::Model(text, calls, true) => NextMessage::Model(text, calls, false),
        NextMessage::System(length) => NextMessage::User(length),
        NextMessage::Image => NextMessage::Result(20_000),
        other => other,
    })
}

fn conversation(parts: &[NextMessage]) -> Messages {
    let (mut list, mut open) = (Vec::new(), Vec::<ToolCall>::new());
    for (place, next) in parts.iter().enumerate() {
        let call =
            |id: String| ToolCall { name: "look".to_owned(), args: json!({"what": "y".repeat(place * 7 % 900)}), id };
        let message = match *next {
            NextMessage::System(length) => Message::system("s".repeat(length)),
            NextMessage::User(length) => Message::user("u".repeat(length)),
            NextMessage::Image => {
                Message::user(Content::parts([Part::text("see"), Part::image("https://example.org/1.png")]))
            }
            NextMessage::Model(length, calls, thinks) => {
                let made: Vec<_> = (0..calls).map(|number| call(format!("call-{place}-{number}"))).collect();
                open.extend(made.iter().cloned());
                let thoughts = thinks.then(|| Reasoning::new("maker", "hm").with_data(json!({"signature": place})));
                Message::calls("a".repeat(length), made).with_reasoning(thoughts)
            }
            NextMessage::Result(_) if open.is_empty() => continue,
            NextMessage::Result(length) => Message::tool(&open.remove(place % open.len()), "r".repeat(length)),
            NextMessage::Orphan => Message::tool(&call("unknown".to_owned()), "lost"),
            NextMessage::Again => {
                open.push(call("same".to_owned()));
                Message::calls("", [call("same".to_owned())])
            }
        };
        list.push(message);
    }
    list.into()
}

/// Returns the positions of each call and its result. A result belongs to the last call with its id that has no result
/// yet.
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

/// Checks that a view is a valid excerpt of its conversation.
fn check(all: &Messages, record: &Compaction) -> Result<(), TestCaseError> {
    let view = compacted(all, Some(record));
    let cut = record.cut_at(all);
    let ids = |messages: &Messages| messages.iter().filter_map(|message| message.id.clone()).collect::<Vec<_>>();
    let system: Vec<_> = all.iter().filter(|message| is_system(message)).collect();
    let kept: Vec<_> = view.iter().filter(|message| is_system(message)).collect();
    prop_assert_eq!(system, kept, "all instructions are sent unchanged");
    let rest: Vec<_> = ids(all).into_iter().skip(cut).collect();
    prop_assert!(ids(&view).ends_with(&rest), "all messages after the cut are sent in order");
    if cut > 0 {
        let first = view.iter().find(|message| !is_system(message)).unwrap();
        prop_assert!(matches!(first.body, Body::User { .. }), "the first message is a user message: {first:?}");
        let results = view.iter().filter(|message| message.tool_call_id().is_some()).count();
        prop_assert_eq!(pairs(&view).len(), results, "each result has its call");
    }
    for message in view.iter().filter(|message| !message.reasoning().is_empty()) {
        prop_assert!(all.iter().any(|whole| whole == message), "signed answers are unchanged: {message:?}");
    }
    for (call, result) in pairs(all) {
        let has =
            |place: usize| view.place(all.get(place).and_then(|message| message.id.as_deref()).unwrap_or("")).is_some();
        if record.cut.is_some() && (call < cut) == (result < cut) {
            prop_assert_eq!(has(call), has(result), "a call and its result are sent together");
        }
    }
    prop_assert!(view.iter().all(|message| message.content().is_some()));
    Ok(())
}

fn goal(tokens: u64, pins_last: bool) -> CompactionGoal {
    CompactionGoal { tokens, fixed: 0, usage: ContextUsage { tokens: 0, scale: 1.0, reported: None }, pins_last }
}

/// Applies all stages, with a fixed summary.
fn shortened(all: &Messages, before: Option<&Compaction>, goal: CompactionGoal) -> Compaction {
    let apply_stages = apply_stages(all, before, goal);
    match apply_stages.next.clone() {
        NextStage::Done => apply_stages.record,
        NextStage::SumUp(range) => {
            apply_stages.with_summary(all, goal, range.end, ("They talked.".to_owned(), "m".to_owned())).record
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn view_is_valid(
        parts in vec(parts(), 0..60), more in vec(parts(), 0..20), tokens in 10..6_000_u64, pins in any::<bool>(),
    ) {
        let all = conversation(&parts);
        let record = shortened(&all, None, goal(tokens, pins));
        check(&all, &record)?;
        if let Some(cut) = record.cut.as_ref().map(|_| record.cut_at(&all)) {
            prop_assert!(pairs(&all).iter().all(|(call, result)| *call >= cut || *result < cut), "no cut separates a call from its result");
        }
        // The view stays valid when messages are added, and can be compacted again.
        let later = all.followed_by(conversation(&more).iter().cloned().collect());
        check(&later, &record)?;
        let again = shortened(&later, Some(&record), goal(tokens, pins));
        prop_assert!(again.cut_at(&later) >= record.cut_at(&later), "a summary is never undone");
        check(&later, &again)?;
    }

    #[test]
    fn any_cut_is_valid(
        parts in vec(parts(), 1..40), cut in 0..40_usize, cleared in 0..40_usize, offloaded in 0..40_usize,
        clipped in proptest::option::of(0..500_usize),
    ) {
        let all = conversation(&parts);
        let clipped = clipped.and_then(|most| Some(super::Clipping::new(MessageMark::behind(&all, all.len())?, most)));
        let record = Compaction {
            cut: MessageMark::behind(&all, cut),
            cleared: MessageMark::behind(&all, cleared),
            offloaded: MessageMark::behind(&all, offloaded),
            clipped,
            summary: "They talked.".to_owned(),
            ..Compaction::default()
        };
        check(&all, &record)?;
    }

    /// Only instructions and signed replies can exceed the goal.
    #[test]
    fn compaction_reaches_its_goal(
        parts in vec(unsigned(), 0..80), pins in any::<bool>(),
    ) {
        let all = conversation(&parts);
        // Enough room for the shortest form of all messages, in case none can be summarized.
        let goal = goal(12_000, pins);
        let record = shortened(&all, None, goal);
        let size = size_of_all(sent_messages(&all, &record).iter().map(|message| &**message));
        prop_assert!(size <= 12_000, "{size} tokens are sent: {record:?}");
    }
}

#[test]
fn results_that_the_model_has_not_seen_are_not_summarized() {
    let all = conversation(&[
        NextMessage::User(3_000),
        NextMessage::Model(2_000, 0, false),
        NextMessage::User(2_000),
        NextMessage::Model(0, 1, false),
        NextMessage::Result(6_000),
        NextMessage::User(2_000),
    ]);
    let next = apply_stages(&all, None, goal(300, false)).next;
    assert_eq!(next, NextStage::SumUp(0..3), "the call and its result are kept");
}

#[test]
fn record_of_removed_messages_is_ignored() {
    let all: Messages = ["a", "b", "c", "d"].map(|text| Message::user(text).with_id(text)).into();
    let record =
        Compaction { cut: MessageMark::behind(&all, 2), summary: "a and b".to_owned(), ..Compaction::default() };
    assert_eq!(compacted(&all, Some(&record)).len(), 3);
    for gone in ["a", "b"] {
        let left: Messages = all.iter().filter(|message| message.text() != gone).cloned().collect::<Vec<_>>().into();
        assert!(!record.fits(&left));
        assert_eq!(compacted(&left, Some(&record)), left);
    }
    // Instructions do not count towards a position.
    let instructed = all.preceded_by(Some(Message::system("be kind")));
    assert!(record.fits(&instructed));
}
