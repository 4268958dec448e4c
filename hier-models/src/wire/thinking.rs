//! Efforts of reasoning in the terms of the providers.

use hier_agents::{Effort, ModelOptions};
use serde_json::{Value, json};

use crate::error::ModelFailure;

/// Converts an effort to tokens. An effort in the provider's own terms must be a number.
pub(super) fn tokens(effort: &Effort, table: &[(Effort, u32)]) -> Result<u32, ModelFailure> {
    let known = table.iter().find(|(known, _)| known == effort).map(|(_, tokens)| *tokens);
    known.or_else(|| effort.as_str().parse().ok()).ok_or_else(|| {
        ModelFailure::refused(format!("unknown effort `{effort}`: use `minimal` to `high`, or a number of tokens"))
    })
}

/// Google's own translation of efforts, for models of Gemini that take a number.
const GEMINI_TOKENS: [(Effort, u32); 5] = [
    (Effort::None, 0),
    (Effort::Minimal, 1_024),
    (Effort::Low, 1_024),
    (Effort::Medium, 8_192),
    (Effort::High, 24_576),
];

/// Returns true for Gemini's models that take a number for the effort and do not require signatures.
pub(super) fn is_older_gemini(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gemini-1", "gemini-2"].iter().any(|prefix| name.starts_with(prefix))
}

/// The signature for calls that another model made. Newer Gemini models refuse such calls without a signature.
pub(super) const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns true for Gemini's models that refuse a call of the current turn without a signature.
pub(super) fn insists_on_signatures(model: &str) -> bool {
    model.rsplit('/').next().unwrap_or(model).starts_with("gemini-") && !is_older_gemini(model)
}

/// Returns Gemini's `thinkingConfig`.
pub(super) fn gemini(model: &str, options: &ModelOptions) -> Result<Option<Value>, ModelFailure> {
    let Some(effort) = &options.reasoning else { return Ok(None) };
    let shown = *effort != Effort::None;
    if is_older_gemini(model) {
        let tokens = tokens(effort, &GEMINI_TOKENS)?;
        return Ok(Some(json!({ "thinkingBudget": tokens, "includeThoughts": shown })));
    }
    let level = if *effort == Effort::None { Effort::Minimal.as_str() } else { effort.as_str() };
    Ok(Some(json!({ "thinkingLevel": level, "includeThoughts": shown })))
}

/// Returns Ollama's `think` field: a word for the models that take one, otherwise a bool.
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
