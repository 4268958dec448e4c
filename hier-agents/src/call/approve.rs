//! Asks a person about a call that needs approval.

use super::tool::ToolCaller;
use crate::operator::{Approval, ApprovalRequest};
use crate::redaction::Redactor;
use crate::state::labels::ConversationLabels;
use crate::tool::Tool;
use crate::tool::approval::{ApprovalMode, asks};
use hier_checkpoint::message::ToolCall;
use hier_core::graph::Task;
use hier_core::state::Values;
use hier_core::{Ask, NodeError};

impl<S: Values, C: Send + Sync + 'static> ToolCaller<'_, S, C> {
    /// Asks the operator if necessary. Returns the approved call, or the reason for the rejection.
    pub(super) async fn approve(
        &self,
        tool: &dyn Tool<S, C>,
        call: ToolCall,
        task: &Task<S, C>,
    ) -> Result<Result<ToolCall, String>, NodeError> {
        if !needs_person(tool, &call, task).await? {
            return Ok(Ok(call));
        }
        let mut question = ApprovalRequest { agent: self.agent.to_owned(), call: call.clone() };
        // A layer may have revised the arguments with a secret.
        if let Some(redactor) = Redactor::present() {
            redactor.value(&mut question.call.args);
        }
        let shown = question.call.args.clone();
        // If the operator has already answered, the answer counts even if the tool now refuses these arguments.
        if !task.run().has_answer(&question)?
            && let Some(mistake) = tool.mistake(&call)
        {
            return Ok(Err(mistake));
        }
        Ok(match Ask::of_task(task).ask(question).await? {
            Approval::Approve => Ok(call),
            Approval::Edit { args } if args == shown => Ok(call),
            Approval::Edit { args } => Ok(ToolCall { args, ..call }),
            Approval::Reject { reason } => Err(format!("the operator did not approve this call: {reason}")),
        })
    }
}

/// Returns true if a person must approve the call. If the decision depends on the call, the context or the
/// conversation, it is stored as a step. A call that resumes after a question or a crash then follows the same
/// decision. If a layer has changed the arguments, a new decision is made.
async fn needs_person<S: Values, C: Send + Sync + 'static>(
    tool: &dyn Tool<S, C>,
    call: &ToolCall,
    task: &Task<S, C>,
) -> Result<bool, NodeError> {
    match tool.approval() {
        ApprovalMode::Never => Ok(false),
        ApprovalMode::Always => Ok(true),
        ApprovalMode::Tainted | ApprovalMode::Condition => {
            let labels = ConversationLabels::of_state(task.state()).unwrap_or(ConversationLabels::ANY);
            let decision = asks(tool, call, task, labels.labels());
            task.run().step_of(&format!("approval {}", call.name), &(&call.id, &call.args), decision).await
        }
    }
}
