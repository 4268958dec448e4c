//! Threads of an older program, whose `BaseState` did not have all current channels.

use std::sync::Arc;

use hier_agents::layer::Limit;
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, AgentEnd, Approval, Compact};
use hier_core::checkpoint::{ChannelBlob, Checkpointer, Claim, ListQuery, MemorySaver, Saved, Schema, WriteRecord};
use hier_core::graph::CompiledGraph;
use hier_testkit::ScriptedModel;
use serde_json::json;
use uuid::Uuid;

use crate::support::call;

/// The channels that came later.
const LATER: [&str; 5] = ["compaction", "layer_counts", "trust_labels", "found_tools", "background_subagents"];

/// Pays.
#[tool(needs_approval)]
async fn pay(amount: u32) -> String {
    format!("paid {amount}")
}

/// Builds the checkpoint that a program without these channels would have stored.
fn without(later: &[&str], saved: &Saved, before: Option<&Saved>) -> Vec<WriteRecord> {
    let all = saved.checkpoint.channels.clone();
    let kept: Vec<usize> = (0..all.len()).filter(|channel| !later.contains(&&*all[*channel])).collect();
    assert_eq!(kept.len() + later.len(), all.len(), "they are channels");
    let mut checkpoint = saved.checkpoint.clone();
    checkpoint.channels = kept.iter().map(|channel| all[*channel].clone()).collect();
    checkpoint.versions = kept.iter().map(|channel| saved.checkpoint.versions[*channel]).collect();
    let Schema { graph, version, fingerprint, .. } = &*checkpoint.schema;
    checkpoint.schema = Arc::new(Schema::new(graph.clone(), *version, fingerprint ^ 1));
    let brought = saved.values.iter().filter(|(channel, _)| saved.checkpoint.versions[*channel] == checkpoint.id);
    let pieces = brought.filter_map(|(channel, chain)| {
        let base = before.map(|before| before.checkpoint.versions[*channel]);
        let (base, bytes) = match chain.deltas.last() {
            Some(delta) => (base, delta.clone()),
            None => (None, chain.full.clone().expect("nothing is damaged")),
        };
        Some(ChannelBlob { channel: kept.iter().position(|kept| kept == channel)?, base, bytes })
    });
    let namespace: Arc<str> = "".into();
    let pieces = pieces.collect();
    let writes =
        saved.writes.iter().map(|writes| WriteRecord::Writes { namespace: namespace.clone(), writes: writes.clone() });
    let checkpoint = Box::new(checkpoint);
    std::iter::once(WriteRecord::Checkpoint { namespace: namespace.clone(), checkpoint, pieces })
        .chain(writes)
        .collect()
}

/// The same thread, as it was stored without these channels.
async fn stored_without(later: &[&str], from: &MemorySaver, thread: &str) -> MemorySaver {
    let mut ids: Vec<Uuid> =
        from.list(ListQuery::thread(thread)).await.unwrap().iter().map(|listed| listed.checkpoint.id).collect();
    ids.sort_unstable();
    let copy = MemorySaver::new();
    let lease = copy.acquire(thread, Claim::default()).await.unwrap();
    let mut before = None;
    for id in ids {
        let saved = from.get(thread, "", Some(id)).await.unwrap().unwrap();
        copy.commit(&lease, without(later, &saved, before.as_ref()).into()).await.unwrap();
        before = Some(saved);
    }
    copy.release(&lease).await.unwrap();
    copy
}

fn desk(layers: bool) -> CompiledGraph<BaseState, BaseContext> {
    let desk = AgentBuilder::new("desk").tool(pay::TOOL);
    let desk = if layers {
        desk.layer(Limit::new().model_calls(100)).layer(Compact::new().context_tokens(2_000))
    } else {
        desk
    };
    desk.compile().unwrap()
}

#[tokio::test]
async fn thread_stored_without_compaction_is_compacted() {
    let before = MemorySaver::new();
    let old = desk(false).checkpointer(before.clone());
    let thread = || Config::new().thread("t");
    let model = ScriptedModel::new([Message::assistant("Hello."), call("pay", json!({"amount": 7}))]);
    for said in ["Hi.", "Pay."] {
        let out =
            old.invoke(Message::user(said)).config(thread()).context(BaseContext::new(model.clone())).await.unwrap();
        assert_eq!(out.is_finished(), said == "Hi.");
    }
    let saver = stored_without(&LATER, &before, "t").await;
    let stored = saver.get("t", "", None).await.unwrap().unwrap().checkpoint;
    assert!(!stored.channels.iter().any(|channel| LATER.contains(&&**channel)));

    // The current program finds the question and continues.
    let new = desk(true).checkpointer(saver);
    let found = new.state(thread()).await.unwrap();
    assert_eq!((found.values.messages.len(), found.questions.len()), (4, 1));
    assert!(found.values.compaction.is_none());
    let model = ScriptedModel::reacting(|request| {
        let is_summary = request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize"));
        Message::assistant(if is_summary { "They paid." } else { "Done." })
    });
    let context = || BaseContext::new(model.clone());
    let out = new.invoke(Command::resume(Approval::Approve)).config(thread()).context(context()).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    assert_eq!(out.state().messages.get(4).unwrap().text(), "paid 7");

    // Its conversation becomes too long. It is summarized, and nothing is lost.
    for turn in 0..30 {
        let long = format!("{turn}: {}", "and this as well, please ".repeat(20));
        assert!(new.invoke(Message::user(long)).config(thread()).context(context()).await.unwrap().is_finished());
    }
    let state = new.state(thread()).await.unwrap().values;
    assert_eq!(state.messages.len(), 6 + 60);
    let record = state.compaction.expect("a record");
    assert_eq!(record.summary, "They paid.");
    assert_eq!(state.messages.get(0).unwrap().text(), "Hi.");
}
