//! Deep hierarchies: the cost of a call does not depend on the conversation before it, and no stack overflows.

use hier_agents::{AgentBuilder, Subagent, SubagentPolicy};

use hier_agents::prelude::*;
use hier_core::graph::CompiledGraph;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::layers::heard;
use crate::support::{Filing, FilingUpdate, call, finish, prompt, report};

/// Agents within agents, this many deep.
fn tower(levels: usize) -> CompiledGraph<Filing, BaseContext> {
    let policy = || SubagentPolicy::new().merge_fields(["findings"]);
    let leaf = AgentBuilder::<Filing>::react(format!("level{levels}")).compile().expect("a leaf");
    let inner = (1..levels).rev().fold(leaf, |inner, level| {
        let subagent = Subagent::new(&inner).policy(policy());
        AgentBuilder::react(format!("level{level}")).subagent(subagent).compile().expect("an agent")
    });
    AgentBuilder::react("root").subagent(Subagent::new(&inner).policy(policy())).compile_as_root().expect("a root")
}

/// Calls down to the last level, and reports up.
fn script(levels: usize) -> Vec<Message> {
    let down = (1..=levels).map(|level| call(&format!("level{level}"), json!({"task": "go on"})));
    let up = (1..=levels).rev().map(|level| report(&format!("level {level} was here")));
    down.chain(up).chain([finish("done")]).collect()
}

#[tokio::test]
async fn two_hundred_nested_agents_run() {
    let model = ScriptedModel::new(script(200));
    let out = tower(200).invoke(Filing::update()).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!(model.remaining(), Some(0));
    let base = &out.state().base;
    assert_eq!(base.current_agent_report, "done");
    assert_eq!(base.subagent_stack.depth(), 0);
    assert_eq!(base.progress.iter().filter(|(_, calls)| calls.finished == 1).count(), 200);
}

graph! {
    Top<Filing> = ReactGraph { subagents: [Middle {}] }
}

graph! {
    Middle<Filing> = ReactGraph { subagents: [Bottom {}], on_entry: mark }
}

graph! {
    Bottom<Filing> = ReactGraph { tools: [frames] }
}

fn mark() -> FilingUpdate {
    Filing::update().draft("of the middle")
}

/// Shows the frames.
#[tool]
async fn frames(state: &Filing) -> String {
    let frames = state.base.subagent_stack.iter().map(|frame| {
        let saved: &Filing = frame.saved_state().expect("a filing");
        format!("{} called from `{}` with {} messages", frame.agent_name(), saved.draft, saved.base.messages.len())
    });
    frames.collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn each_call_gets_a_frame_with_its_callers_state() {
    let model = ScriptedModel::new([
        call("middle", json!({"task": "go on"})),
        call("bottom", json!({"task": "go on"})),
        call("frames", json!({})),
        report("up"),
        report("up"),
        finish("done"),
    ]);
    let input = Filing::update().draft("of the top");
    let out = Top::compile_as_root().invoke(input).context(BaseContext::new(model.clone())).await.unwrap();
    let received = &prompt(&model, 3)[4];
    assert_eq!(
        received,
        "bottom called from `of the middle` with 4 messages, middle called from `of the top` with 3 messages"
    );
    assert_eq!(out.state().draft, "of the top", "a subagent's changes stay its own");
}

/// The end of a stream has the arguments that the conversation stores.
#[tokio::test]
async fn streamed_reply_has_the_repaired_arguments() {
    let chat = AgentBuilder::<BaseState>::new("chat").compile().expect("an agent");
    let model = ScriptedModel::new([call("unknown", json!(null)), Message::assistant("done")]);
    let (received, out) = heard(&chat, Message::user("?"), BaseContext::new(model)).await;
    let stored = out.expect("it ends").state().messages.get(1).expect("a reply").clone();
    assert_eq!(received.ends[0].message.tool_calls(), stored.tool_calls());
    assert_eq!(stored.tool_calls()[0].args, json!({}));
}
