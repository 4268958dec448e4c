//! The options of a request to a model.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Options of a model request. If an option is `None` or empty, the provider's default applies.
///
/// ```
/// use hier_agents::{Effort, ModelOptions};
///
/// let options = ModelOptions::new().temperature(0.2).max_tokens(500).reasoning(Effort::Low).stop(["END"]);
/// assert_eq!(options.max_tokens, Some(500));
/// ```
///
/// In `graph!`, write `ModelOptions { temperature: 0.2, reasoning: Effort::Low }`. If a provider does not support an
/// option, the request fails, except for a few options that hier leaves out of the request. The page *Models* of hier's
/// documentation lists both cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[must_use]
pub struct ModelOptions {
    /// The sampling temperature. At 0, the model always chooses the most probable token.
    pub temperature: Option<f64>,
    /// The probability mass for nucleus sampling, from 0 to 1. The model samples only from the most probable tokens
    /// whose total probability is this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The maximum length of the reply in tokens, including reasoning. Anthropic's API requires a limit. By default,
    /// hier sends 32,000 for most Anthropic models.
    pub max_tokens: Option<u32>,
    /// The amount of reasoning that the model does before it replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Effort>,
    /// The strings that end a reply. When the model generates one of them, the reply ends just before this string.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The tools that the model may or must call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// True if one reply may contain several tool calls, false if it may contain at most one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_calls: Option<bool>,
    /// The sampling seed. A provider that supports seeds tries to give equal replies to equal requests with equal
    /// seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// The time for which the provider should cache the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PromptCache>,
    /// Additional request fields in the provider's format, as an object. hier merges them into the request: it merges
    /// objects field by field, appends lists, and replaces other values. For example, a field `tools` adds the
    /// provider's own tools to the tools in the request.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub extra: Value,
}

impl ModelOptions {
    /// Creates options in which no option is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the sampling temperature. At 0, the model always chooses the most probable token.
    pub fn temperature(self, temperature: impl Into<Option<f64>>) -> Self {
        Self { temperature: temperature.into(), ..self }
    }

    /// Sets the probability mass for nucleus sampling, from 0 to 1. See [`top_p`](Self#structfield.top_p).
    pub fn top_p(self, top_p: impl Into<Option<f64>>) -> Self {
        Self { top_p: top_p.into(), ..self }
    }

    /// Limits the length of the reply in tokens, including reasoning.
    pub fn max_tokens(self, max_tokens: impl Into<Option<u32>>) -> Self {
        Self { max_tokens: max_tokens.into(), ..self }
    }

    /// Sets the amount of reasoning before the reply.
    pub fn reasoning(self, effort: impl Into<Option<Effort>>) -> Self {
        Self { reasoning: effort.into(), ..self }
    }

    /// Sets the strings that end a reply. When the model generates one of them, the reply ends just before this string.
    pub fn stop<T: Into<String>>(self, stop: impl IntoIterator<Item = T>) -> Self {
        Self { stop: stop.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the tools that the model may or must call.
    pub fn tool_choice(self, choice: impl Into<Option<ToolChoice>>) -> Self {
        Self { tool_choice: choice.into(), ..self }
    }

    /// Sets whether one reply may contain several tool calls.
    pub fn parallel_calls(self, parallel: impl Into<Option<bool>>) -> Self {
        Self { parallel_calls: parallel.into(), ..self }
    }

    /// Sets the sampling seed. A provider that supports seeds tries to give equal replies to equal requests with equal
    /// seeds.
    pub fn seed(self, seed: impl Into<Option<i64>>) -> Self {
        Self { seed: seed.into(), ..self }
    }

    /// Sets the time for which the provider should cache the prompt.
    pub fn cache(self, cache: impl Into<Option<PromptCache>>) -> Self {
        Self { cache: cache.into(), ..self }
    }

    /// Sets additional request fields in the provider's format. See [`extra`](Self#structfield.extra).
    pub fn extra(self, extra: Value) -> Self {
        Self { extra, ..self }
    }
}

/// The amount of reasoning before a reply. Each provider interprets the levels in its own way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Effort {
    /// No reasoning, if the model supports that.
    None,
    /// The least reasoning that the model supports.
    Minimal,
    /// Little reasoning.
    Low,
    /// The usual amount of reasoning.
    Medium,
    /// Much reasoning.
    High,
    /// Another level that the provider defines, such as `max` or `xhigh`.
    Other(String),
}

const EFFORTS: [(&str, Effort); 5] = [
    ("none", Effort::None),
    ("minimal", Effort::Minimal),
    ("low", Effort::Low),
    ("medium", Effort::Medium),
    ("high", Effort::High),
];

impl Effort {
    /// Returns the level as the word that represents it in JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(word) => word,
            known => EFFORTS.iter().find(|(_, effort)| effort == known).map_or("", |(word, _)| word),
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<String> for Effort {
    fn from(word: String) -> Self {
        let known = EFFORTS.into_iter().find(|(known, _)| *known == word);
        known.map_or(Self::Other(word), |(_, effort)| effort)
    }
}

impl From<&str> for Effort {
    fn from(word: &str) -> Self {
        Self::from(word.to_owned())
    }
}

impl From<Effort> for String {
    fn from(effort: Effort) -> Self {
        effort.as_str().to_owned()
    }
}

/// The tools that a model may or must call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model may call any tool.
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call a tool.
    Required,
    /// The model must call the tool with this name.
    Tool(String),
}

/// The time for which a provider should cache a prompt: instructions, tools and the conversation so far. A later
/// request that begins with the same prompt then costs less. Most providers always cache prompts, and ignore this
/// option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptCache {
    /// A few minutes.
    Short,
    /// One hour. The provider charges a higher price for the request that adds the prompt to the cache.
    Long,
}
