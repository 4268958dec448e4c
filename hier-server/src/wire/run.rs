//! What clients send to create a run.

use std::time::Duration;

use hier_core::runs::{ClientMode, Durability, OnDisconnect, RunOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A value, or a list of them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum OneOrMany<T> {
    /// One.
    One(T),
    /// Several.
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

/// The body that creates a run, on a thread or without one.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["assistant_id"]))]
pub(crate) struct RunCreate {
    /// An assistant's id, or the name of a graph.
    #[schemars(with = "String")]
    pub(crate) assistant_id: Required,
    /// The input of the graph; null goes on with what is there.
    pub(crate) input: Option<Value>,
    /// Answers what was asked, changes the state or goes elsewhere, in the place of an input.
    pub(crate) command: Option<CommandBody>,
    /// How the run is done: `recursion_limit`, `configurable`, `tags`.
    pub(crate) config: Option<ConfigBody>,
    /// The context of the graph's nodes.
    pub(crate) context: Option<Value>,
    /// Kept with the run and its checkpoints.
    pub(crate) metadata: Option<Map<String, Value>>,
    /// What is told of the run; `values` unless given.
    #[serde(deserialize_with = "modes")]
    #[schemars(with = "Option<OneOrMany<ClientMode>>")]
    pub(crate) stream_mode: Option<Vec<ClientMode>>,
    /// Whether the events of graphs inside are told too.
    pub(crate) stream_subgraphs: Option<bool>,
    /// Whether events have ids, from which a stream can be joined again.
    pub(crate) stream_resumable: Option<bool>,
    /// Nodes before which the run stops; `*` is all.
    pub(crate) interrupt_before: Option<OneOrMany<String>>,
    /// Nodes after which the run stops; `*` is all.
    pub(crate) interrupt_after: Option<OneOrMany<String>>,
    /// The address that is told of the end.
    pub(crate) webhook: Option<String>,
    /// Kept with the run for clients that ask for feedback.
    pub(crate) feedback_keys: Option<Vec<String>>,
    /// How many seconds from now the run begins.
    pub(crate) after_seconds: Option<f64>,
    /// When checkpoints are stored; `async` unless given.
    pub(crate) durability: Option<Durability>,
    /// An older name: false is the durability `exit`.
    pub(crate) checkpoint_during: Option<bool>,
    /// The checkpoint that the run begins from, unless the latest.
    pub(crate) checkpoint: Option<Value>,
    /// The same by its id alone.
    pub(crate) checkpoint_id: Option<Uuid>,
    /// What becomes of it if the thread has a run; `enqueue` unless given.
    pub(crate) multitask_strategy: Option<Multitask>,
    /// Whether a thread that is not there is made; it is refused unless `create`.
    pub(crate) if_not_exists: Option<IfNotExists>,
    /// Whether the thread of a run without one stays; it is deleted unless `keep`.
    pub(crate) on_completion: Option<OnCompletion>,
    /// Whether the run is cancelled if its client goes away; it goes on unless `cancel`.
    pub(crate) on_disconnect: Option<OnDisconnect>,
    /// The id, where the server knows one: clients cannot choose it.
    #[serde(skip)]
    pub(crate) run_id: Option<Uuid>,
}

/// A text that has to be there. Its absence is an error of the handler's, so that other fields can be left out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Required(pub(crate) Option<String>);

/// Modes, each checked, with the place of the one that is wrong.
fn modes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ClientMode>>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    let list = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(one) => vec![one],
    };
    let mode = |value: Value| {
        let Value::String(name) = &value else {
            return Err(serde::de::Error::custom(format!("{value} is no stream mode, which are texts")));
        };
        ClientMode::parse(name).map_err(serde::de::Error::custom)
    };
    list.into_iter().map(mode).collect::<Result<_, _>>().map(Some)
}

/// Answers, changes and redirects a thread.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Command")]
pub(crate) struct CommandBody {
    /// The answer to what was asked, or one for each id of a question.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) resume: Option<Value>,
    /// A change of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<Value>,
    /// The nodes that are next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goto: Option<Value>,
}

/// A field that is there with null differs from one that is not there: null is an answer too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The part of LangChain's `RunnableConfig` that a server takes.
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

/// What becomes of a second run of a thread that is busy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MultitaskStrategy")]
pub(crate) enum Multitask {
    Reject,
    #[default]
    Enqueue,
    Interrupt,
    Rollback,
    /// The input goes to the inbox of the run that is running.
    Inject,
}

/// What happens if the thread is not there.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IfNotExists {
    #[default]
    Reject,
    Create,
}

/// What becomes of the thread of a run without one, when the run has ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnCompletion {
    #[default]
    Delete,
    Keep,
}

/// The longest that a run may be put off: ten years.
const LATEST: f64 = 315_360_000.0;

impl RunCreate {
    /// How long the run waits before it starts.
    pub(crate) fn delay(&self) -> Result<Duration, String> {
        match self.after_seconds {
            None => Ok(Duration::ZERO),
            Some(seconds) if (0.0..=LATEST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
            Some(seconds) => Err(format!("`after_seconds`: {seconds} is not between 0 and {LATEST}")),
        }
    }

    /// When its checkpoints are stored.
    pub(crate) fn durability(&self) -> Durability {
        match (self.durability, self.checkpoint_during) {
            (Some(word), _) => word,
            (None, Some(false)) => Durability::Exit,
            (None, _) => Durability::Async,
        }
    }

    /// How clients follow the run.
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

    /// The namespace of that checkpoint.
    pub(crate) fn namespace(&self) -> Result<String, String> {
        let flat = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.get("checkpoint_ns"));
        let configured = self.config.as_ref().and_then(|config| config.configurable.as_ref()?.get("checkpoint_ns"));
        match flat.or(configured).filter(|namespace| !namespace.is_null()) {
            None => Ok(String::new()),
            Some(Value::String(namespace)) => Ok(namespace.clone()),
            Some(other) => Err(format!("`checkpoint.checkpoint_ns`: {other} is not a text")),
        }
    }

    /// The checkpoint that it starts from, if not the latest.
    pub(crate) fn start(&self) -> Result<Option<Uuid>, String> {
        let flat = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.get("checkpoint_id"));
        let configured = self.config.as_ref().and_then(|config| config.configurable.as_ref()?.get("checkpoint_id"));
        match flat.or(configured).filter(|id| !id.is_null()) {
            None => Ok(self.checkpoint_id),
            Some(id) => {
                let parsed = id.as_str().and_then(|id| Uuid::try_parse(id).ok());
                parsed.map(Some).ok_or_else(|| format!("`checkpoint.checkpoint_id`: {id} is no UUID"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_is_an_answer() {
        let command: CommandBody = serde_json::from_value(json!({ "resume": null })).expect("a command");
        assert_eq!(command.resume, Some(Value::Null));
        assert!(serde_json::from_value::<CommandBody>(json!({})).expect("a command").resume.is_none());
    }

    #[test]
    fn a_mode_that_is_none_is_named() {
        let error =
            crate::body::from_value::<RunCreate>(json!({ "assistant_id": "x", "stream_mode": ["zzz"] })).unwrap_err();
        assert!(error.detail.starts_with("`stream_mode`: `zzz` is no stream mode"), "{}", error.detail);
    }

    #[test]
    fn what_clients_do_not_say_is_as_the_reference_has_it() {
        let run: RunCreate = serde_json::from_value(json!({ "assistant_id": "two", "later": 1 })).expect("a run");
        assert_eq!(run.durability(), Durability::Async);
        assert_eq!(run.multitask_strategy.unwrap_or_default(), Multitask::Enqueue);
        assert_eq!(run.delay(), Ok(Duration::ZERO));
        assert!(RunCreate { after_seconds: Some(-1.0), ..RunCreate::default() }.delay().is_err());
    }
}
