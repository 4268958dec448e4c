//! Hierarchies: a supervisor whose subagent waits for a person.

use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Subagent, SubagentPolicy};
use hier_core::graph::{CompiledGraph, GraphBuilder, NodeDef, Task};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::kit::{Case, Program, case};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[state(flatten)]
    base: BaseState,
    #[reducer(append)]
    notes: Vec<String>,
    #[reducer(append)]
    log: Vec<String>,
}

/// A subagent that asks, and writes the answer to `notes`.
fn worker(node: &str) -> CompiledGraph<Desk, BaseContext> {
    let sign = NodeDef::task(async |task: Task<Desk, BaseContext>| -> hier_core::Result<DeskUpdate> {
        let answer: String = task.run().interrupt(&"who signs?").await?;
        Ok(Desk::update().notes([answer.clone()]).log([answer]))
    });
    let graph = GraphBuilder::<Desk, BaseContext>::new("worker").description("works").node(node, sign);
    graph.edge(START, node).edge(node, END).compile().unwrap_or_else(|error| panic!("{error}"))
}

fn desk(node: &str, policy: SubagentPolicy) -> Program {
    let worker = Subagent::new(&worker(node)).policy(policy);
    let desk = AgentBuilder::<Desk>::new("desk").description("helps").subagent(worker).compile();
    let desk = desk.unwrap_or_else(|error| panic!("{error}"));
    let model = ScriptedModel::reacting(|request| match request.messages.last() {
        Some(last) if last.tool_call_id().is_some() => Message::assistant("done"),
        _ => Message::call("worker", json!({ "task": "sign", "task_scope": "all", "task_iterations": 3 })),
    });
    Program::of_agent(desk, move || BaseContext::new(model.clone()))
}

fn returns(fields: &[&'static str]) -> SubagentPolicy {
    SubagentPolicy::new().merge_fields(fields.iter().copied())
}

fn asked(case: Case) -> Case {
    case.input(json!({ "messages": [{ "role": "user", "content": "sign it" }] }))
}

pub(crate) fn breaking() -> Vec<Case> {
    let old = || desk("sign", returns(&["log"]));
    let cases = [
        case("field merged", old(), desk("sign", returns(&["log", "notes"]))).breaks(&["policy-changed"]),
        case("field merged no more", old(), desk("sign", returns(&[]))).breaks(&["policy-changed"]),
        case("node of a subagent removed", old(), desk("confirm", returns(&["log"]))).breaks(&["node-removed"]),
    ];
    cases.into_iter().map(asked).collect()
}

pub(crate) fn harmless() -> Vec<Case> {
    let old = || desk("sign", returns(&["log", "notes"]));
    vec![asked(case("the same policy in another order", old(), desk("sign", returns(&["notes", "log"]))))]
}
