//! The node `tool`: makes one call.

use std::sync::Arc;

use super::{Agent, Callee, toolbox, writing};
use crate::calls::Caller;
use crate::compact::reading;
use crate::layer::Lens;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::{nesting, words};
use hier_checkpoint::message::{Message, ToolCall};
use hier_core::NodeError;
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values};

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
        layers: agent.layers(task.run()),
        lens: Lens::part(),
    };
    Ok(match agent.callee(&call.name) {
        Callee::Tool(number) => caller.call(&*agent.tools[number], call, task).await?,
        Callee::Subagent(number) => {
            let mistake = agent.subagents[number].mistake(&call).unwrap_or_default();
            said(words::refusal(&call, &mistake))
        }
        Callee::Other => return Box::pin(other(agent, &caller, call, task)).await,
    })
}

/// Makes a call of a built-in tool or of a toolset.
async fn other<S, C>(
    agent: &Arc<Agent<S, C>>,
    caller: &Caller<'_, S, C>,
    call: ToolCall,
    task: &Task<S, C>,
) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let base = task.state().part();
    if !agent.converses() {
        match toolbox::call::<S>(agent.todo.as_ref().map(|_| &base.todo_list), &call) {
            Some(Ok(writes)) => return Ok(writing(writes)),
            Some(Err(mistake)) => return Ok(caller.refuses(&call, &mistake)),
            None => {}
        }
    }
    if call.name == words::READ_EARLIER && base.compaction.is_some() {
        return Ok(match reading::read(&base.messages, &call) {
            Ok(content) => caller.says([words::answer(&call, content)]),
            Err(mistake) => caller.refuses(&call, &mistake),
        });
    }
    let mut listed = Vec::new();
    if !agent.toolsets.is_empty() {
        let context = task.run().context();
        let catalogue = agent.catalogue(context).await?;
        listed.extend(catalogue.specs().map(|spec| spec.name.clone()));
        if let Some(tool) = catalogue.find(&call.name, base.agent_turn.tools.get(&call.name)) {
            return caller.call(&tool.within(context), call, task).await;
        }
    }
    Ok(caller.refuses(&call, &agent.unknown_tool(&call.name, listed)))
}

/// Returns the call of this task: the one that was sent to it, or the only open call of the agent.
pub(crate) fn call_of<S, C>(task: &Task<S, C>) -> Result<ToolCall, NodeError>
where
    S: Values + Contains<BaseState>,
{
    if task.was_sent() {
        return task.sent();
    }
    let open = task.state().part().open_calls();
    open.first().map(|call| (*call).clone()).ok_or_else(|| {
        NodeError::permanent("was reached without a call: the model has no open call of a tool in `messages`")
    })
}
