//! How much models are to think, in the words of providers.

use hier_core::agent::{Effort, ModelOptions};
use serde_json::{Value, json};

use super::shared::forces_a_call;
use crate::conversation::{Conversation, Turn};
use crate::error::Failure;

/// The tokens of efforts, for models of Anthropic that want a number.
const ANTHROPIC_TOKENS: [(Effort, u32); 4] =
    [(Effort::Minimal, 1_024), (Effort::Low, 4_096), (Effort::Medium, 10_000), (Effort::High, 24_000)];
/// The least that Anthropic takes.
const ANTHROPIC_LEAST: u32 = 1_024;
/// What the names of those models begin with. Newer ones find out by themselves how much to think.
const ANTHROPIC_COUNTED: [&str; 9] = [
    "claude-3-",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
];

/// What Anthropic is told of thinking: the field `thinking`, and the word for the effort.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Thinking {
    pub(super) field: Option<Value>,
    pub(super) effort: Option<String>,
}

impl Thinking {
    /// Whether the model is to think.
    pub(super) fn is_on(&self) -> bool {
        self.field.as_ref().is_some_and(|field| field["type"] != "disabled")
    }
}

/// What Anthropic is told of thinking. It refuses to think where a call is forced; models that want a number also where the
/// answer is too short for it, and in a turn whose calls were made without: by another provider, say.
pub(super) fn anthropic(
    model: &str,
    options: &ModelOptions,
    conversation: &Conversation<'_>,
    max_tokens: u32,
) -> Result<Thinking, Failure> {
    let Some(effort) = &options.reasoning else { return Ok(Thinking::default()) };
    if *effort == Effort::None {
        // Models that cannot think do not know the field.
        let field = (!model.starts_with("claude-3-")).then(|| json!({ "type": "disabled" }));
        return Ok(Thinking { field, effort: None });
    }
    let counted = ANTHROPIC_COUNTED.iter().any(|prefix| model.starts_with(prefix));
    let may_count = max_tokens > ANTHROPIC_LEAST && conversation.goes_on_thinking();
    if forces_a_call(options) || (counted && !may_count) {
        return Ok(Thinking::default());
    }
    if counted {
        let tokens = tokens(effort, &ANTHROPIC_TOKENS)?.clamp(ANTHROPIC_LEAST, max_tokens - 1);
        return Ok(Thinking { field: Some(json!({ "type": "enabled", "budget_tokens": tokens })), effort: None });
    }
    let word = if *effort == Effort::Minimal { &Effort::Low } else { effort };
    Ok(Thinking { field: Some(json!({ "type": "adaptive" })), effort: Some(word.to_string()) })
}

impl Conversation<'_> {
    /// Whether the calls of the current turn, if there are any, were made by this model after it had thought.
    fn goes_on_thinking(&self) -> bool {
        self.turns.iter().rev().all(|turn| match turn {
            Turn::Model(said) if said.current && !said.calls.is_empty() => said.has_thoughts(),
            _ => true,
        })
    }
}

/// The tokens of an effort; one in the provider's own words is a number.
fn tokens(effort: &Effort, table: &[(Effort, u32)]) -> Result<u32, Failure> {
    let known = table.iter().find(|(known, _)| known == effort).map(|(_, tokens)| *tokens);
    known.or_else(|| effort.as_str().parse().ok()).ok_or_else(|| {
        Failure::refused(format!("it has no effort `{effort}`: say `minimal` to `high`, or a number of tokens"))
    })
}

/// The tokens of efforts, for models of Gemini that want a number: those of Google's own translation.
const GEMINI_TOKENS: [(Effort, u32); 5] = [
    (Effort::None, 0),
    (Effort::Minimal, 1_024),
    (Effort::Low, 1_024),
    (Effort::Medium, 8_192),
    (Effort::High, 24_576),
];

/// Whether a model is one of Gemini's that want numbers for the effort, and do not insist on signatures.
fn is_older_gemini(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gemini-1", "gemini-2"].iter().any(|prefix| name.starts_with(prefix))
}

/// What stands where a call of another model has no signature: with it, the newer ones of Gemini's models take the call.
pub(super) const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// Whether a model is one of Gemini's that refuse a call of the current turn without a signature.
pub(super) fn insists_on_signatures(model: &str) -> bool {
    model.rsplit('/').next().unwrap_or(model).starts_with("gemini-") && !is_older_gemini(model)
}

/// What Gemini is told of thinking.
pub(super) fn gemini(model: &str, options: &ModelOptions) -> Result<Option<Value>, Failure> {
    let Some(effort) = &options.reasoning else { return Ok(None) };
    let shown = *effort != Effort::None;
    if is_older_gemini(model) {
        let tokens = tokens(effort, &GEMINI_TOKENS)?;
        return Ok(Some(json!({ "thinkingBudget": tokens, "includeThoughts": shown })));
    }
    let level = if *effort == Effort::None { Effort::Minimal.as_str() } else { effort.as_str() };
    Ok(Some(json!({ "thinkingLevel": level, "includeThoughts": shown })))
}

/// What Ollama is told of thinking: whether, and how much to the one family of models that takes a word.
pub(super) fn ollama(model: &str, options: &ModelOptions) -> Option<Value> {
    let effort = options.reasoning.as_ref()?;
    let takes_words = model.rsplit('/').next().unwrap_or(model).starts_with("gpt-oss");
    Some(match effort {
        Effort::Other(word) => json!(word),
        Effort::None => json!(false),
        Effort::Minimal if takes_words => json!("low"),
        effort if takes_words => json!(effort.as_str()),
        _ => json!(true),
    })
}
