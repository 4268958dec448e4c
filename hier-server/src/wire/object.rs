//! The JSON objects that responses contain.

use std::borrow::Cow;

use hier_core::runs::{Durability, Failure, MultitaskStrategy, RunStatus, ThreadStatus};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::run::Multitask;

/// A thread, with the result of its last run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Thread")]
#[expect(clippy::option_option, reason = "an absent field differs from null")]
pub(crate) struct ThreadObject {
    pub(crate) thread_id: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    /// Time of the last change of the thread's values.
    pub(crate) state_updated_at: String,
    pub(crate) metadata: Map<String, Value>,
    #[schemars(schema_with = "thread_statuses")]
    pub(crate) status: ThreadStatus,
    /// The configuration of the thread's last run.
    pub(crate) config: Value,
    /// The values of the thread's channels. Null before the first run.
    pub(crate) values: Value,
    /// The error of the thread's last run. Absent before the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Option<FailureObject>>,
    /// The open questions of each task, by the task's id. Absent before the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interrupts: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<ThreadTtl>,
    /// The values that a search extracts, by the names in the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extracted: Option<Map<String, Value>>,
}

fn thread_statuses(_: &mut SchemaGenerator) -> Schema {
    let all = [ThreadStatus::Idle, ThreadStatus::Busy, ThreadStatus::Interrupted, ThreadStatus::Error];
    json_schema!({ "type": "string", "enum": all.map(ThreadStatus::name) })
}

/// The time to live of a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ThreadTtl {
    pub(crate) strategy: &'static str,
    pub(crate) ttl_minutes: f64,
    pub(crate) expires_at: Option<String>,
}

/// The error of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Failure")]
pub(crate) struct FailureObject {
    /// The kind of error, which programs can match.
    error: String,
    /// The text of the error.
    message: String,
    /// The node that failed, if the error comes from a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl From<&Failure> for FailureObject {
    fn from(failure: &Failure) -> Self {
        Self { error: failure.error.clone(), message: failure.message.clone(), place: failure.place.clone() }
    }
}

/// A run of a graph on a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct RunObject {
    pub(crate) run_id: Uuid,
    pub(crate) thread_id: String,
    pub(crate) assistant_id: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    #[schemars(schema_with = "run_statuses")]
    pub(crate) status: RunStatus,
    /// The request for the run.
    pub(crate) kwargs: RunKwargs,
    #[schemars(with = "Multitask")]
    pub(crate) multitask_strategy: MultitaskStrategy,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}

pub(crate) fn run_statuses(_: &mut SchemaGenerator) -> Schema {
    let all = [
        RunStatus::Pending,
        RunStatus::Running,
        RunStatus::Success,
        RunStatus::Error,
        RunStatus::Interrupted,
        RunStatus::Timeout,
    ];
    json_schema!({ "type": "string", "enum": all.map(RunStatus::name) })
}

/// The request for a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RunKwargs {
    pub(crate) input: Value,
    pub(crate) command: Option<Value>,
    pub(crate) config: Value,
    pub(crate) context: Value,
    pub(crate) stream_mode: Value,
    pub(crate) interrupt_before: Option<Vec<String>>,
    pub(crate) interrupt_after: Option<Vec<String>>,
    pub(crate) webhook: Option<String>,
    pub(crate) feedback_keys: Value,
    /// True if the thread is deleted when the run ends.
    pub(crate) temporary: bool,
    pub(crate) subgraphs: Value,
    pub(crate) resumable: Value,
    pub(crate) checkpoint_during: bool,
    #[schemars(with = "String")]
    pub(crate) durability: Durability,
}

/// The output of a run. This type is only a schema, because graphs return different types.
pub(crate) enum RunOutput {}

impl JsonSchema for RunOutput {
    fn schema_name() -> Cow<'static, str> {
        "RunOutput".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The values of the run, with `__interrupt__` if questions are open. If the run failed, only `__error__`.",
            "properties": {
                "__error__": generator.subschema_for::<FailureObject>(),
                "__interrupt__": { "type": "array", "items": { "type": "object" } },
            },
            "additionalProperties": true,
        })
    }
}

/// The state of a thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "ThreadState")]
pub(crate) struct StateObject {
    pub(crate) values: Value,
    /// The nodes that run next.
    pub(crate) next: Vec<String>,
    pub(crate) tasks: Vec<TaskObject>,
    pub(crate) metadata: Option<Map<String, Value>>,
    pub(crate) created_at: Option<String>,
    pub(crate) checkpoint: Option<CheckpointAddress>,
    pub(crate) parent_checkpoint: Option<CheckpointAddress>,
    pub(crate) interrupts: Vec<QuestionObject>,
    pub(crate) checkpoint_id: Option<Uuid>,
    pub(crate) parent_checkpoint_id: Option<Uuid>,
}

/// The address of a checkpoint. An address without an id is that of the latest checkpoint.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CheckpointAddress {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint_id: Option<Uuid>,
    pub(crate) thread_id: String,
    /// The namespace of a subgraph. Empty for the root graph.
    pub(crate) checkpoint_ns: String,
}

/// A task of a superstep.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Task")]
pub(crate) struct TaskObject {
    pub(crate) id: Uuid,
    /// The name of the node.
    pub(crate) name: String,
    pub(crate) path: Value,
    pub(crate) error: Option<String>,
    pub(crate) interrupts: Vec<QuestionObject>,
    /// The address of the subgraph's state, if the task runs a subgraph and the response does not contain the state.
    pub(crate) checkpoint: Option<CheckpointAddress>,
    /// The subgraph's state, if the task runs a subgraph and the client requests the states of subgraphs.
    pub(crate) state: Option<Box<StateObject>>,
    pub(crate) result: Value,
}

/// A question that a node asks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Question")]
pub(crate) struct QuestionObject {
    pub(crate) id: Value,
    pub(crate) value: Value,
}
