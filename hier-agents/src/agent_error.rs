//! The errors of runs whose agents have no answer or cannot continue.

use crate::price::UnknownPrice;

/// The error of a run whose root agent received no usable answer from its model in all
/// [`attempts`](crate::AgentBuilder::attempts). A subagent does not fail the run: its supervisor receives the reason as
/// the report and continues.
///
/// Use [`AgentFailed::find_in`] to find it in a [`RunError`](hier_core::RunError). If the run is resumed, the agent
/// asks its model again. A new input begins a new turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent `{agent}` got no usable answer: {reason}{}", quoted(text))]
#[non_exhaustive]
pub struct AgentFailed {
    /// The name of the agent.
    pub agent: String,
    /// The reason why the last answer was unusable. For a typed answer, it lists each invalid field with its path.
    pub reason: String,
    /// The text of the last answer, cut after 1,000 characters. May be empty.
    pub text: String,
}

const MAX_QUOTE: usize = 1000;

fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\nthe model answered: {text}") }
}

impl AgentFailed {
    pub(crate) fn new(agent: &str, reason: String, text: &str) -> Self {
        let cut = text.char_indices().nth(MAX_QUOTE).map_or(text.len(), |(place, _)| place);
        let text = if cut < text.len() { format!("{}…", &text[..cut]) } else { text.to_owned() };
        Self { agent: agent.to_owned(), reason, text }
    }

    /// Returns the `AgentFailed` that caused the run to fail, if that was the cause.
    pub fn find_in(error: &hier_core::RunError) -> Option<&Self> {
        source_of(error)
    }
}

/// The error of a run in which an agent called the tool `raise_exception`, because it cannot continue. The whole run
/// fails, even if a subagent called the tool. If a [background](crate::SubagentPolicy::background) subagent calls it,
/// only that subagent fails, and its supervisor receives the reason.
///
/// Use [`AgentStuck::find_in`] to find it in a [`RunError`](hier_core::RunError).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Agent raised exception: {reason}")]
pub struct AgentStuck {
    /// The reason that the agent gave.
    pub reason: String,
    /// The name of the agent that called the tool.
    pub reporting_agent: String,
    /// The name of the agent that caused the problem, according to the model. May be empty.
    pub subject_agent: String,
}

impl AgentStuck {
    /// Returns the `AgentStuck` that caused the run to fail, at any depth of the hierarchy.
    pub fn find_in(error: &hier_core::RunError) -> Option<&Self> {
        source_of(error)
    }
}

impl UnknownPrice {
    /// Returns the `UnknownPrice` that caused the run to fail, at any depth of the hierarchy.
    pub fn find_in(error: &hier_core::RunError) -> Option<&Self> {
        source_of(error)
    }
}

fn source_of<E: std::error::Error + 'static>(error: &hier_core::RunError) -> Option<&E> {
    match error.root() {
        hier_core::RunError::Node { error, .. } => error.source()?.downcast_ref(),
        _ => None,
    }
}
