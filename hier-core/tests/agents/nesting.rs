//! Hierarchies that are deep: what a call costs does not depend on the history around it, and no stack overflows.

use hier_core::agent::{AgentBuilder, ScriptedModel, Subagent, SubagentPolicy};
use hier_core::prelude::*;
use serde_json::json;

use crate::support::{Filing, call, finish, report};

/// Agents within agents, this many deep.
fn tower(levels: usize) -> CompiledGraph<Filing, BaseContext> {
    let policy = || SubagentPolicy::new().merge_fields(["findings"]);
    let leaf = AgentBuilder::<Filing>::react(format!("level{levels}")).compile().expect("a leaf");
    let inner = (1..levels).rev().fold(leaf, |inner, level| {
        let subagent = Subagent::of(&inner).policy(policy());
        AgentBuilder::react(format!("level{level}")).subagent(subagent).compile().expect("an agent")
    });
    AgentBuilder::react("root").subagent(Subagent::of(&inner).policy(policy())).compile_as_root().expect("a root")
}

/// Calls down to the last level, and reports up.
fn script(levels: usize) -> Vec<Message> {
    let down = (1..=levels).map(|level| call(&format!("level{level}"), json!({"task": "go on"})));
    let up = (1..=levels).rev().map(|level| report(&format!("level {level} was here")));
    down.chain(up).chain([finish("done")]).collect()
}

#[tokio::test]
async fn two_hundred_levels() {
    let model = ScriptedModel::new(script(200));
    let out = tower(200).invoke(Filing::update(), Config::default(), BaseContext::new(model.clone())).await.unwrap();
    assert_eq!(model.remaining(), Some(0));
    let base = &out.state().base;
    assert_eq!(base.current_agent_report, "done");
    assert_eq!(base.subagent_stack.depth(), 0);
    assert_eq!(base.progress.iter().filter(|(_, calls)| calls.finished == 1).count(), 200);
}

#[tokio::test]
async fn each_level_has_its_own_frame() {
    let model = ScriptedModel::reacting(|request| {
        let asked = request.messages.iter().filter(|message| !message.tool_calls().is_empty()).count();
        let deeper = request.tools.iter().find(|tool| tool.name.starts_with("level"));
        match deeper {
            Some(tool) if asked == 0 => call(&tool.name, json!({"task": "go on"})),
            _ if request.tools.iter().any(|tool| tool.name == "finish_task") => finish("done"),
            _ => report("up"),
        }
    });
    let mut events = tower(3).stream(
        Filing::update().draft("kept"),
        Config::default().stream_subgraphs(true),
        BaseContext::new(model),
        [StreamMode::Values],
    );
    let mut depths = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Values(state) = event.unwrap() {
            depths.push(state.base.subagent_stack.depth());
        }
    }
    assert!(depths.iter().all(|depth| *depth == 0), "the root itself has no frame: {depths:?}");
}
