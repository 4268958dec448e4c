//! `Compact` among the layers of an agent, and inherited.

use hier_agents::layer::{Fallback, Inherited};

use super::*;

graph! {
    Listed<BaseState, Desk> = Agent {
        layers: [Compact { at: 0.8, context_tokens: 1_500, by: |desk| &desk.cheap }, Fallback(|desk| &desk.cheap)],
    }
}

#[tokio::test]
async fn compact_is_listed_as_a_layer() {
    let (smart, cheap) = (provider(1_500, summing_up), provider(1_500, summing_up));
    let chat = Listed::compile().checkpointer(MemorySaver::new());
    for _ in 0..40 {
        let desk = Desk { base: BaseContext::new(smart.clone()), cheap: cheap.clone() };
        let text = Message::user("tell me more ".repeat(20));
        let out = chat.invoke(text).thread("t").context(desk).await.unwrap();
        assert_eq!(out.ending(), Some(&AgentEnd::Text));
    }
    assert!(cheap.call_count() > 0 && cheap.requests().iter().all(is_summary));
    assert!(!smart.requests().iter().any(is_summary));
}

graph! {
    /// Reads.
    Reader<BaseState> = Agent { tools: [read_page], max_repeats: 50 }
}

graph! {
    Boss<BaseState> = Agent { subagents: [Reader {}], layers: [Inherited(Compact { context_tokens: 3_000 })] }
}

/// An inherited one keeps a record for each agent, in that agent's own state.
#[tokio::test]
async fn inherited_compaction_bounds_subagents() {
    let left = AtomicUsize::new(30);
    let model = provider(3_000, move |request| {
        if is_summary(request) {
            return Message::assistant("Pages were read.");
        }
        let is_boss = request.tools.iter().any(|tool| tool.name == "reader");
        let has_read = request.messages.iter().any(|message| message.tool_call_id().is_some());
        match (is_boss, has_read) {
            (true, false) => call("reader", json!({"task": "read all"})),
            (true, true) => Message::assistant("Done."),
            (false, _) if left.fetch_sub(1, Ordering::Relaxed) > 1 => call("read_page", json!({"number": 7})),
            (false, _) => Message::assistant("All read."),
        }
    });
    let boss = Boss::compile().checkpointer(MemorySaver::new());
    let context = BaseContext::new(model.clone());
    let out = boss.invoke(Message::user("go")).thread("t").context(context).await.unwrap();
    assert_eq!((out.ending(), &*out.state().current_agent_report), (Some(&AgentEnd::Text), "Done."));
    assert!(out.state().compaction.is_none(), "the reader's is the reader's");
    assert!(model.requests().iter().any(|request| request.tools.iter().any(|tool| tool.name == "read_earlier")));
    assert!(model.requests().iter().all(|request| tokens(request) <= 3_000));
}

#[test]
fn options_out_of_range_are_refused() {
    for (compact, wanted) in [
        (Compact::new().at(1.5), "`at: 1.5`"),
        (Compact::new().at(0.0), "`at: 0`"),
        (Compact::new().at(0.5).to(0.6), "`to` must be above 0 and below `at`"),
        (Compact::new().context_tokens(0), "`context_tokens: 0`"),
    ] {
        let error = AgentBuilder::<BaseState>::new("chat").layer(compact).compile().unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
}
