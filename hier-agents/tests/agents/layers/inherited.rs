//! Layers that go around the calls of agents and nodes below.

use hier_agents::layer::{
    Emails, Fallback, Guard, Inherited, Layer, ModelCall, ModelReply, NextModel, Redact, Verdict,
};
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Subagent, SubagentPolicy};
use hier_core::message::ToolCall;
use hier_core::state::{Values, wants_tools};
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;

use super::{Log, Moody, Try, heard};
use crate::support::{Filing, call, finish, report};

struct Desk {
    base: BaseContext,
    cheap: Moody,
    log: Log,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Notes the asking agent, in the context of the agent that lists the layer.
struct Asks;

#[async_trait]
impl<S: Values> Layer<S, Desk> for Asks {
    async fn model_call(&self, call: ModelCall<'_, S, Desk>, next: NextModel<'_, S, Desk>) -> Result<ModelReply<S>> {
        let who = format!("{} in {}", call.run().node(), call.site().agent());
        call.context().log.note(who);
        next.call(call).await
    }
}

graph! {
    Top<Filing, Desk> = ReactGraph {
        subagents: [Middle {}],
        layers: [Inherited(Asks), Inherited(Redact(Emails)), Inherited(Fallback(|desk| &desk.cheap))],
    }
}

graph! {
/// Has a smaller state and context than its caller.
    Middle<Filing> = ReactGraph { subagents: [Bottom {}, Notes {}] }
}

graph! {
    Bottom<BaseState> = Agent { tools: [find] }
}

graph! {
    /// Asks a model in a node, and makes calls in another.
    Notes<BaseState, BaseContext> = Graph {
        nodes: [think, act = tools![find]],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> END],
    }
}

async fn think(state: &BaseState, run: &Run<BaseContext>) -> Result<BaseStateUpdate> {
    let answer = run.model()?.ask(&state.messages).tools(tools![find]).await?;
    Ok(BaseState::update().messages(answer.message))
}

use hier_agents::BaseStateUpdate;

/// Finds a customer.
#[tool]
async fn find() -> String {
    "eva@example.org".to_owned()
}

#[tokio::test]
async fn inherited_layers_wrap_calls_three_levels_down() {
    let model = ScriptedModel::new([
        call("middle", json!({"task": "ask max@example.org"})),
        call("bottom", json!({"task": "find"})),
        call("find", json!({})),
        Message::assistant("It is eva@example.org."),
        call("notes", json!({"task": "note"})),
        call("find", json!({})),
        report("eva@example.org"),
        finish("eva@example.org"),
    ]);
    let log = Log::default();
    let desk = Desk { base: BaseContext::new(model.clone()), cheap: Moody::new("cheap", []), log: log.clone() };
    let (received, outcome) = heard(&Top::compile_as_root(), Filing::update(), desk).await;
    let out = outcome.unwrap();
    assert_eq!(
        log.take(),
        [
            "reasoning in top",
            "reasoning in middle",
            "model in bottom",
            "model in bottom",
            "reasoning in middle",
            "think in notes",
            "reasoning in middle",
            "reasoning in top"
        ]
    );
    let all = [
        serde_json::to_string(&model.requests()).unwrap(),
        serde_json::to_string(out.state()).unwrap(),
        format!("{received:?}"),
    ];
    assert!(all.iter().all(|text| !text.contains("example.org") && text.contains("[redacted]")), "{all:#?}");
}

#[tokio::test]
async fn model_of_the_context_above_answers_below() {
    let smart = Moody::new("smart", vec![Try::Refuses; 2]);
    let worker = AgentBuilder::<BaseState, Desk>::new("worker").compile().unwrap();
    let worker = Subagent::new(&worker).policy(SubagentPolicy::new());
    let fallback = Inherited::new(Fallback::<Desk>::new(|desk| &desk.cheap));
    let top = AgentBuilder::<BaseState, Desk>::new("top").subagent(worker).layer(fallback).compile().unwrap();
    let cheap = Moody::new("cheap", [Try::Says(vec!["So", " be it."])]);
    let desk = Desk { base: BaseContext::new(smart), cheap: cheap.clone(), log: Log::default() };
    let out = top.invoke(Message::user("?")).context(desk).await.unwrap();
    assert_eq!((&*out.state().current_agent_report, cheap.call_count()), ("So be it.", 1));
}

/// An agent's own layers are not inherited, and are inside the inherited ones.
#[tokio::test]
async fn only_inherited_layers_reach_subagents() {
    let deny = |text: &'static str| Guard::new(move |_: &ToolCall, _: &BaseState| Verdict::Deny(text.to_owned()));
    let run = async |top: AgentBuilder<BaseState>, worker: AgentBuilder<BaseState>| {
        let worker = Subagent::new(&worker.tool(find::TOOL).compile().unwrap()).policy(SubagentPolicy::new());
        let top = top.subagent(worker).compile().unwrap();
        let model = ScriptedModel::new([
            call("worker", json!({"task": "x"})),
            call("find", json!({})),
            Message::assistant("ok"),
            Message::assistant("ok"),
        ]);
        let _ = top.invoke(Message::user("?")).context(BaseContext::new(model.clone())).await.unwrap();
        model.requests()[2].messages.last().unwrap().text()
    };
    let agent = |name: &str| AgentBuilder::<BaseState>::new(name);
    assert_eq!(run(agent("top").layer(deny("top")), agent("worker")).await, "eva@example.org");
    assert_eq!(run(agent("top").layer(Inherited::new(deny("top"))), agent("worker")).await, "Error: top");
    let own = agent("worker").layer(deny("worker"));
    assert_eq!(run(agent("top").layer(Inherited::new(deny("top"))), own).await, "Error: top");
    assert_eq!(run(agent("top"), agent("worker").layer(deny("worker"))).await, "Error: worker");
}
