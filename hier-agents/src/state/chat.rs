use serde::{Deserialize, Serialize};

use crate::state::base::BaseState;
use crate::state::turn::AgentEnd;
use hier_checkpoint::message::Messages;

// The derives name this crate by its absolute path.
use hier_macros::State;

/// A ready-made state for an `Agent` that only needs a conversation. It contains the messages, and the internal
/// channels of the agent. The input of a run is a message or an update. If you need more channels, write a custom state
/// that flattens [`BaseState`].
///
/// ```
/// use hier_agents::prelude::*;
/// use hier_testkit::ScriptedModel;
///
/// graph! {
///     /// Answers customers.
///     Support<MessagesState> = Agent { system: "You answer customers." }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let context = BaseContext::new(ScriptedModel::new([Message::assistant("We open at nine.")]));
/// let out = Support::compile().invoke(Message::user("When do you open?")).context(context).await?;
/// assert_eq!(out.text(), "We open at nine.");
/// assert_eq!(out.state().messages().len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessagesState {
    #[state(flatten)]
    base: BaseState,
}

impl MessagesState {
    /// Returns the conversation.
    pub fn messages(&self) -> &Messages {
        &self.base.messages
    }

    /// Returns the text with which the agent's turn ended: the model's last reply, or a typed answer as JSON. Before
    /// the turn has ended, the text is empty or the report of a subagent.
    pub fn text(&self) -> &str {
        &self.base.current_agent_report
    }

    /// Returns the way in which the agent's turn ended, or `None` while the turn is in progress or waits for an answer
    /// to a question.
    pub fn ending(&self) -> Option<&AgentEnd> {
        self.base.ending()
    }
}
