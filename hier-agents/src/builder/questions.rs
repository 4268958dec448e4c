use hier_core::state::{Contains, Values};
use hier_core::{DeclaredQuestion, QuestionType};

use crate::builder::AgentBuilder;
use crate::operator::ApprovalRequest;
use crate::state::base::BaseState;
use crate::state::context::AgentContext;
use crate::tool::approval::ApprovalMode;

impl<S, C> AgentBuilder<S, C>
where
    S: Values + Contains<BaseState>,
    C: AgentContext + Send + Sync + 'static,
{
    /// Declares that the agent's tools can ask questions of the type `Q`. hier then checks each answer against the
    /// answer type of `Q`, even if the answer arrives over HTTP. Approvals need no declaration. In `graph!`, write
    /// `asks: […]`.
    pub fn asks<Q: DeclaredQuestion>(mut self) -> Self {
        self.asked.push(QuestionType::of::<Q>());
        self
    }

    /// Returns the declared questions, and the approval request if a tool may need approval. An agent with a toolset
    /// always has this request, because only the toolset knows which of its tools need approval.
    pub(super) fn questions(&self) -> Vec<QuestionType> {
        let mut asked = self.asked.clone();
        let is_approved = self.agent.tools.iter().any(|tool| tool.approval() != ApprovalMode::Never);
        if is_approved || !self.agent.toolsets.0.is_empty() {
            asked.push(QuestionType::of::<ApprovalRequest>());
        }
        asked
    }
}
