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

/// Returns OpenAI's word for an effort. No model has both of the lowest words, `none` and `minimal`.
pub(super) fn openai<'e>(model: &str, effort: &'e Effort) -> &'e str {
    let is_one = |prefixes: &[&str]| prefixes.iter().any(|prefix| model.starts_with(prefix));
    let word = match effort {
        Effort::None | Effort::Minimal if is_one(&["gpt-5-pro"]) => &Effort::High,
        Effort::None | Effort::Minimal if is_one(&["o1", "o3", "o4"]) || model.contains("-codex") => &Effort::Low,
        Effort::Minimal if is_one(&["gpt-5.", "gpt-6"]) => &Effort::Low,
        Effort::None if is_one(&["gpt-5"]) && !is_one(&["gpt-5."]) => &Effort::Minimal,
        effort => effort,
    };
    word.as_str()
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

fn is_gemini_pro(model: &str) -> bool {
    model.rsplit('/').next().unwrap_or(model).contains("-pro")
}

/// Returns true for the newer models of Gemini whose least level of thinking is `low`.
fn lacks_minimal(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_since = |number: &str| {
        let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
        matches!((major.parse::<u32>(), minor.parse::<u32>()), (Ok(major), Ok(minor)) if (major, minor) >= (3, 7))
    };
    let rest = name.strip_prefix("gemini-").unwrap_or_default();
    let is_newer_flash = rest == "flash-latest"
        || rest.split_once('-').is_some_and(|(number, kind)| kind.starts_with("flash") && is_since(number));
    is_gemini_pro(model) || (is_newer_flash && !rest.contains("-lite"))
}

/// Returns the minimum number of tokens for thinking. Gemini 2.5 Pro cannot turn off thinking.
fn least_tokens(model: &str) -> u32 {
    if is_gemini_pro(model) && model.contains("2.5") { 128 } else { 0 }
}

/// Returns Gemini's `thinkingConfig`.
pub(super) fn gemini(model: &str, options: &ModelOptions) -> Result<Option<Value>, ModelFailure> {
    let Some(effort) = &options.reasoning else { return Ok(None) };
    let shown = *effort != Effort::None;
    if is_older_gemini(model) {
        let tokens = tokens(effort, &GEMINI_TOKENS)?.max(least_tokens(model));
        return Ok(Some(json!({ "thinkingBudget": tokens, "includeThoughts": shown })));
    }
    let level = match effort {
        Effort::None | Effort::Minimal if lacks_minimal(model) => Effort::Low.as_str(),
        Effort::None => Effort::Minimal.as_str(),
        effort => effort.as_str(),
    };
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
