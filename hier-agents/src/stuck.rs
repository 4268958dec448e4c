//! What an agent says that cannot go on.

/// An agent cannot go on and said so, with the tool `raise_exception`: what a run fails with then.
///
/// It is the source of the node's error: find it with [`AgentStuck::of`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Agent raised exception: {reason}")]
pub struct AgentStuck {
    /// Why, in the agent's words.
    pub reason: String,
    /// The agent that said it.
    pub reporting_agent: String,
    /// The agent that it is about, in its words; may be empty.
    pub subject_agent: String,
}

impl AgentStuck {
    /// The reason why a run failed, if it is that an agent at any depth said that it cannot go on.
    pub fn of(error: &hier_core::RunError) -> Option<&Self> {
        match error.root() {
            hier_core::RunError::Node { error, .. } => error.source()?.downcast_ref(),
            _ => None,
        }
    }
}
