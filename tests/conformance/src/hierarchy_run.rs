//! Runs a hierarchy scenario and returns the result in the format of the LangGraph recordings.

use std::sync::Arc;

use hier_agents::{
    AgentStuck, BaseContext, Body, ChatRequest, Content, DynBaseState, Message, Messages, ModelError, ToolCall, paired,
};

use hier_core::graph::CompiledGraph;
use hier_core::state::Schema;
use hier_core::{Config, Outcome, RunError, StreamMode};
use hier_testkit::ScriptedModel;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::hierarchy::{Hierarchy, Reply};
use super::hierarchy_build::{build, update};

/// The results of a scenario that ran twice: invoked and streamed.
pub(crate) struct Answers {
    pub(crate) alone: Value,
    pub(crate) streamed: Value,
}

/// Runs a scenario twice: invoked and streamed. Fails if the scenario cannot be built or its input does not fit.
pub(crate) fn run(scenario: &Hierarchy) -> Result<Answers, String> {
    let (graph, schema) = build(scenario).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| format!("cannot be run, because there is no runtime: {error}"))?;
    let once = |streamed| runtime.block_on(answer(scenario, &graph, &schema, streamed));
    Ok(Answers { alone: once(false)?, streamed: once(true)? })
}

async fn answer(
    scenario: &Hierarchy,
    graph: &CompiledGraph<DynBaseState, BaseContext>,
    schema: &Arc<Schema>,
    streamed: bool,
) -> Result<Value, String> {
    let model = ScriptedModel::new(scenario.script.iter().map(reply));
    let input = update(&DynBaseState::initial(schema), scenario.input.clone()).map_err(|error| error.to_string())?;
    let config = Config::new().recursion_limit(scenario.recursion_limit);
    let context = BaseContext::new(model.clone());
    let end = if streamed {
        graph
            .stream(input)
            .config(config)
            .context(context)
            .modes([StreamMode::Values, StreamMode::Updates])
            .outcome()
            .await
    } else {
        graph.invoke(input).config(config).context(context).await
    };
    let prompts: Vec<Value> = model.requests().iter().map(prompt).collect();
    let (last, error) = match &end {
        Ok(outcome) => (finish(scenario, outcome), Value::Null),
        Err(error) => (Value::Null, failure(error)),
    };
    Ok(json!({"prompts": prompts, "final": last, "error": error, "script_left": model.remaining()}))
}

pub(crate) fn reply(reply: &Reply) -> Message {
    let calls = reply.calls.iter().map(|call| ToolCall {
        name: call.name.clone(),
        args: call.args.clone(),
        id: call.id.clone(),
    });
    Message::calls(reply.content.clone(), calls)
}

pub(crate) fn prompt(request: &ChatRequest) -> Value {
    request.messages.iter().map(message).collect()
}

/// Returns the conversations that LangGraph sent to its model, with each call followed by its result. LangGraph sends a call without a
/// result if a subagent shares its supervisor's conversation, and providers refuse that.
pub(crate) fn paired_prompts(prompts: &Value) -> Value {
    let paired_prompt = |prompt: &Value| match Messages::deserialize(prompt) {
        Ok(messages) => paired(&messages).iter().map(message).collect(),
        Err(_) => prompt.clone(),
    };
    prompts.as_array().map_or_else(|| prompts.clone(), |prompts| prompts.iter().map(paired_prompt).collect())
}

fn message(message: &Message) -> Value {
    let mut object = Map::new();
    let role = match &message.body {
        Body::System { .. } => "system",
        Body::User { .. } => "user",
        Body::Assistant { .. } => "assistant",
        Body::Tool { tool_call_id, .. } => {
            object.insert("tool_call_id".to_owned(), Value::from(tool_call_id.as_str()));
            "tool"
        }
        Body::Remove => "remove",
    };
    object.insert("role".to_owned(), Value::from(role));
    object.insert("content".to_owned(), Value::from(message.content().map(Content::text)));
    if !message.tool_calls().is_empty() {
        let calls = message.tool_calls().iter();
        let calls = calls.map(|call| json!({"name": call.name, "args": call.args, "id": call.id}));
        object.insert("calls".to_owned(), calls.collect());
    }
    Value::Object(object)
}

/// Returns the compared part of the final state.
fn finish(scenario: &Hierarchy, outcome: &Outcome<DynBaseState>) -> Value {
    let (state, base) = (outcome.state(), outcome.state().base());
    let mut object = Map::new();
    object.insert("current_agent_report".to_owned(), json!(base.current_agent_report));
    object.insert("is_finished".to_owned(), json!(base.is_finished));
    object.insert("todo_list".to_owned(), json!(base.todo_list));
    object.insert("stack_depth".to_owned(), json!(base.subagent_stack.depth()));
    let channels = scenario.channels.keys();
    object.extend(channels.map(|name| (name.clone(), state.get(name).cloned().unwrap_or_default())));
    Value::Object(object)
}

pub(crate) fn failure(error: &RunError) -> Value {
    if let Some(stuck) = AgentStuck::find_in(error) {
        return json!({
            "kind": "agent_stuck",
            "message": stuck.to_string(),
            "reporting_agent": stuck.reporting_agent,
            "subject_agent": stuck.subject_agent,
        });
    }
    match error.root() {
        RunError::RecursionLimit { .. } => json!({"kind": "recursion_limit"}),
        RunError::Conflict { .. } | RunError::Reduce { .. } => json!({"kind": "invalid_update"}),
        RunError::Node { error: cause, .. } if is_exhausted(cause) => json!({"kind": "script_exhausted"}),
        other => json!({"kind": "node", "message": other.to_string()}),
    }
}

fn is_exhausted(error: &hier_core::NodeError) -> bool {
    let model = error.source().and_then(|source| source.downcast_ref::<ModelError>());
    matches!(model, Some(ModelError::ScriptExhausted { .. }))
}
