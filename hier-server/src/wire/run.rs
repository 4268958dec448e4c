use std::time::Duration;

use hier_core::runs::{ClientMode, Durability, OnDisconnect, RunOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::checkpoint::CheckpointSelector;

/// A value, or a list of them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(crate) fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

/// The body that creates a run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["assistant_id"]))]
pub(crate) struct RunCreate {
    /// An assistant's id, or the name of a graph.
    #[schemars(with = "String")]
    pub(crate) assistant_id: Required,
    /// The input of the graph. Without an input, the run continues the thread.
    pub(crate) input: Option<Value>,
    /// A command instead of an input. It answers questions, changes the state, or selects the next nodes.
    pub(crate) command: Option<CommandBody>,
    /// The configuration of the run, with the fields `recursion_limit`, `configurable` and `tags`.
    pub(crate) config: Option<ConfigBody>,
    /// The context of the graph's nodes.
    pub(crate) context: Option<Value>,
    /// Metadata of the run and its checkpoints.
    pub(crate) metadata: Option<Map<String, Value>>,
    /// Modes of the events to send. Defaults to `values`.
    #[serde(deserialize_with = "modes")]
    #[schemars(with = "Option<OneOrMany<ClientMode>>")]
    pub(crate) stream_mode: Option<Vec<ClientMode>>,
    /// If true, the stream also contains the events of subgraphs.
    pub(crate) stream_subgraphs: Option<bool>,
    /// If true, events have ids, after which the client can join the stream again.
    pub(crate) stream_resumable: Option<bool>,
    /// Nodes before which the run stops. `*` stands for all nodes.
    pub(crate) interrupt_before: Option<OneOrMany<String>>,
    /// Nodes after which the run stops. `*` stands for all nodes.
    pub(crate) interrupt_after: Option<OneOrMany<String>>,
    /// The URL that the server notifies when the run ends.
    pub(crate) webhook: Option<String>,
    /// Names for feedback, which the server only stores with the run.
    pub(crate) feedback_keys: Option<Vec<String>>,
    /// Delay before the run starts, in seconds.
    pub(crate) after_seconds: Option<f64>,
    /// Determines when checkpoints are stored. Defaults to `async`.
    pub(crate) durability: Option<Durability>,
    /// An older name of `durability`. False stands for `exit`.
    pub(crate) checkpoint_during: Option<bool>,
    /// The checkpoint from which the run starts: its id or its address. Defaults to the latest one.
    pub(crate) checkpoint: Option<Value>,
    /// The id of the checkpoint from which the run starts, instead of `checkpoint`.
    pub(crate) checkpoint_id: Option<Uuid>,
    /// Determines what happens if the thread has a run that has not ended. Defaults to `enqueue`.
    pub(crate) multitask_strategy: Option<Multitask>,
    /// Determines what happens if the thread does not exist: `create` or `reject`. Defaults to `reject`.
    pub(crate) if_not_exists: Option<IfNotExists>,
    /// Determines what happens at the end to the thread of a run whose request names no thread: `keep` or `delete`.
    /// Defaults to `delete`.
    pub(crate) on_completion: Option<OnCompletion>,
    /// Determines what happens to the run if the client disconnects: `cancel` or `continue`. Defaults to `continue`.
    pub(crate) on_disconnect: Option<OnDisconnect>,
    /// The id of the run, if a handler chooses it. Clients cannot set this field.
    #[serde(skip)]
    pub(crate) run_id: Option<Uuid>,
}

/// A required text. Handlers report that it is missing, because bodies that change a run may omit it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Required(pub(crate) Option<String>);

/// Parses stream modes. The error names the unknown mode.
fn modes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ClientMode>>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    let list = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(one) => vec![one],
    };
    let mode = |value: Value| {
        let Value::String(name) = &value else {
            return Err(serde::de::Error::custom(format!("{value} is not a stream mode: write its name as a string")));
        };
        ClientMode::parse(name).map_err(serde::de::Error::custom)
    };
    list.into_iter().map(mode).collect::<Result<_, _>>().map(Some)
}

/// Answers questions, changes the state, or selects the next nodes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Command")]
pub(crate) struct CommandBody {
    /// The answer to the only open question, or an object with answers by the ids of their questions.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) resume: Option<Value>,
    /// Values to write into the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<Value>,
    /// The next nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goto: Option<Value>,
}

/// Distinguishes a field that is null from one that is absent, because null is a valid answer.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The fields of LangChain's `RunnableConfig` that the server reads.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Config")]
pub(crate) struct ConfigBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recursion_limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) configurable: Option<Map<String, Value>>,
}

/// Determines what happens to a run whose thread is busy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MultitaskStrategy")]
pub(crate) enum Multitask {
    Reject,
    #[default]
    Enqueue,
    Interrupt,
    Rollback,
    /// The running run receives the input in its inbox.
    Inject,
}

/// Determines what happens if the thread does not exist.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IfNotExists {
    #[default]
    Reject,
    Create,
}

/// Determines what happens at the end to the thread of a run whose request names no thread.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnCompletion {
    #[default]
    Delete,
    Keep,
}

/// Maximum delay of a run, in seconds: ten years.
const LATEST: f64 = 315_360_000.0;

impl RunCreate {
    pub(crate) fn delay(&self) -> Result<Duration, String> {
        match self.after_seconds {
            None => Ok(Duration::ZERO),
            Some(seconds) if (0.0..=LATEST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
            Some(seconds) => Err(format!("`after_seconds`: {seconds} is not between 0 and {LATEST}")),
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        match (self.durability, self.checkpoint_during) {
            (Some(word), _) => word,
            (None, Some(false)) => Durability::Exit,
            (None, _) => Durability::Async,
        }
    }

    pub(crate) fn options(&self) -> RunOptions {
        let mut options = RunOptions::default();
        if let Some(modes) = &self.stream_mode {
            options.stream_mode.clone_from(modes);
        }
        options.stream_subgraphs = self.stream_subgraphs.unwrap_or(false);
        options.resumable = self.stream_resumable.unwrap_or(false);
        options.feedback_keys.clone_from(&self.feedback_keys);
        options
    }

    /// Returns the checkpoint from which the run starts.
    pub(crate) fn start(&self) -> Result<CheckpointSelector, String> {
        let config = self.config.as_ref().map(|config| json!({ "configurable": config.configurable }));
        let start = CheckpointSelector::parse("checkpoint", self.checkpoint.as_ref())?;
        let start = start.or(CheckpointSelector::parse("config", config.as_ref())?);
        Ok(start.or(CheckpointSelector { checkpoint: self.checkpoint_id, namespace: None }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_an_answer() {
        let command: CommandBody = serde_json::from_value(json!({ "resume": null })).expect("a command");
        assert_eq!(command.resume, Some(Value::Null));
        assert!(serde_json::from_value::<CommandBody>(json!({})).expect("a command").resume.is_none());
    }

    #[test]
    fn unknown_mode_is_named() {
        let error =
            crate::body::from_value::<RunCreate>(json!({ "assistant_id": "x", "stream_mode": ["zzz"] })).unwrap_err();
        assert!(error.detail.starts_with("`stream_mode`: `zzz` is not a stream mode"), "{}", error.detail);
    }

    #[test]
    fn defaults_are_those_of_langgraph() {
        let run: RunCreate = serde_json::from_value(json!({ "assistant_id": "two", "later": 1 })).expect("a run");
        assert_eq!(run.durability(), Durability::Async);
        assert_eq!(run.multitask_strategy.unwrap_or_default(), Multitask::Enqueue);
        assert_eq!(run.delay(), Ok(Duration::ZERO));
        assert!(RunCreate { after_seconds: Some(-1.0), ..RunCreate::default() }.delay().is_err());
    }
}
