/// The error of a run whose agent cannot continue and called the tool `raise_exception`.
///
/// It is the source of the node's error: find it with [`AgentStuck::of`].
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
    pub fn of(error: &hier_core::RunError) -> Option<&Self> {
        match error.root() {
            hier_core::RunError::Node { error, .. } => error.source()?.downcast_ref(),
            _ => None,
        }
    }
}
