//! The cache of conversations: what it keeps, evicts and forgets.

use super::*;
use crate::message::Message;

fn conversation(bytes: usize) -> Vec<Conversation> {
    let messages = Messages::from(Message::user("hello"));
    vec![Conversation { channel: "messages".into(), version: Uuid::from_u128(1), parts: 0, bytes, messages }]
}

fn keep(all: &Conversations, thread: &str, bytes: usize) {
    let (since, _) = all.take(thread);
    all.keep(&Arc::from(thread), since, conversation(bytes));
}

#[test]
fn recently_used_conversation_stays_cached() {
    let all = Conversations::new(10_000);
    for thread in ["a", "b", "c"] {
        keep(&all, thread, 2_000);
    }
    keep(&all, "a", 2_000);
    keep(&all, "d", 2_000);
    let has = |thread: &str| all.kept().threads.contains_key(thread);
    assert_eq!(["a", "b", "c", "d"].map(has), [true, false, true, true]);
    keep(&all, "e", 9_500);
    assert_eq!(all.len(), 3, "a conversation above the limit is not cached and evicts nothing");
    keep(&all, "e", 8_000);
    assert_eq!(["a", "c", "d", "e"].map(has), [false, false, false, true]);
    all.take("e");
    let kept = all.kept();
    assert_eq!((kept.bytes, kept.threads.len(), kept.order.len()), (0, 0, 0));
}

#[test]
fn conversation_evicted_during_a_run_is_not_cached() {
    let all = Conversations::default();
    keep(&all, "a", 1);
    all.forget("a");
    assert!(all.is_empty());
    let (since, _) = all.take("a");
    all.forget("a");
    all.keep(&Arc::from("a"), since, conversation(1));
    assert!(all.is_empty());
    let (since, _) = all.take("a");
    all.forget_all();
    all.keep(&Arc::from("a"), since, conversation(1));
    assert!(all.is_empty());
    keep(&all, "a", 1);
    assert_eq!(all.len(), 1);
}

#[test]
fn zero_capacity_caches_nothing() {
    let all = Conversations::new(0);
    keep(&all, "a", 0);
    assert!(all.is_empty());
}
