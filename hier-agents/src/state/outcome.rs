use crate::state::base::BaseState;
use crate::state::turn::AgentEnd;
use hier_core::Outcome;
use hier_core::state::Contains;

/// Methods for the [`Outcome`](hier_core::Outcome) of an agent.
pub trait AgentOutcome {
    /// Returns the way in which the agent's turn ended, or `None` while the turn is in progress or waits for an answer
    /// to a question.
    fn ending(&self) -> Option<&AgentEnd>;

    /// Returns the text with which the agent's turn ended: the model's last reply, a typed answer as JSON, or a report.
    /// Before the turn has ended, the text is empty or the report of a subagent.
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
