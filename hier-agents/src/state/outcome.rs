//! Methods of outcomes of agents.

use crate::state::base::BaseState;
use crate::state::turn::AgentEnd;
use hier_core::Outcome;
use hier_core::state::Contains;

/// Methods of an [`Outcome`](hier_core::Outcome) whose graph is an agent.
pub trait AgentOutcome {
    /// Returns how the agent's turn ended. `None` while it is in progress or waits for an answer.
    fn ending(&self) -> Option<&AgentEnd>;

    /// Returns the agent's answer or report. Empty until the agent has answered.
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
