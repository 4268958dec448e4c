//! Features of Anthropic's models, by version.

use hier_agents::{Effort, ModelOptions};
use serde_json::{Value, json};

use super::shared::forces_a_call;
use super::thinking::tokens;
use crate::conversation::{ConversationTurn, WireConversation};
use crate::error::ModelFailure;

/// First version that obeys schemas. Opus obeys them from 4.1 on.
const SCHEMAS: (u32, u32) = (4, 5);
/// First version whose provider searches tools.
const SEARCHES: (u32, u32) = (4, 5);
/// First version that decides how much to think. It takes a word for the effort. Earlier versions take a number.
const ADAPTIVE: (u32, u32) = (4, 6);
/// First version with the larger context.
const LONG: (u32, u32) = (4, 6);
/// First version that refuses temperature and top-p, and shows thoughts only on request.
const QUIET: (u32, u32) = (4, 7);
/// First version that thinks by default.
const THINKING: (u32, u32) = (5, 0);
/// First version that binds thoughts to the preceding conversation. Except for Haiku, thinking cannot be turned off, and
/// calls cannot be forced.
const BOUND: (u32, u32) = (5, 1);
/// The header that lets a request set the handling of thoughts that are bound to another conversation.
pub(super) const BINDING: (&str, &str) = ("anthropic-beta", "thinking-binding-controls-2026-08-01");

/// The efforts in tokens, for models that take a number.
const TOKENS: [(Effort, u32); 4] =
    [(Effort::Minimal, 1_024), (Effort::Low, 4_096), (Effort::Medium, 10_000), (Effort::High, 24_000)];
/// The data fields of Anthropic's thoughts. Blocks of its tools have neither field.
const SIGNED: [&str; 2] = ["signature", "redacted"];
/// The minimum number of tokens for thinking.
const LEAST: u32 = 1_024;

/// Parses the version in a model's name: `claude-opus-4-5-20251101` has 4.5. Returns `None` for other names.
fn version(model: &str) -> Option<(u32, u32)> {
    let name = &model[model.find("claude-")?..];
    let mut numbers = name.split('-').skip_while(|part| part.parse::<u32>().is_err());
    // A date is not a version.
    let number = |part: &str| part.parse().ok().filter(|number| *number < 1_000);
    let major = numbers.next().and_then(number)?;
    Some((major, numbers.next().and_then(number).unwrap_or(0)))
}

fn is_since(model: &str, since: (u32, u32)) -> bool {
    version(model).is_some_and(|version| version >= since)
}

pub(super) fn obeys_schemas(model: &str) -> bool {
    is_since(model, SCHEMAS) || (model.contains("opus") && is_since(model, (4, 1)))
}

pub(super) fn context_tokens(model: &str) -> u64 {
    if is_since(model, LONG) { 1_000_000 } else { 200_000 }
}

pub(super) fn takes_sampling(model: &str) -> bool {
    !is_since(model, QUIET)
}

pub(super) fn searches_tools(model: &str) -> bool {
    is_since(model, SEARCHES)
}

/// Returns true if the model refuses thoughts that are bound to another beginning of the conversation.
pub(super) fn binds_thoughts(model: &str) -> bool {
    is_since(model, BOUND)
}

fn always_thinks(model: &str) -> bool {
    binds_thoughts(model) && !model.contains("haiku")
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct ThinkingFields {
    pub(super) field: Option<Value>,
    pub(super) effort: Option<String>,
}

impl ThinkingFields {
    pub(super) fn is_on(&self) -> bool {
        self.field.as_ref().is_some_and(|field| field["type"] != "disabled")
    }
}

pub(super) fn thinking(
    model: &str,
    options: &ModelOptions,
    conversation: &WireConversation<'_>,
    max_tokens: u32,
) -> Result<ThinkingFields, ModelFailure> {
    if forces_a_call(options) && always_thinks(model) {
        let reason = format!("`{model}` cannot be forced to call a tool: remove `tool_choice`, or use `Auto`");
        return Err(ModelFailure::refused(reason));
    }
    let mut thinking = match &options.reasoning {
        None => ThinkingFields { field: binds_thoughts(model).then(adaptive), effort: None },
        Some(Effort::None) => least_thinking(model),
        Some(effort) if version(model).is_some_and(|version| version < ADAPTIVE) => {
            ThinkingFields { field: thinking_budget(effort, options, conversation, max_tokens)?, effort: None }
        }
        Some(effort) => adaptive_thinking(model, effort),
    };
    if let Some(field) = &mut thinking.field
        && field["type"] == "adaptive"
        && binds_thoughts(model)
    {
        // Instructions and tools may change between two requests. Earlier thoughts are dropped then, instead of failing
        // the thread.
        field["block_binding"] = json!({ "prefix_mismatch_behavior": "drop_block" });
    }
    Ok(thinking)
}

fn adaptive() -> Value {
    json!({ "type": "adaptive" })
}

fn least_thinking(model: &str) -> ThinkingFields {
    let is_of = |family: &str| model.contains(family);
    if !is_since(model, THINKING) {
        return ThinkingFields::default();
    }
    if !always_thinks(model) && !is_of("fable") && !is_of("mythos") {
        return ThinkingFields { field: Some(json!({ "type": "disabled" })), effort: None };
    }
    if is_of("sonnet") {
        return ThinkingFields { field: Some(json!({ "type": "between_tools" })), effort: None };
    }
    ThinkingFields { field: Some(adaptive()), effort: Some(Effort::Low.to_string()) }
}

fn adaptive_thinking(model: &str, effort: &Effort) -> ThinkingFields {
    let mut field = adaptive();
    if is_since(model, QUIET) {
        field["display"] = json!("summarized");
    }
    let word = if *effort == Effort::Minimal { &Effort::Low } else { effort };
    ThinkingFields { field: Some(field), effort: Some(word.to_string()) }
}

/// Returns the field for thinking by a number of tokens. Returns `None` where Anthropic refuses the field: if a call is
/// forced, if the answer is too short, or if a call of this turn was made without thinking, for example by another
/// provider.
fn thinking_budget(
    effort: &Effort,
    options: &ModelOptions,
    conversation: &WireConversation<'_>,
    max_tokens: u32,
) -> Result<Option<Value>, ModelFailure> {
    let tokens = tokens(effort, &TOKENS)?;
    if forces_a_call(options) || max_tokens <= LEAST || !conversation.continues_thinking() {
        return Ok(None);
    }
    Ok(Some(json!({ "type": "enabled", "budget_tokens": tokens.clamp(LEAST, max_tokens - 1) })))
}

impl WireConversation<'_> {
    /// Returns true if this model thought in each message of the current turn that contains calls.
    fn continues_thinking(&self) -> bool {
        self.turns.iter().rev().all(|turn| match turn {
            ConversationTurn::Model(turn) if turn.current && !turn.calls.is_empty() => {
                turn.all_thoughts().any(|thought| SIGNED.iter().any(|field| thought.data.get(field).is_some()))
            }
            _ => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_parsed() {
        let cases = [
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-opus-4-5-20251101", Some((4, 5))),
            ("claude-opus-5", Some((5, 0))),
            ("claude-sonnet-5-5", Some((5, 5))),
            ("us.anthropic.claude-fable-5-1-v1:0", Some((5, 1))),
            ("anthropic/claude-haiku-4-5", Some((4, 5))),
            ("claude-latest", None),
            ("m", None),
        ];
        for (name, expected) in cases {
            assert_eq!(version(name), expected, "{name}");
        }
    }
}
