//! The outcome of a run whose graph is an agent.

use crate::state::base::BaseState;
use crate::state::turn::AgentEnd;
use hier_core::Outcome;
use hier_core::state::Contains;

/// The outcome of a run whose graph is an agent.
pub trait AgentOutcome {
    /// Returns how the agent's turn ended, or none while it is in progress or waits for an answer.
    fn ending(&self) -> Option<&AgentEnd>;

    /// Returns the agent's answer or report as a text. Empty until the agent has answered.
    fn text(&self) -> &str;
}

impl<S: Contains<BaseState>> AgentOutcome for Outcome<S> {
    fn ending(&self) -> Option<&AgentEnd> {
        self.state().part().ending()
    }

    fn text(&self) -> &str {
        &self.state().part().current_agent_report
    }
}
