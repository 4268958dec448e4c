//! Asks an agent's model, as long as it may be asked.

use super::{Agent, budget};
use crate::agent::call::call;
use crate::agent::model::ChatRequest;
use crate::agent::state::base::BaseState;
use crate::agent::state::context::BaseContext;
use crate::error::NodeError;
use crate::graph::Task;
use crate::message::{Message, Messages};
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

/// Asks the model: the conversation so far, and the question. None if it may not be asked any more.
pub(super) async fn ask<S, C>(
    agent: &Agent<S, C>,
    task: &Task<S, C>,
    question: &Messages,
) -> Result<Option<Message>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let base = task.state().part();
    if base.is_cancelled {
        return Ok(None);
    }
    let model = task.run().context().as_ref().model()?;
    let mut messages = base.messages.clone();
    messages.merge(question.clone()).map_err(|error| NodeError::permanent(error.to_string()))?;
    let request = ChatRequest::new(messages).tools(agent.specs.clone());
    let response = call(task.run(), &**model, budget(task).map(|budget| &**budget), request).await?;
    Ok(response.map(|response| response.message))
}
