//! Calls a tool: through the layers, approved, traced, and always with a result. Every tool call of agents and of
//! `tools![…]` nodes goes through this module.

use async_trait::async_trait;
use tracing::Instrument;

use super::layer::{
    Above, CallSite, Lens, Listed, ToolEnd, ToolReply, ToolUse, around_tool, check, redactor, site, united,
};
use super::operator::{Approval, ApprovalRequest};
use super::redaction::Redactor;
use super::tool::errors::ToolErrors;
use super::tool::{Tool, ToolOutput};
use super::{fit, nesting, words};
use hier_checkpoint::message::{Messages, ToolCall};
use hier_checkpoint::panics;
use hier_core::NodeError;
use hier_core::checkpoint::codec;
use hier_core::graph::{Command, Task};
use hier_core::state::{ChannelWrite, Update, Values, Writes};

pub(super) struct Caller<'a, S: Values, C> {
    /// The agent's name, for the operator.
    pub(super) agent: &'a str,
    pub(super) errors: ToolErrors,
    pub(super) channel: &'static str,
    pub(super) said: fn(Messages) -> S::Write,
    /// The inherited layers, and the agent's own.
    pub(super) layers: (Above<'a>, &'a [Listed<S, C>]),
    pub(super) lens: Lens<S>,
}

/// Maximum length, in characters, of invalid arguments that are quoted to the model.
const SHOWN: usize = 200;

/// Describes arguments that are a string, because the model made a mistake or its answer was cut off. The operator is
/// not asked to approve such a call.
fn no_object(call: &ToolCall) -> Option<String> {
    let shown: String = call.args.as_str()?.chars().take(SHOWN).collect();
    Some(format!(
        "the arguments are invalid JSON, and must be a JSON object: `{shown}`. If your answer was cut off, make it shorter"
    ))
}

impl<S: Values, C> Caller<'_, S, C> {
    pub(super) fn says(&self, messages: impl Into<Messages>) -> Command<S> {
        Command::update(S::Update::from_writes(Writes::from_iter([(self.said)(messages.into())])))
    }

    pub(super) fn refuses(&self, call: &ToolCall, why: &str) -> Command<S> {
        self.says([words::refusal(call, why)])
    }

    /// Calls a tool if its arguments are an object and any required approval is given. Its output contains no secrets.
    pub(super) async fn call(
        &self,
        tool: &dyn Tool<S, C>,
        call: ToolCall,
        task: &Task<S, C>,
    ) -> Result<Command<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        match redactor(self.layers) {
            None => self.called(tool, call, task).await,
            Some(redactor) => {
                let made = redactor.clone().around(self.called(tool, call, task)).await;
                redactor.command(task.state(), made)
            }
        }
    }

    async fn called(&self, tool: &dyn Tool<S, C>, call: ToolCall, task: &Task<S, C>) -> Result<Command<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        let call = meant(tool, call);
        if let Some(mistake) = nesting::mistake(&call).or_else(|| no_object(&call)) {
            return Ok(self.refuses(&call, &mistake));
        }
        let call = match self.checked(call.clone(), task).await? {
            Ok(call) => call,
            Err(reason) => return Ok(self.refuses(&call, &reason)),
        };
        let approved = match self.approved(tool, call.clone(), task).await? {
            Ok(approved) => meant(tool, approved),
            Err(reason) => return Ok(self.refuses(&call, &reason)),
        };
        if approved.args == call.args {
            return self.made(tool, &approved, task).await;
        }
        // The operator's arguments obey the same rules. If the layers revise them, no second approval is requested.
        let args = approved.args.clone();
        match self.checked(approved, task).await? {
            Ok(call) => self.made(tool, &call, task).await,
            Err(reason) => {
                Ok(self.refuses(&call, &format!("the operator changed the arguments to {args}, and then: {reason}")))
            }
        }
    }

    async fn checked(&self, call: ToolCall, task: &Task<S, C>) -> Result<Result<ToolCall, String>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        if self.is_bare() {
            return Ok(Ok(call));
        }
        check(self.layers, &self.lens, self.site(task), call).await
    }

    fn is_bare(&self) -> bool {
        self.layers.0.is_empty() && self.layers.1.is_empty()
    }

    fn site<'b>(&'b self, task: &'b Task<S, C>) -> CallSite<'b, S, C> {
        site(task.state(), task.run(), self.agent, self.layers.0, &self.lens)
    }

    /// Asks the operator if necessary. Returns the approved call, or the reason for the rejection.
    async fn approved(
        &self,
        tool: &dyn Tool<S, C>,
        call: ToolCall,
        task: &Task<S, C>,
    ) -> Result<Result<ToolCall, String>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        if !tool.needs_approval() {
            return Ok(Ok(call));
        }
        let question = ApprovalRequest { agent: self.agent.to_owned(), call: call.clone() };
        // An answer of the operator counts even if the tool has since come to refuse these arguments.
        if !task.run().has_answer(&question)?
            && let Some(mistake) = tool.mistake(&call)
        {
            return Ok(Err(mistake));
        }
        Ok(match task.run().interrupt::<Approval>(&question).check(Approval::check).await? {
            Approval::Approve => Ok(call),
            Approval::Edit { args } => Ok(ToolCall { args, ..call }),
            Approval::Reject { reason } => Err(format!("the operator did not approve this call: {reason}")),
        })
    }

    async fn made(&self, tool: &dyn Tool<S, C>, call: &ToolCall, task: &Task<S, C>) -> Result<Command<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = format_args!("execute_tool {}", call.name),
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = %call.name,
            gen_ai.tool.call.id = %call.id,
        );
        if self.is_bare() {
            let output = caught(tool, call, task).instrument(span).await;
            return self.led_to(output, call);
        }
        let end = Called { tool, task, channel: self.channel };
        let made = around_tool(self.layers, &self.lens, self.site(task), call.clone(), &end);
        let (output, writes) = match made.instrument(span).await {
            Ok(reply) => {
                let (output, writes) = reply.into_output(self.said, |content| words::answer(call, content));
                (Ok(output), writes)
            }
            Err(error) => (Err(error), Vec::new()),
        };
        let mut command = self.led_to(output, call)?;
        command.writes = united(writes, command.writes, task.channels())?;
        Ok(command)
    }

    /// Turns the output of a call into a command.
    fn led_to(&self, output: Result<ToolOutput<S>, NodeError>, call: &ToolCall) -> Result<Command<S>, NodeError> {
        Ok(match output {
            Ok(ToolOutput::Content(content)) => self.says([words::answer(call, content)]),
            Ok(ToolOutput::Messages(messages)) => self.answered(self.says(messages), call)?,
            Ok(ToolOutput::Command(command)) => self.answered(command, call)?,
            Ok(ToolOutput::Invalid(mistake)) => self.refuses(call, &mistake),
            // An interrupt is not a failure, and the model cannot fix it.
            Err(error) if error.is_signal() => return Err(error),
            Err(error) => match self.errors.told(&error) {
                Some(text) => self.refuses(call, &text),
                None => return Err(error.of_tool(&call.name)),
            },
        })
    }

    /// Adds a result if the command has none, because providers reject a conversation with an unanswered call. A
    /// command for the parent graph is unchanged: that graph answers the call.
    fn answered(&self, mut command: Command<S>, call: &ToolCall) -> Result<Command<S>, NodeError> {
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
        // The result directly follows the call.
        let answer = (self.said)([words::answer(call, words::DONE)].into());
        let writes = std::iter::once(answer).chain(std::mem::take(&mut command.writes)).collect();
        Ok(command.with_writes(writes))
    }
}

/// Converts the arguments of a call to the JSON types that the tool takes, where their meaning is clear.
fn meant<S: Values, C: 'static>(tool: &dyn Tool<S, C>, call: ToolCall) -> ToolCall {
    if nesting::mistake(&call).is_some() || tool.mistake(&call).is_none() {
        return call;
    }
    match fit::meant(&call.args, &tool.spec().parameters) {
        Some(args) => ToolCall { args, ..call },
        None => call,
    }
}

/// Calls a tool and catches panics, including those before it returns a future.
async fn caught<S: Values, C: 'static>(
    tool: &dyn Tool<S, C>,
    call: &ToolCall,
    task: &Task<S, C>,
) -> Result<ToolOutput<S>, NodeError> {
    let called = panics::caught(async { tool.call(call, task).await }).await;
    called.unwrap_or_else(|payload| Err(NodeError::panic(&*payload)))
}

/// The innermost end of the layers: it calls the tool.
struct Called<'a, S: Values, C> {
    tool: &'a dyn Tool<S, C>,
    task: &'a Task<S, C>,
    channel: &'a str,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> ToolEnd<S, C> for Called<'_, S, C> {
    async fn call(&self, call: ToolUse<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        let Some(redactor) = Redactor::present() else {
            return ToolReply::returned(caught(self.tool, &call.call, self.task).await?, self.channel);
        };
        let output = caught(self.tool, &call.call, self.task).await.map_err(|error| redactor.error(error))?;
        let mut reply = ToolReply::returned(output, self.channel)?;
        reply.map_texts(|text| {
            redactor.change(text);
        });
        Ok(reply)
    }
}
