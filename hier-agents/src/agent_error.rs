//! The errors of runs that fail because an agent has no usable reply or cannot continue.

use crate::price::UnknownPrice;

/// The error of a run whose root agent failed because its model gave no usable reply in any of the
/// [`attempts`](crate::AgentBuilder::attempts). If a subagent receives no usable reply, the run does not fail: the
/// supervisor receives the reason as the subagent's report and continues.
///
/// Use [`AgentFailed::find_in`] to find this error in a [`RunError`](hier_core::RunError). If you resume the run, the
/// agent asks its model again. If you send a new input, the agent begins a new turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent `{agent}` received no usable reply from its model: {reason}{}", quoted(text))]
#[non_exhaustive]
pub struct AgentFailed {
    /// The name of the agent.
    pub agent: String,
    /// The reason why the last reply was unusable. For a typed answer, the reason lists each invalid field with its
    /// path.
    pub reason: String,
    /// The text of the last reply, cut after 1,000 characters. May be empty.
    pub text: String,
}

const MAX_QUOTE: usize = 1000;

fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\nthe model replied: {text}") }
}

impl AgentFailed {
    pub(crate) fn new(agent: &str, reason: String, text: &str) -> Self {
        let cut = text.char_indices().nth(MAX_QUOTE).map_or(text.len(), |(place, _)| place);
        let text = if cut < text.len() { format!("{}…", &text[..cut]) } else { text.to_owned() };
        Self { agent: agent.to_owned(), reason, text }
    }

    /// Returns the `AgentFailed` that made the run fail, or `None` if the run failed for another reason.
    pub fn find_in(error: &hier_core::RunError) -> Option<&Self> {
        source_of(error)
    }
}

/// The error of a run in which an agent's model called the tool `raise_exception` to report that the agent cannot
/// continue. The whole run fails, even if the agent is a subagent. The only exception is a
/// [background](crate::SubagentPolicy::background) subagent: it fails alone, and its supervisor receives the reason.
///
/// Use [`AgentStuck::find_in`] to find this error in a [`RunError`](hier_core::RunError).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Agent raised exception: {reason}")]
pub struct AgentStuck {
    /// The reason that the model gave.
    pub reason: String,
    /// The name of the agent that called the tool.
    pub reporting_agent: String,
    /// The name of the agent that caused the problem, as stated by the model. May be empty.
    pub subject_agent: String,
}

impl AgentStuck {
    /// Returns the `AgentStuck` that caused the run to fail, from any depth of the hierarchy, or `None` if the run
    /// failed for another reason.
    pub fn find_in(error: &hier_core::RunError) -> Option<&Self> {
        source_of(error)
    }
}

impl UnknownPrice {
    /// Returns the `UnknownPrice` that caused the run to fail, from any depth of the hierarchy, or `None` if the run
    /// failed for another reason.
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
