//! Calls a tool: through the layers, approved, traced, and always with a result. Every tool call of agents and of
//! `tools![…]` nodes goes through this module.

use async_trait::async_trait;
use serde_json::Value;
use tracing::{Instrument, field};

use super::{labels, nesting};
use crate::layer::{
    CallLayers, CallSite, StateProjection, ToolEnd, ToolReply, ToolUse, around_tool, check_layers, redactor,
    unite_writes,
};
use crate::redaction::Redactor;
use crate::state::added::added_messages;
use crate::tool::errors::ToolErrors;
use crate::tool::{Tool, ToolOutput};
use crate::{coercion, prompts};
use hier_checkpoint::message::{Message, Messages, ToolCall};
use hier_checkpoint::panics;
use hier_core::NodeError;
use hier_core::checkpoint::codec;
use hier_core::graph::{Command, Task};
use hier_core::state::{ChannelWrite, Update, Values, Writes};

/// The origin of tool calls: an agent or a node.
pub(crate) struct ToolCaller<'a, S: Values, C> {
    /// The agent's name, which the operator sees.
    pub(crate) agent: &'a str,
    pub(crate) errors: ToolErrors,
    /// The channel of the conversation, and the write that adds messages to it.
    pub(crate) channel: &'static str,
    pub(crate) write_messages: fn(Messages) -> S::Write,
    pub(crate) layers: CallLayers<'a, S, C>,
    pub(crate) projection: StateProjection<S>,
}

/// Maximum length, in characters, of invalid arguments that are quoted to the model.
const MAX_QUOTE: usize = 200;

/// Describes the mistake if the arguments are a string. This happens if the model has written invalid JSON or its reply
/// was cut off. The operator is not asked to approve such a call.
fn string_mistake(call: &ToolCall) -> Option<String> {
    let quote: String = call.args.as_str()?.chars().take(MAX_QUOTE).collect();
    Some(format!(
        "the arguments are invalid JSON, and must be a JSON object: `{quote}`. If your answer was cut off, make it shorter"
    ))
}

impl<S: Values, C> ToolCaller<'_, S, C> {
    pub(crate) fn add_messages(&self, messages: impl Into<Messages>) -> Command<S> {
        Command::update(S::Update::from_writes(Writes::from_iter([(self.write_messages)(messages.into())])))
    }

    pub(crate) fn refuse(&self, call: &ToolCall, reason: &str) -> Command<S> {
        self.add_messages([prompts::refusal(call, reason)])
    }

    /// Adds a result if the command has none, because providers reject a conversation with an unanswered call. A
    /// command for the parent graph is unchanged, because the parent graph answers the call.
    fn with_result(&self, mut command: Command<S>, call: &ToolCall) -> Result<Command<S>, NodeError> {
        if command.is_for_parent() {
            return Ok(command);
        }
        for write in command.writes.iter().filter(|write| write.name() == self.channel) {
            let mut bytes = Vec::new();
            if let Some(written) = write.stored() {
                written.encode(&mut bytes)?;
                let messages: Messages = codec::decode(&bytes)?;
                if messages.iter().any(|message| message.tool_call_id() == Some(&call.id)) {
                    return Ok(command);
                }
            }
        }
        // The result comes first, so that it directly follows the call.
        let result = (self.write_messages)([prompts::answer(call, prompts::DONE)].into());
        let writes = std::iter::once(result).chain(std::mem::take(&mut command.writes)).collect();
        Ok(command.with_writes(writes))
    }

    /// Adds the operator's arguments of a call to its result. A layer may have revised the arguments of the call itself,
    /// for example with a secret, which the model must not receive.
    fn edited(&self, mut command: Command<S>, call: &ToolCall, args: &Value) -> Result<Command<S>, NodeError> {
        let mut writes = Writes::new();
        for write in std::mem::take(&mut command.writes) {
            let Some(messages) = added_messages(&write, self.channel)? else {
                writes.push(write);
                continue;
            };
            let is_result = |message: &Message| message.tool_call_id() == Some(&call.id);
            let edit = |message| if is_result(&message) { prompts::edited(message, args) } else { message };
            writes.push((self.write_messages)(messages.iter().cloned().map(edit).collect()));
        }
        Ok(command.with_writes(writes))
    }
}

impl<S: Values, C: Send + Sync + 'static> ToolCaller<'_, S, C> {
    /// Checks and calls a tool, after an approval if the tool needs it. Removes secrets from the output.
    pub(crate) async fn call_tool(
        &self,
        tool: &dyn Tool<S, C>,
        call: ToolCall,
        task: &Task<S, C>,
    ) -> Result<Command<S>, NodeError> {
        match redactor(self.layers) {
            None => self.check_and_call(tool, call, task).await,
            Some(redactor) => {
                let made = redactor.clone().around(self.check_and_call(tool, call, task)).await;
                redactor.command(task.state(), made)
            }
        }
    }

    async fn check_and_call(
        &self,
        tool: &dyn Tool<S, C>,
        call: ToolCall,
        task: &Task<S, C>,
    ) -> Result<Command<S>, NodeError> {
        let call = coerce_arguments(tool, call);
        if let Some(mistake) = nesting::mistake(&call).or_else(|| string_mistake(&call)) {
            return Ok(self.refuse(&call, &mistake));
        }
        let call = match self.check(call.clone(), task).await? {
            Ok(call) => call,
            Err(reason) => return Ok(self.refuse(&call, &reason)),
        };
        let approved = match self.approve(tool, call.clone(), task).await? {
            Ok(approved) => coerce_arguments(tool, approved),
            Err(reason) => return Ok(self.refuse(&call, &reason)),
        };
        if approved.args == call.args {
            return self.call_approved(tool, &approved, task).await;
        }
        // The layers also check the arguments that the operator has changed. If the layers revise these arguments, no
        // second approval is requested.
        let args = approved.args.clone();
        match self.check(approved, task).await? {
            Ok(call) => self.edited(self.call_approved(tool, &call, task).await?, &call, &args),
            Err(reason) => Ok(self
                .refuse(&call, &format!("the operator changed the arguments to {args}, which were refused: {reason}"))),
        }
    }

    /// Returns the call as revised by the layers, or the reason why a layer denied it.
    async fn check(&self, call: ToolCall, task: &Task<S, C>) -> Result<Result<ToolCall, String>, NodeError> {
        if self.layers.is_empty() {
            return Ok(Ok(call));
        }
        check_layers(self.layers, &self.projection, self.call_site(task), call).await
    }

    fn call_site<'b>(&'b self, task: &'b Task<S, C>) -> CallSite<'b, S, C> {
        self.layers.call_site(task.state(), task.run(), self.agent, &self.projection)
    }

    async fn call_approved(
        &self,
        tool: &dyn Tool<S, C>,
        call: &ToolCall,
        task: &Task<S, C>,
    ) -> Result<Command<S>, NodeError> {
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = format_args!("execute_tool {}", call.name),
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = %call.name,
            gen_ai.tool.call.id = %call.id,
            hier.tool.labels = field::Empty,
            hier.conversation.labels = field::Empty,
        );
        labels::show_in_span(&span, tool.labels(), task.state());
        if self.layers.is_empty() {
            let output = catch_panic(tool, call, task).instrument(span).await;
            return Ok(labels::record_labels(self.command_for(output, call)?, tool.labels(), task.state()));
        }
        let end = ToolEndpoint { tool, task, channel: self.channel };
        let made = around_tool(self.layers, &self.projection, self.call_site(task), call.clone(), &end);
        let (output, writes) = match made.instrument(span).await {
            Ok(reply) => {
                let (output, writes) = reply.into_output(self.write_messages, |content| prompts::answer(call, content));
                (Ok(output), writes)
            }
            Err(error) => (Err(error), Vec::new()),
        };
        let mut command = self.command_for(output, call)?;
        command.writes = unite_writes(writes, command.writes, task.channels())?;
        Ok(labels::record_labels(command, tool.labels(), task.state()))
    }

    fn command_for(&self, output: Result<ToolOutput<S>, NodeError>, call: &ToolCall) -> Result<Command<S>, NodeError> {
        Ok(match output {
            Ok(ToolOutput::Content(content)) => self.add_messages([prompts::answer(call, content)]),
            Ok(ToolOutput::Messages(messages)) => self.with_result(self.add_messages(messages), call)?,
            Ok(ToolOutput::Command(command)) => self.with_result(command, call)?,
            Ok(ToolOutput::Invalid(mistake)) => self.refuse(call, &mistake),
            // An interrupt is not a failure, and the model cannot fix it.
            Err(error) if error.is_signal() => return Err(error),
            Err(error) => match self.errors.text_for_model(&error) {
                Some(text) => self.refuse(call, &text),
                None => return Err(error.of_tool(&call.name)),
            },
        })
    }
}

/// Converts the arguments of a call to the JSON types that the tool takes, where their meaning is clear.
fn coerce_arguments<S: Values, C: 'static>(tool: &dyn Tool<S, C>, call: ToolCall) -> ToolCall {
    if nesting::mistake(&call).is_some() || tool.mistake(&call).is_none() {
        return call;
    }
    match coercion::coerced(&call.args, &tool.spec().parameters) {
        Some(args) => ToolCall { args, ..call },
        None => call,
    }
}

/// Refuses an output that writes a secret channel, because the model sees the output of a tool.
fn refuse_secrets<S: Values>(output: ToolOutput<S>) -> Result<ToolOutput<S>, NodeError> {
    let ToolOutput::Command(command) = &output else { return Ok(output) };
    match command.writes.iter().find(|write| write.is_secret()) {
        Some(write) => Err(NodeError::permanent(format!(
            "the tool writes the secret channel `{}`, but only a node may write it: move the write to a node",
            write.name()
        ))),
        None => Ok(output),
    }
}

/// Calls a tool and catches panics, including those before it returns a future.
async fn catch_panic<S: Values, C: 'static>(
    tool: &dyn Tool<S, C>,
    call: &ToolCall,
    task: &Task<S, C>,
) -> Result<ToolOutput<S>, NodeError> {
    let called = panics::caught(async { tool.call(call, task).await }).await;
    called.unwrap_or_else(|payload| Err(NodeError::panic(&*payload))).and_then(refuse_secrets)
}

/// The innermost end of the layers, which calls the tool.
struct ToolEndpoint<'a, S: Values, C> {
    tool: &'a dyn Tool<S, C>,
    task: &'a Task<S, C>,
    channel: &'a str,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> ToolEnd<S, C> for ToolEndpoint<'_, S, C> {
    async fn call(&self, call: ToolUse<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        let Some(redactor) = Redactor::present() else {
            return ToolReply::from_output(catch_panic(self.tool, &call.call, self.task).await?, self.channel);
        };
        let output = catch_panic(self.tool, &call.call, self.task).await.map_err(|error| redactor.error(error))?;
        let mut reply = ToolReply::from_output(output, self.channel)?;
        reply.map_texts(|text| {
            redactor.change(text);
        });
        Ok(reply)
    }
}
