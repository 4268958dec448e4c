//! How a model is to answer.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a model is to answer. What is not set is left to the model.
///
/// ```
/// use hier_agents::{Effort, ModelOptions};
///
/// let options = ModelOptions::new().temperature(0.2).max_tokens(500).reasoning(Effort::Low).stop(["END"]);
/// assert_eq!(options.max_tokens, Some(500));
/// ```
///
/// In `graph!` the same is written `ModelOptions { temperature: 0.2, reasoning: Effort::Low }`. A provider that lacks an
/// option refuses the request, unless the docs of its dialect say that it is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModelOptions {
    /// From 0, always the likeliest word, upwards.
    pub temperature: Option<f64>,
    /// Only words that make up this much of the probability, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The longest answer, in tokens. Reasoning counts.
    pub max_tokens: Option<u32>,
    /// How much the model thinks before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Effort>,
    /// Texts at which the answer ends; they are not part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Whether the model may, must or must not call a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether one answer may have several calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_calls: Option<bool>,
    /// Equal seeds are to give equal answers, as far as the provider can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// How long the provider is to remember the prompt, where that has to be asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PromptCache>,
    /// Additional request fields in the provider's format: an object that is merged into the request. It replaces values and appends to
    /// lists, so that the provider's own `tools` are added to those of the program.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub extra: Value,
}

impl ModelOptions {
    /// Options of which none is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// From 0, always the likeliest word, upwards.
    #[must_use]
    pub fn temperature(self, temperature: impl Into<Option<f64>>) -> Self {
        Self { temperature: temperature.into(), ..self }
    }

    /// Only words that make up this much of the probability, from 0 to 1.
    #[must_use]
    pub fn top_p(self, top_p: impl Into<Option<f64>>) -> Self {
        Self { top_p: top_p.into(), ..self }
    }

    /// The longest answer, in tokens. Reasoning counts.
    #[must_use]
    pub fn max_tokens(self, max_tokens: impl Into<Option<u32>>) -> Self {
        Self { max_tokens: max_tokens.into(), ..self }
    }

    /// How much the model thinks before it answers.
    #[must_use]
    pub fn reasoning(self, effort: impl Into<Option<Effort>>) -> Self {
        Self { reasoning: effort.into(), ..self }
    }

    /// Texts at which the answer ends; they are not part of it.
    #[must_use]
    pub fn stop<T: Into<String>>(self, stop: impl IntoIterator<Item = T>) -> Self {
        Self { stop: stop.into_iter().map(Into::into).collect(), ..self }
    }

    /// Whether the model may, must or must not call a tool.
    #[must_use]
    pub fn tool_choice(self, choice: impl Into<Option<ToolChoice>>) -> Self {
        Self { tool_choice: choice.into(), ..self }
    }

    /// Whether one answer may have several calls.
    #[must_use]
    pub fn parallel_calls(self, parallel: impl Into<Option<bool>>) -> Self {
        Self { parallel_calls: parallel.into(), ..self }
    }

    /// Equal seeds are to give equal answers, as far as the provider can.
    #[must_use]
    pub fn seed(self, seed: impl Into<Option<i64>>) -> Self {
        Self { seed: seed.into(), ..self }
    }

    /// How long the provider is to remember the prompt, where that has to be asked for.
    #[must_use]
    pub fn cache(self, cache: impl Into<Option<PromptCache>>) -> Self {
        Self { cache: cache.into(), ..self }
    }

    /// Sets additional request fields in the provider's format: an object that is merged into the request. It replaces values and appends
    /// to lists, so that the provider's own `tools` are added to those of the program.
    #[must_use]
    pub fn extra(self, extra: Value) -> Self {
        Self { extra, ..self }
    }
}

/// How much a model thinks before it answers. Providers understand it in their own way; as JSON it is a word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Effort {
    /// Not at all, where the model can do without.
    None,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// As much as usual.
    Medium,
    /// Much.
    High,
    /// As much as this word says to the provider (`max`, `xhigh`).
    Other(String),
}

/// The words of efforts that all know.
const EFFORTS: [(&str, Effort); 5] = [
    ("none", Effort::None),
    ("minimal", Effort::Minimal),
    ("low", Effort::Low),
    ("medium", Effort::Medium),
    ("high", Effort::High),
];

impl Effort {
    /// The word for it.
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

/// Whether a model may, must or must not call a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// It may.
    Auto,
    /// It must not.
    None,
    /// It must call one, whichever.
    Required,
    /// It must call this one.
    Tool(String),
}

/// How long a provider is to remember what it was sent, so that the next request with the same beginning costs less.
///
/// Instructions, tools and the conversation so far are marked as what to remember. Most providers do so unasked, and take
/// no notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptCache {
    /// Some minutes.
    Short,
    /// An hour, which costs more to write.
    Long,
}
