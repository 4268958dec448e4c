//! The node `tool`: makes one call.

use std::sync::Arc;

use tracing::Instrument;

use super::{Agent, Callee, toolbox, writing};
use crate::agent::operator::{Approval, ApprovalRequest};
use crate::agent::state::base::BaseState;
use crate::agent::state::context::BaseContext;
use crate::agent::tool::{Tool, ToolOutput};
use crate::agent::{nesting, words};
use crate::checkpoint::codec;
use crate::error::NodeError;
use crate::graph::{Command, Task};
use crate::message::{Message, Messages, ToolCall};
use crate::panics;
use crate::state::{ChannelWrite, Contains, State, Values};

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
    let callee = agent.callee(&call.name);
    if let (Callee::Tool(_), Some(mistake)) = (callee, no_object(&call)) {
        return Ok(said(words::refusal(&call, &mistake)));
    }
    Ok(match callee {
        Callee::Tool(number) => match approved(agent, &*agent.tools[number], call.clone(), task).await? {
            Ok(call) => made(agent, &*agent.tools[number], &call, task).await?,
            Err(reason) => said(words::refusal(&call, &reason)),
        },
        Callee::Subagent(number) => {
            let mistake = agent.subagents[number].mistake(&call).unwrap_or_default();
            said(words::refusal(&call, &mistake))
        }
        Callee::Other if agent.converses() => {
            said(words::refusal(&call, &words::unknown_tool(&call.name, agent.tool_names())))
        }
        Callee::Other => match toolbox::call::<S>(agent.todo.is_some(), &call) {
            Some(Ok(writes)) => writing(writes),
            Some(Err(mistake)) => said(words::refusal(&call, &mistake)),
            None => said(words::refusal(&call, &words::unknown_tool(&call.name, agent.tool_names()))),
        },
    })
}

/// The longest piece of what a model gave for arguments that it is shown again, in characters.
const SHOWN: usize = 200;

/// Why a call is not made whose arguments are text: the model made a mistake, or its answer was cut off. The operator is
/// not asked to approve such a call.
fn no_object(call: &ToolCall) -> Option<String> {
    let shown: String = call.args.as_str()?.chars().take(SHOWN).collect();
    Some(format!(
        "the arguments are a text that is no JSON, and must be a JSON object: `{shown}`. If your answer was cut off, say it shorter"
    ))
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

/// The call as the operator wants it, or why it is not made.
async fn approved<S, C>(
    agent: &Agent<S, C>,
    tool: &dyn Tool<S, C>,
    call: ToolCall,
    task: &Task<S, C>,
) -> Result<Result<ToolCall, String>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    if !tool.needs_approval() {
        return Ok(Ok(call));
    }
    let question = ApprovalRequest { agent: agent.name.to_string(), call: call.clone() };
    Ok(match task.run().interrupt::<Approval>(&question).await? {
        Approval::Approve => Ok(call),
        Approval::Edit { args } => Ok(ToolCall { args, ..call }),
        Approval::Reject { reason } => Err(format!("the operator did not approve this call: {reason}")),
    })
}

/// Makes a call of a tool of the agent's own.
async fn made<S, C>(
    agent: &Agent<S, C>,
    tool: &dyn Tool<S, C>,
    call: &ToolCall,
    task: &Task<S, C>,
) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: 'static,
{
    let said = |messages: Vec<Message>| writing([BaseState::channels().messages.write::<S>(messages)]);
    let span = tracing::info_span!(
        "execute_tool",
        otel.name = format_args!("execute_tool {}", call.name),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = %call.name,
        gen_ai.tool.call.id = %call.id,
    );
    // The tool may panic before it gives a future.
    let called = panics::caught(async { tool.call(call, task).await }).instrument(span).await;
    let output = called.unwrap_or_else(|payload| Err(NodeError::panic(&*payload)));
    Ok(match output {
        Ok(ToolOutput::Content(content)) => said(vec![words::answer(call, content)]),
        Ok(ToolOutput::Messages(messages)) => answered(said(messages), call)?,
        Ok(ToolOutput::Command(command)) => answered(command, call)?,
        Ok(ToolOutput::Invalid(mistake)) => said(vec![words::refusal(call, &mistake)]),
        // A question of the tool's is no failure of it, and nothing that its model could mend.
        Err(error) if error.is_signal() => return Err(error),
        Err(error) => match agent.errors.told(&error) {
            Some(text) => said(vec![words::refusal(call, &text)]),
            None => return Err(error.of_tool(&call.name)),
        },
    })
}

/// The command, in which the call has an answer: providers refuse a conversation in which one has none. Whatever leaves the
/// agent's graph answers for itself.
fn answered<S>(command: Command<S>, call: &ToolCall) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
{
    if command.parent.is_some() {
        return Ok(command);
    }
    let channel = BaseState::channels().messages;
    for write in command.writes.iter().filter(|write| write.name() == channel.name()) {
        let mut bytes = Vec::new();
        if let Some(written) = write.stored() {
            written.encode(&mut bytes)?;
            let messages: Messages = codec::decode(&bytes)?;
            if messages.iter().any(|message| message.tool_call_id() == Some(&call.id)) {
                return Ok(command);
            }
        }
    }
    // In front of what else was said: the answer follows the call.
    let answer = channel.write::<S>([words::answer(call, words::DONE)]);
    let writes = std::iter::once(answer).chain(command.writes).collect();
    Ok(Command { writes, ..command })
}
