//! Asks an agent's model, as long as it may be asked.

use std::sync::Arc;

use super::{Agent, budget};
use crate::agent::call::call;
use crate::agent::model::{ChatRequest, OutputSpec, ToolSpec};
use crate::agent::state::base::BaseState;
use crate::agent::state::context::BaseContext;
use crate::error::NodeError;
use crate::graph::Task;
use crate::message::{ChatResponse, Messages};
use crate::state::{Contains, Values};

/// Why no model is asked any more, if none is.
pub(super) fn over<S, C>(task: &Task<S, C>) -> Option<String>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext>,
{
    if task.state().part().is_cancelled {
        return Some("the run was cancelled".to_owned());
    }
    budget(task).and_then(|budget| budget.used_up())
}

/// What a model is asked.
pub(super) struct Question {
    /// The whole conversation, as it is sent.
    pub(super) messages: Messages,
    /// What it may call.
    pub(super) tools: Arc<[ToolSpec]>,
    /// The shape of the answer, and what may be called then, for a model that keeps to a shape by itself.
    pub(super) shape: Option<(OutputSpec, Arc<[ToolSpec]>)>,
}

/// Asks the model. None if it may not be asked any more. Every question of an agent goes through here.
pub(super) async fn ask<S, C>(
    agent: &Agent<S, C>,
    task: &Task<S, C>,
    question: Question,
) -> Result<Option<ChatResponse>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    if task.state().part().is_cancelled {
        return Ok(None);
    }
    let context = task.run().context();
    let model = match &agent.model {
        Some(choose) => choose(context),
        None => &**context.as_ref().model()?,
    };
    let Question { messages, tools, shape } = question;
    let (output, tools) = match shape.filter(|_| model.native_output()) {
        Some((output, tools)) => (Some(output), tools),
        None => (None, tools),
    };
    let request = ChatRequest::new(messages).tools(tools).output(output).options(agent.options.clone());
    call(task.run(), model, budget(task).map(|budget| &**budget), request).await
}
