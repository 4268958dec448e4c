//! Converts rows of the database into the JSON objects of responses.

use std::time::Duration;

use hier_core::runs::{Durability, Run, ThreadRow};
use serde_json::{Map, Value, json};

use super::message_paths::MessagePaths;
use super::object::{FailureObject, RunKwargs, RunObject, ThreadObject, ThreadTtl};
use super::question;
use crate::reserved::USER;
use crate::time::iso;

/// The namespace of the root graph.
pub(crate) const ROOT: &[&str] = &[];

/// Converts the row of a thread. A thread that has never run has fewer fields, as in LangGraph.
pub(crate) fn thread(message_paths: &MessagePaths, row: &ThreadRow) -> ThreadObject {
    let mut values = row.values.clone().unwrap_or_default();
    message_paths.state(ROOT, &mut values);
    let has_run = row.values.is_some() || row.error.is_some() || !row.interrupts.is_empty();
    let is_bare = row.metadata.contains_key("assistant_id") && row.config.is_empty();
    let ttl = |lives: Duration| ThreadTtl {
        strategy: "delete",
        ttl_minutes: lives.as_secs_f64() / 60.0,
        expires_at: row.updated.checked_add(lives).map(iso),
    };
    ThreadObject {
        thread_id: row.id.clone(),
        created_at: iso(row.created),
        updated_at: iso(row.updated),
        state_updated_at: iso(row.state_updated),
        metadata: row.metadata.clone(),
        status: row.status,
        config: if is_bare { json!({ "configurable": {} }) } else { config(&row.config) },
        values,
        error: has_run.then(|| row.error.as_ref().map(FailureObject::from)),
        interrupts: has_run.then(|| interrupts(&row.interrupts)),
        ttl: row.time_to_live.map(ttl),
        extracted: None,
    }
}

fn interrupts(of: &Map<String, Value>) -> Map<String, Value> {
    let listed = of.iter().map(|(task, asked)| (task.clone(), question::each(Some(asked), question::listed)));
    listed.collect()
}

/// Returns a configuration without the fields of the user.
fn config(of: &Map<String, Value>) -> Value {
    let mut config = of.clone();
    if let Some(configurable) = config.get_mut("configurable").and_then(Value::as_object_mut) {
        configurable.retain(|name, _| !name.starts_with(USER));
    }
    Value::Object(config)
}

/// Returns the configuration of a run. Adds the run's ids to `configurable`, where clients read them.
fn addressed(row: &Run) -> Value {
    let mut configured = config(&row.request.config);
    let addresses = json!({
        "run_id": row.id, "thread_id": row.thread, "graph_id": row.graph, "assistant_id": row.assistant,
    });
    if let (Some(fields), Value::Object(addresses)) = (configured.as_object_mut(), addresses) {
        let configurable = fields.entry("configurable").or_insert_with(|| json!({}));
        if let Some(configurable) = configurable.as_object_mut() {
            configurable.extend(addresses);
        }
    }
    configured
}

/// Converts the row of a run. `kwargs` contains the run's request, without the user and secret channels.
pub(crate) fn run(message_paths: &MessagePaths, row: &Run) -> RunObject {
    let request = &row.request;
    let (mut input, mut command) = (request.shown_input(), request.shown_command());
    message_paths.hide(&mut input);
    if let Some(command) = &mut command {
        message_paths.hide_command(command);
    }
    let options = &request.options;
    let kwargs = RunKwargs {
        input,
        command,
        config: addressed(row),
        context: if request.context.is_null() { json!({}) } else { request.context.clone() },
        stream_mode: json!(options.stream_mode),
        interrupt_before: request.interrupt_before.clone(),
        interrupt_after: request.interrupt_after.clone(),
        webhook: request.webhook.clone(),
        feedback_keys: json!(options.feedback_keys),
        temporary: row.temporary,
        subgraphs: json!(options.stream_subgraphs),
        resumable: json!(options.resumable),
        checkpoint_during: request.durability != Durability::Exit,
        durability: request.durability,
    };
    RunObject {
        run_id: row.id,
        thread_id: row.thread.clone(),
        assistant_id: row.assistant.clone(),
        metadata: row.metadata.clone(),
        status: row.status,
        kwargs,
        multitask_strategy: row.multitask_strategy,
        created_at: iso(row.created),
        updated_at: iso(row.updated),
    }
}

/// Returns the output of a run for `wait` and `join`: the values with the open questions, or the error.
pub(crate) fn output(message_paths: &MessagePaths, row: &Run) -> Value {
    if let Some(error) = &row.error {
        return json!({ "__error__": error });
    }
    let mut values = row.output.as_ref().and_then(|output| output.get("values")).cloned().unwrap_or_else(|| json!({}));
    message_paths.state(ROOT, &mut values);
    let asked: Vec<Value> = questions(row).map(question::asked).collect();
    if let Some(fields) = values.as_object_mut().filter(|_| !asked.is_empty()) {
        fields.insert("__interrupt__".to_owned(), asked.into());
    }
    values
}

/// Returns the questions that are open at the end of a run.
pub(crate) fn questions(row: &Run) -> impl Iterator<Item = &Value> {
    let asked = row.output.as_ref().and_then(|output| output.get("interrupts")).and_then(Value::as_array);
    asked.into_iter().flatten()
}
