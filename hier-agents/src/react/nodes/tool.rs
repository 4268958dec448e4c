//! The node `tool`: makes one call.

use std::sync::Arc;

use crate::call::nesting;
use crate::call::tool::ToolCaller;
use crate::compact::read_earlier;
use crate::layer::{StateProjection, redactor};
use crate::prompts;
use crate::react::agent::{AgentDef, Callee, writing};
use crate::react::background::call_background;
use crate::react::built_in_tools;
use crate::react::searching::search_tools;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::tool::requested::AnsweredTool;
use hier_checkpoint::message::{Message, ToolCall};
use hier_core::NodeError;
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values};

pub(super) async fn run_tool_node<S, C>(agent: &Arc<AgentDef<S, C>>, task: &Task<S, C>) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let call = call_of(task)?;
    let add = |message: Message| writing([BaseState::channels().messages.write::<S>([message])]);
    if let Some(mistake) = nesting::mistake(&call) {
        return Ok(add(prompts::refusal(&call, &mistake)));
    }
    let channel = BaseState::channels().messages;
    let caller = ToolCaller {
        agent: &agent.name,
        errors: agent.errors,
        channel: channel.name(),
        write_messages: |messages| BaseState::channels().messages.write::<S>(messages),
        layers: agent.layers(task.run()),
        projection: StateProjection::of_agent(),
    };
    Ok(match agent.callee(&call.name) {
        Callee::Tool(number) => {
            let tool = call.name.clone();
            let command = caller.call_tool(&*agent.tools[number], call, task).await?;
            if command.has_targets() && !command.is_for_parent() {
                return Err(target_refused(&tool, &agent.name));
            }
            command
        }
        Callee::Subagent(number) => {
            let mistake = agent.subagents[number].mistake(&call).unwrap_or_default();
            add(prompts::refusal(&call, &mistake))
        }
        Callee::Other => {
            let made = Box::pin(call_other(agent, &caller, call, task)).await;
            // Reports of background subagents and results of built-in tools do not pass through the layers.
            return match redactor(caller.layers) {
                Some(redactor) => redactor.command(task.state(), made),
                None => made,
            };
        }
    })
}

fn target_refused(tool: &str, agent: &str) -> NodeError {
    NodeError::permanent(format!(
        "the tool `{tool}` returned a command with a target, but the agent `{agent}` continues with its model: return only \
         an update, or add `.parent()` to the command to go to a node of the outer graph"
    ))
}

/// Makes a call of a built-in tool or of a tool of a toolset. Refuses a call of an unknown tool.
async fn call_other<S, C>(
    agent: &Arc<AgentDef<S, C>>,
    caller: &ToolCaller<'_, S, C>,
    call: ToolCall,
    task: &Task<S, C>,
) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let base = task.state().part();
    if !agent.converses() {
        match built_in_tools::call_built_in::<S>(agent.todo.as_ref().map(|_| &base.todo_list), &call) {
            Some(Ok(writes)) => return Ok(writing(writes)),
            Some(Err(mistake)) => return Ok(caller.refuse(&call, &mistake)),
            None => {}
        }
    }
    if call.name == prompts::READ_EARLIER && base.compaction.is_some() {
        return Ok(match read_earlier::read(&base.messages, &call) {
            Ok(content) => caller.add_messages([prompts::answer(&call, content)]),
            Err(mistake) => caller.refuse(&call, &mistake),
        });
    }
    if let Some(answered) = call_background(agent, &call, task).await? {
        return Ok(answered);
    }
    if let Some(found) = search_tools(agent, caller, &call, task).await? {
        return Ok(found);
    }
    let context = task.run().context();
    let catalogue = if agent.toolsets.is_empty() { None } else { Some(agent.catalogue(context).await?) };
    let started = base.agent_turn.tools.get(&call.name);
    if let Some(tool) = catalogue.as_ref().and_then(|catalogue| catalogue.find(&call.name, started, context)) {
        return caller.call_tool(&tool, call, task).await;
    }
    if AnsweredTool::has_result(&call, task.run())? {
        return caller.call_tool(&AnsweredTool { labels: agent.toolsets.labels() }, call, task).await;
    }
    Ok(caller.refuse(&call, &agent.no_such_tool(&call.name, catalogue.as_ref())))
}

/// Returns the call of this task: the call that was sent to the task, or the only open call of the agent.
pub(crate) fn call_of<S, C>(task: &Task<S, C>) -> Result<ToolCall, NodeError>
where
    S: Values + Contains<BaseState>,
{
    if task.was_sent() {
        return task.sent();
    }
    let open = task.state().part().open_calls();
    open.first()
        .map(|call| (*call).clone())
        .ok_or_else(|| NodeError::permanent("no tool call to execute: `messages` has no open call of the model"))
}
