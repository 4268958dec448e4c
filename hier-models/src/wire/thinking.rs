//! How much models are to think, in the words of providers.

use hier_agents::{Effort, ModelOptions};
use serde_json::{Value, json};

use crate::error::Failure;

/// The tokens of an effort; one in the provider's own words is a number.
pub(super) fn tokens(effort: &Effort, table: &[(Effort, u32)]) -> Result<u32, Failure> {
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
