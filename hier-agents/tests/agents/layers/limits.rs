//! Limits of a run.

use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::layer::{Inherited, Layer, Limit, ModelCall, ModelReply, NextModel};
use hier_agents::prelude::*;
use hier_agents::{
    AgentBuilder, AgentEnd, AgentLimit, Approval, BaseStateUpdate, Body, ChatResponse, Subagent, SubagentPolicy, Usage,
};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::Retry;
use hier_core::state::Values;
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;

use super::{Moody, Try};
use crate::support::{call, calls, finish, report};

/// Looks something up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("order {order}")
}

/// Pays.
#[tool(needs_approval)]
async fn pay(amount: u32) -> String {
    format!("paid {amount}")
}

fn agent(limit: Limit) -> AgentBuilder<BaseState> {
    AgentBuilder::new("desk").tool(lookup::TOOL).tool(pay::TOOL).layer(limit)
}

fn look(order: u32) -> Message {
    call("lookup", json!({ "order": order }))
}

fn end(limit: AgentLimit) -> AgentEnd {
    AgentEnd::Limit(limit)
}

#[tokio::test]
async fn run_ends_at_its_limit_and_the_next_starts_at_zero() {
    let desk = agent(Limit::new().model_calls(2)).compile().unwrap().checkpointer(MemorySaver::new());
    for _ in 0..2 {
        let model = ScriptedModel::new([look(1), look(2), Message::assistant("never said")]);
        let context = BaseContext::new(model.clone());
        let out = desk.invoke(Message::user("?")).thread("t").context(context).await.unwrap();
        assert_eq!(out.ending(), Some(&end(AgentLimit::ModelCalls(2))));
        assert_eq!(model.call_count(), 2);
        assert_eq!(
            out.state().current_agent_report,
            "No answer: the agent ended early: the run reached its limit of model calls (2)."
        );
        // The conversation can go on.
        assert_eq!(out.state().messages.last().unwrap().text(), "order 2");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_requests_do_not_count() {
    for limit in [Limit::new().model_calls(1), Limit::new().model_calls(2)] {
        let desk = AgentBuilder::<BaseState>::new("desk").layer(Retry::attempts(3)).layer(Inherited::new(limit));
        let desk = desk.compile().unwrap();
        let model = Moody::new("m", [Try::Busy(vec![]), Try::Busy(vec![]), Try::Says(vec!["Yes."])]);
        let out = desk.invoke(Message::user("?")).context(BaseContext::new(model.clone())).await.unwrap();
        assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Text), 3));
    }
}

#[tokio::test]
async fn resumed_run_keeps_its_call_counts() {
    let saver = MemorySaver::new();
    // Another process each time.
    let desk = || agent(Limit::new().model_calls(2).tool_calls(1)).compile().unwrap().checkpointer(saver.clone());
    let model = ScriptedModel::new([call("pay", json!({"amount": 7})), look(1)]);
    let context = || BaseContext::new(model.clone());
    let asked = desk().invoke(Message::user("?")).thread("t").context(context()).await.unwrap();
    assert!(!asked.is_finished());
    let out = desk().invoke(Command::resume(Approval::Approve)).thread("t").context(context()).await.unwrap();
    assert_eq!(out.ending(), Some(&end(AgentLimit::ModelCalls(2))));
    let texts: Vec<String> = out.state().messages.iter().map(Message::text).collect();
    assert_eq!(texts[2], "paid 7");
    assert!(texts[4].contains("not called: the limit of 1 tool calls is reached"), "{texts:?}");
    let counts: Vec<_> = out.state().layer_counts.iter().map(|(key, count)| (key.to_owned(), count)).collect();
    assert_eq!(counts, [("desk/0:Limit model_calls".to_owned(), 2), ("desk/0:Limit tool_calls".to_owned(), 1)]);
}

#[tokio::test]
async fn calls_of_one_answer_count_in_order() {
    let desk = agent(Limit::new().tool_calls(2)).compile().unwrap();
    let three =
        calls([("lookup", json!({"order": 1})), ("lookup", json!({"order": 2})), ("lookup", json!({"order": 3}))]);
    let model = ScriptedModel::new([three, look(4), Message::assistant("Two.")]);
    let out = desk.invoke(Message::user("?")).context(BaseContext::new(model)).await.unwrap();
    let texts: Vec<String> = out.state().messages.iter().skip(2).map(Message::text).collect();
    assert_eq!(texts[..2], ["order 1", "order 2"]);
    assert!(
        texts[2].contains("the limit of 2 tool calls") && texts[4].contains("the limit of 2 tool calls"),
        "{texts:?}"
    );
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
}

#[tokio::test]
async fn tokens_are_counted_from_the_providers_usage() {
    let desk = agent(Limit::new().tokens(100)).compile().unwrap();
    let costly = |order| {
        let mut message = look(order);
        if let Body::Assistant { usage, .. } = &mut message.body {
            *usage = Some(Usage::new(50, 10));
        }
        message
    };
    let model = ScriptedModel::new([costly(1), costly(2), costly(3)]);
    let out = desk.invoke(Message::user("?")).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&end(AgentLimit::Tokens(100))), 2));
}

/// Asks the inner layers this often, or answers in their place.
struct Asks(u32);

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Asks {
    async fn model_call(&self, call: ModelCall<'_, S, C>, next: NextModel<'_, S, C>) -> Result<ModelReply<S>> {
        let mut reply =
            ModelReply::answer(ChatResponse::new(Message::assistant("I know.").with_usage(Usage::new(5, 5))));
        for _ in 0..self.0 {
            reply = next.call(call.clone()).await?;
        }
        Ok(reply)
    }
}

/// Every answer of a model counts, and an answer of a layer where no model was asked.
#[tokio::test]
async fn limit_counts_what_its_inner_layers_ask() {
    for (asks, answers, tokens) in [(0, 1, 10), (1, 1, 4), (3, 3, 12)] {
        let limit = || Limit::new().model_calls(100).tokens(1_000);
        let desk =
            AgentBuilder::<BaseState>::new("desk").layer(limit()).layer(Asks(1)).layer(limit()).layer(Asks(asks));
        let model = ScriptedModel::reacting(|_| Message::assistant("Yes.").with_usage(Usage::new(3, 1)));
        let context = BaseContext::new(model.clone());
        let out = desk.compile().unwrap().invoke(Message::user("?")).context(context).await.unwrap();
        assert_eq!(model.call_count(), asks as usize);
        for place in [0, 2] {
            let count = |what: &str| out.state().layer_counts.get(&format!("desk/{place}:Limit {what}"));
            assert_eq!((count("model_calls"), count("tokens")), (answers, tokens), "{asks}, {place}");
        }
    }
}

#[tokio::test]
async fn reporting_agent_ends_at_its_limit() {
    let clerk = AgentBuilder::<BaseState>::react("clerk").tool(lookup::TOOL).layer(Limit::new().model_calls(1));
    let clerk = Subagent::new(&clerk.compile().unwrap()).policy(SubagentPolicy::new());
    let desk = AgentBuilder::<BaseState>::react("desk").subagent(clerk).compile_as_root().unwrap();
    let model = ScriptedModel::new([call("clerk", json!({"task": "x"})), look(1), finish("done")]);
    let out = desk.invoke(BaseState::update()).context(BaseContext::new(model.clone())).await.unwrap();
    let received: Vec<String> = model.requests()[2].messages.iter().map(Message::text).collect();
    assert!(
        received
            .iter()
            .any(|text| text
                .contains("[FORCED EXIT] the agent ended early: the run reached its limit of model calls (1)")),
        "{received:?}"
    );
    assert_eq!(out.ending(), Some(&AgentEnd::Report));
}

/// All agents below count together, also those that run side by side.
#[tokio::test]
async fn inherited_limit_counts_the_whole_tree() {
    let clerk =
        || Subagent::new(&AgentBuilder::<BaseState>::react("clerk").compile().unwrap()).policy(SubagentPolicy::new());
    let desk = || {
        let desk = AgentBuilder::<BaseState>::react("desk").subagent(clerk()).parallel_subagents(true);
        desk.layer(Inherited::new(Limit::new().model_calls(4))).compile_as_root().unwrap()
    };
    let three =
        || calls([("clerk", json!({"task": "a"})), ("clerk", json!({"task": "b"})), ("clerk", json!({"task": "c"}))]);
    let model = ScriptedModel::new([three(), report("a"), report("b"), report("c"), finish("never")]);
    let out = desk().invoke(BaseState::update()).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&end(AgentLimit::ModelCalls(4))), 4));
    // Side by side: one of five is not asked.
    let model =
        ScriptedModel::new([three(), Message::assistant("a"), Message::assistant("b"), Message::assistant("c")]);
    let out = desk().invoke(BaseState::update()).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&end(AgentLimit::ModelCalls(4))), 4));
    assert_eq!(out.state().layer_counts.get("desk/0:Limit model_calls"), 4);
}

/// Calls of parallel agents count when they end, before the agents report.
#[tokio::test]
async fn inherited_limit_counts_ended_calls_of_running_agents() {
    let clerk = AgentBuilder::<BaseState>::react("clerk").tool(lookup::TOOL).compile().unwrap();
    let clerk = Subagent::new(&clerk).policy(SubagentPolicy::new());
    let desk = AgentBuilder::<BaseState>::react("desk").subagent(clerk).parallel_subagents(true);
    let desk = desk.layer(Inherited::new(Limit::new().model_calls(5))).compile_as_root().unwrap();
    let model = ScriptedModel::reacting(|request| match &*request.tools {
        tools if tools.iter().any(|tool| tool.name == "lookup") => look(1),
        _ => calls([("clerk", json!({"task": "a"})), ("clerk", json!({"task": "b"}))]),
    });
    let out = desk.invoke(BaseState::update()).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&end(AgentLimit::ModelCalls(5))), 5));
}

/// Subagent calls next to tool calls do not count as tool calls.
#[tokio::test]
async fn subagent_calls_do_not_count_as_tool_calls() {
    let clerk =
        Subagent::new(&AgentBuilder::<BaseState>::react("clerk").compile().unwrap()).policy(SubagentPolicy::new());
    let desk = agent(Limit::new().tool_calls(1)).subagent(clerk).parallel_subagents(true).compile().unwrap();
    let both = calls([
        ("clerk", json!({"task": "a"})),
        ("lookup", json!({"order": 1})),
        ("clerk", json!({"task": "b"})),
        ("lookup", json!({"order": 2})),
    ]);
    let model = ScriptedModel::new([both, report("a"), report("b"), Message::assistant("One.")]);
    let out = desk.invoke(Message::user("?")).context(BaseContext::new(model)).await.unwrap();
    let texts: Vec<String> = out.state().messages.iter().skip(2).map(Message::text).collect();
    assert_eq!(texts[..3], ["a", "order 1", "b"]);
    assert!(texts[3].contains("the limit of 1 tool calls"), "{texts:?}");
}

static FOUND: AtomicUsize = AtomicUsize::new(0);

/// Finds an order, after the other calls have begun.
#[tool]
async fn find(order: u32) -> String {
    FOUND.fetch_add(1, Ordering::SeqCst);
    tokio::task::yield_now().await;
    format!("order {order}")
}

graph! {
    /// Makes four calls in parallel.
    Finder<BaseState, BaseContext> = Graph {
        nodes: [ask_for_four, act = tools![find]],
        edges: [START >> ask_for_four >> act >> END],
    }
}

async fn ask_for_four() -> BaseStateUpdate {
    let four = [1, 2, 3, 4].map(|order| ("find", json!({ "order": order })));
    BaseState::update().messages(calls(four))
}

#[tokio::test]
async fn inherited_limit_holds_for_parallel_calls_of_a_node() {
    let finder = Subagent::new(&Finder::compile()).policy(SubagentPolicy::new());
    let desk = AgentBuilder::<BaseState>::new("desk").subagent(finder);
    let desk = desk.layer(Inherited::new(Limit::new().tool_calls(2))).compile().unwrap();
    let model = ScriptedModel::new([call("finder", json!({"task": "x"})), Message::assistant("Found.")]);
    let out = desk.invoke(Message::user("?")).context(BaseContext::new(model)).await.unwrap();
    assert_eq!((out.ending(), FOUND.load(Ordering::SeqCst)), (Some(&AgentEnd::Text), 2));
}
