//! The objects that clients read.

use std::borrow::Cow;

use hier_core::runs::{Durability, Failure, MultitaskStrategy, RunStatus, ThreadStatus};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::run::Multitask;

/// A thread: what ran on it, and where it is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the protocol")]
#[expect(clippy::option_option, reason = "a field that is not there differs from one that is null")]
pub(crate) struct Thread {
    pub(crate) thread_id: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    /// When its values last changed.
    pub(crate) state_updated_at: String,
    pub(crate) metadata: Map<String, Value>,
    #[schemars(schema_with = "thread_statuses")]
    pub(crate) status: ThreadStatus,
    /// The configuration of its last run.
    pub(crate) config: Value,
    /// The values of its channels; null before its first run.
    pub(crate) values: Value,
    /// Why its last run failed; not there before its first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Option<Failed>>,
    /// What is asked, for each task by its id; not there before its first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interrupts: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<Lives>,
    /// What `extract` of a search asked for, by its names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extracted: Option<Map<String, Value>>,
}

fn thread_statuses(_: &mut SchemaGenerator) -> Schema {
    let all = [ThreadStatus::Idle, ThreadStatus::Busy, ThreadStatus::Interrupted, ThreadStatus::Error];
    json_schema!({ "type": "string", "enum": all.map(ThreadStatus::name) })
}

/// How long a thread lives.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ThreadTtl")]
pub(crate) struct Lives {
    pub(crate) strategy: &'static str,
    pub(crate) ttl_minutes: f64,
    pub(crate) expires_at: Option<String>,
}

/// Why a run failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Failure")]
pub(crate) struct Failed {
    /// The kind of the error, which programs can match.
    error: String,
    /// What people read.
    message: String,
    /// Where it happened, if a node failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl From<&Failure> for Failed {
    fn from(failure: &Failure) -> Self {
        Self { error: failure.error.clone(), message: failure.message.clone(), place: failure.place.clone() }
    }
}

/// A run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct RunObject {
    pub(crate) run_id: Uuid,
    pub(crate) thread_id: String,
    pub(crate) assistant_id: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    #[schemars(schema_with = "run_statuses")]
    pub(crate) status: RunStatus,
    /// What it was asked for.
    pub(crate) kwargs: Asked,
    #[schemars(with = "Multitask")]
    pub(crate) multitask_strategy: MultitaskStrategy,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}

/// The statuses of runs, by their names.
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

/// What a run was asked for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunKwargs")]
pub(crate) struct Asked {
    pub(crate) input: Value,
    pub(crate) command: Option<Value>,
    pub(crate) config: Value,
    pub(crate) context: Value,
    pub(crate) stream_mode: Value,
    pub(crate) interrupt_before: Option<Vec<String>>,
    pub(crate) interrupt_after: Option<Vec<String>>,
    pub(crate) webhook: Option<String>,
    pub(crate) feedback_keys: Value,
    /// Whether its thread is deleted with its end.
    pub(crate) temporary: bool,
    pub(crate) subgraphs: Value,
    pub(crate) resumable: Value,
    pub(crate) checkpoint_during: bool,
    #[schemars(with = "String")]
    pub(crate) durability: Durability,
}

/// What a run returned; made as it is sent, since a run returns what its graph returns.
pub(crate) enum RunOutput {}

impl JsonSchema for RunOutput {
    fn schema_name() -> Cow<'static, str> {
        "RunOutput".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The values of the run, whatever its graph returns; with `__interrupt__` if something is asked. If the run \
                            failed, nothing but `__error__`.",
            "properties": {
                "__error__": generator.subschema_for::<Failed>(),
                "__interrupt__": { "type": "array", "items": { "type": "object" } },
            },
            "additionalProperties": true,
        })
    }
}

/// A state of a thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "ThreadState")]
pub(crate) struct State {
    pub(crate) values: Value,
    /// The nodes that run next.
    pub(crate) next: Vec<String>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) metadata: Option<Map<String, Value>>,
    pub(crate) created_at: Option<String>,
    pub(crate) checkpoint: Option<Address>,
    pub(crate) parent_checkpoint: Option<Address>,
    pub(crate) interrupts: Vec<Question>,
    pub(crate) checkpoint_id: Option<Uuid>,
    pub(crate) parent_checkpoint_id: Option<Uuid>,
}

/// The address of a checkpoint; of the latest if it has no id.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "CheckpointAddress")]
pub(crate) struct Address {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint_id: Option<Uuid>,
    pub(crate) thread_id: String,
    /// The graph inside; empty for the thread's own.
    pub(crate) checkpoint_ns: String,
}

/// A task of a step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Task {
    pub(crate) id: Uuid,
    /// The node.
    pub(crate) name: String,
    pub(crate) path: Value,
    pub(crate) error: Option<String>,
    pub(crate) interrupts: Vec<Question>,
    /// Where the state of the graph is that the task runs.
    pub(crate) checkpoint: Option<Address>,
    /// That state, if it was asked for.
    pub(crate) state: Option<Box<State>>,
    pub(crate) result: Value,
}

/// What a node asks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Question {
    pub(crate) id: Value,
    pub(crate) value: Value,
}
