/// The error of a run whose root agent got no usable answer from its model within the allowed attempts. If the agent is
/// a subagent, its supervisor receives the error as the report instead and continues.
///
/// It is the source of the node's error: find it with [`AgentFailed::of`]. A resumed run asks the model again. A new
/// input begins a new turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent `{agent}` got no usable answer: {reason}{}", shown(said))]
#[non_exhaustive]
pub struct AgentFailed {
    /// The name of the agent.
    pub agent: String,
    /// The faults of the last answer, each field with its path.
    pub reason: String,
    /// The text of the last answer, at most 1000 characters. May be empty.
    pub said: String,
}

const SHOWN: usize = 1000;

fn shown(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("\nthe model answered: {said}") }
}

impl AgentFailed {
    pub(crate) fn new(agent: &str, reason: String, said: &str) -> Self {
        let cut = said.char_indices().nth(SHOWN).map_or(said.len(), |(place, _)| place);
        let said = if cut < said.len() { format!("{}…", &said[..cut]) } else { said.to_owned() };
        Self { agent: agent.to_owned(), reason, said }
    }

    /// Returns this error if it is why the run failed.
    pub fn of(error: &hier_core::RunError) -> Option<&Self> {
        match error.root() {
            hier_core::RunError::Node { error, .. } => error.source()?.downcast_ref(),
            _ => None,
        }
    }
}
