//! What Anthropic's models take, by their version: each family of them thinks in its own way.

use hier_agents::{Effort, ModelOptions};
use serde_json::{Value, json};

use super::shared::forces_a_call;
use super::thinking::tokens;
use crate::conversation::{Conversation, Turn};
use crate::error::Failure;

/// From here on models can be held to a schema.
const SCHEMAS: (u32, u32) = (4, 5);
/// From here on models find out by themselves how much to think, and take a word for the effort; before, a number.
const ADAPTIVE: (u32, u32) = (4, 6);
/// From here on they refuse temperature and top-p, and show what they think only if asked to.
const QUIET: (u32, u32) = (4, 7);
/// From here on they think unless told not to.
const THINKING: (u32, u32) = (5, 0);
/// From here on thoughts are bound to what was said before them, thinking cannot be turned off, and no call be forced.
const BOUND: (u32, u32) = (5, 1);
/// The header by which a request can say what becomes of a thought that is bound to something else.
pub(super) const BINDING: (&str, &str) = ("anthropic-beta", "thinking-binding-controls-2026-08-01");

/// The tokens of efforts, for models that want a number.
const TOKENS: [(Effort, u32); 4] =
    [(Effort::Minimal, 1_024), (Effort::Low, 4_096), (Effort::Medium, 10_000), (Effort::High, 24_000)];
/// The least number that they take.
const LEAST: u32 = 1_024;

/// The version of a model, by its name: `claude-opus-4-5-20251101` is of 4.5. None if it is no name of Anthropic's.
fn version(model: &str) -> Option<(u32, u32)> {
    let name = &model[model.find("claude-")?..];
    let mut numbers = name.split('-').skip_while(|part| part.parse::<u32>().is_err());
    // A date is no version.
    let number = |part: &str| part.parse().ok().filter(|number| *number < 1_000);
    let major = numbers.next().and_then(number)?;
    Some((major, numbers.next().and_then(number).unwrap_or(0)))
}

fn is_since(model: &str, since: (u32, u32)) -> bool {
    version(model).is_some_and(|version| version >= since)
}

/// Whether the model can be held to a schema.
pub(super) fn keeps_to_schemas(model: &str) -> bool {
    is_since(model, SCHEMAS) || (model.contains("opus") && is_since(model, (4, 1)))
}

/// Whether the model takes temperature and top-p.
pub(super) fn takes_sampling(model: &str) -> bool {
    !is_since(model, QUIET)
}

/// Whether the model refuses thoughts that are bound to another beginning of the conversation.
pub(super) fn binds_thoughts(model: &str) -> bool {
    is_since(model, BOUND)
}

/// What is told of thinking: the field `thinking`, and the word for the effort.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Thinking {
    pub(super) field: Option<Value>,
    pub(super) effort: Option<String>,
}

impl Thinking {
    /// Whether the model is told to think.
    pub(super) fn is_on(&self) -> bool {
        self.field.as_ref().is_some_and(|field| field["type"] != "disabled")
    }
}

/// What a model is told of thinking.
pub(super) fn thinking(
    model: &str,
    options: &ModelOptions,
    conversation: &Conversation<'_>,
    max_tokens: u32,
) -> Result<Thinking, Failure> {
    if forces_a_call(options) && binds_thoughts(model) {
        let reason = format!("`{model}` cannot be forced to call a tool: leave `tool_choice` out, or `Auto`");
        return Err(Failure::refused(reason));
    }
    let mut thinking = match &options.reasoning {
        None => Thinking { field: binds_thoughts(model).then(adaptive), effort: None },
        Some(Effort::None) => none(model),
        Some(effort) if version(model).is_some_and(|version| version < ADAPTIVE) => {
            Thinking { field: counted(effort, options, conversation, max_tokens)?, effort: None }
        }
        Some(effort) => some(model, effort),
    };
    if let Some(field) = &mut thinking.field
        && binds_thoughts(model)
    {
        // Instructions and tools may change between two requests: what was thought before is dropped then, and not the thread.
        field["block_binding"] = json!({ "prefix_mismatch_behavior": "drop_block" });
    }
    Ok(thinking)
}

fn adaptive() -> Value {
    json!({ "type": "adaptive" })
}

/// As little thinking as the model can do with.
fn none(model: &str) -> Thinking {
    let is_of = |family: &str| model.contains(family);
    if !is_since(model, THINKING) {
        return Thinking::default();
    }
    if !binds_thoughts(model) && !is_of("fable") && !is_of("mythos") {
        return Thinking { field: Some(json!({ "type": "disabled" })), effort: None };
    }
    if is_of("sonnet") {
        return Thinking { field: Some(json!({ "type": "between_tools" })), effort: None };
    }
    Thinking { field: Some(adaptive()), effort: Some(Effort::Low.to_string()) }
}

fn some(model: &str, effort: &Effort) -> Thinking {
    let mut field = adaptive();
    if is_since(model, QUIET) {
        field["display"] = json!("summarized");
    }
    let word = if *effort == Effort::Minimal { &Effort::Low } else { effort };
    Thinking { field: Some(field), effort: Some(word.to_string()) }
}

/// Thinking by a number of tokens. It is refused where a call is forced, where the answer is too short for it, and in a turn
/// whose calls were made without: by another provider, say.
fn counted(
    effort: &Effort,
    options: &ModelOptions,
    conversation: &Conversation<'_>,
    max_tokens: u32,
) -> Result<Option<Value>, Failure> {
    let tokens = tokens(effort, &TOKENS)?;
    if forces_a_call(options) || max_tokens <= LEAST || !conversation.goes_on_thinking() {
        return Ok(None);
    }
    Ok(Some(json!({ "type": "enabled", "budget_tokens": tokens.clamp(LEAST, max_tokens - 1) })))
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

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn names_have_versions() {
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
