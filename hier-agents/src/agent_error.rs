//! The errors of runs whose agents have no answer or cannot continue.

use crate::price::UnknownPrice;

/// The error of a run whose root agent got no usable answer from its model within the allowed attempts. If the agent is
/// a subagent, its supervisor receives the error as the report instead and continues.
///
/// It is the source of the node's error: find it with [`AgentFailed::find_in`]. A resumed run asks the model again. A
/// new input begins a new turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent `{agent}` got no usable answer: {reason}{}", quoted(text))]
#[non_exhaustive]
pub struct AgentFailed {
    /// The name of the agent.
    pub agent: String,
    /// The faults of the last answer, each field with its path.
    pub reason: String,
    /// The text of the last answer, at most 1000 characters. May be empty.
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

    /// Returns this error if it is why the run failed.
    pub fn find_in(error: &hier_core::RunError) -> Option<&Self> {
        source_of(error)
    }
}

/// The error of a run whose agent cannot continue and called the tool `raise_exception`.
///
/// It is the source of the node's error: find it with [`AgentStuck::find_in`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Agent raised exception: {reason}")]
pub struct AgentStuck {
    /// The reason that the agent gave.
    pub reason: String,
    /// The agent that gave it.
    pub reporting_agent: String,
    /// The agent that the reason concerns, as named by the model. May be empty.
    pub subject_agent: String,
}

impl AgentStuck {
    /// Returns this error if it is why the run failed, at any depth of the hierarchy.
    pub fn find_in(error: &hier_core::RunError) -> Option<&Self> {
        source_of(error)
    }
}

impl UnknownPrice {
    /// Returns this error if it is why the run failed, at any depth of the hierarchy.
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
