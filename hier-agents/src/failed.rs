//! An agent without an answer.

/// An agent's model gave no answer that could be used, as often as it was asked: what a run fails with whose root is such
/// an agent. A supervisor is told instead, and goes on.
///
/// It is the source of the node's error: find it with [`AgentFailed::of`]. A run that is taken up again asks the model again;
/// a new input begins a new turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent `{agent}` has no answer: {reason}{}", shown(said))]
#[non_exhaustive]
pub struct AgentFailed {
    /// The agent.
    pub agent: String,
    /// What was wrong with the last answer, each field with its path.
    pub reason: String,
    /// What the model said last, cut off after 1000 characters; may be empty.
    pub said: String,
}

/// The longest text of a model in an error, in characters.
const SHOWN: usize = 1000;

fn shown(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("\nthe model said: {said}") }
}

impl AgentFailed {
    pub(crate) fn new(agent: &str, reason: String, said: &str) -> Self {
        let cut = said.char_indices().nth(SHOWN).map_or(said.len(), |(place, _)| place);
        let said = if cut < said.len() { format!("{}…", &said[..cut]) } else { said.to_owned() };
        Self { agent: agent.to_owned(), reason, said }
    }

    /// The reason why a run failed, if it is that an agent had no answer.
    pub fn of(error: &hier_core::RunError) -> Option<&Self> {
        match error.root() {
            hier_core::RunError::Node { error, .. } => error.source()?.downcast_ref(),
            _ => None,
        }
    }
}
