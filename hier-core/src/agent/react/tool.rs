//! The node `tool`: makes one call.

use std::sync::Arc;

use super::{Agent, Callee, toolbox, writing};
use crate::agent::calls::Caller;
use crate::agent::state::base::BaseState;
use crate::agent::state::context::BaseContext;
use crate::agent::{nesting, words};
use crate::error::NodeError;
use crate::graph::{Command, Task};
use crate::message::{Message, ToolCall};
use crate::state::{Contains, State, Values};

pub(super) async fn run<S, C>(agent: &Arc<Agent<S, C>>, task: &Task<S, C>) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let call = call_of(task)?;
    let said = |message: Message| writing([BaseState::channels().messages.write::<S>([message])]);
    if let Some(mistake) = nesting::mistake(&call) {
        return Ok(said(words::refusal(&call, &mistake)));
    }
    let channel = BaseState::channels().messages;
    let caller = Caller {
        agent: &agent.name,
        errors: agent.errors,
        channel: channel.name(),
        said: |messages| BaseState::channels().messages.write::<S>(messages),
    };
    Ok(match agent.callee(&call.name) {
        Callee::Tool(number) => caller.call(&*agent.tools[number], call, task).await?,
        Callee::Subagent(number) => {
            let mistake = agent.subagents[number].mistake(&call).unwrap_or_default();
            said(words::refusal(&call, &mistake))
        }
        Callee::Other if agent.converses() => said(words::refusal(&call, &agent.unknown_tool(&call.name))),
        Callee::Other => match toolbox::call::<S>(agent.todo.as_ref().map(|_| &task.state().part().todo_list), &call) {
            Some(Ok(writes)) => writing(writes),
            Some(Err(mistake)) => said(words::refusal(&call, &mistake)),
            None => said(words::refusal(&call, &agent.unknown_tool(&call.name))),
        },
    })
}

/// The call that this task is for: what it was sent, or the only one of the last message.
pub(crate) fn call_of<S, C>(task: &Task<S, C>) -> Result<ToolCall, NodeError>
where
    S: Values + Contains<BaseState>,
{
    if task.was_sent() {
        return task.sent();
    }
    let last = task.state().part().messages.last().map(Message::tool_calls).unwrap_or_default();
    last.first().cloned().ok_or_else(|| {
        NodeError::permanent("was reached without a call: the last message of `messages` is no call of a tool")
    })
}
