//! Makes a call of a tool: through layers, approved, traced, and answered, whatever becomes of it. Every call goes through here, those of
//! agents and those of a node `tools![…]`.

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

/// Who makes calls, and where their results go.
pub(super) struct Caller<'a, S: Values, C> {
    /// The agent, for the operator.
    pub(super) agent: &'a str,
    pub(super) errors: ToolErrors,
    /// The channel of the conversation.
    pub(super) channel: &'static str,
    /// Adds messages to the conversation.
    pub(super) said: fn(Messages) -> S::Write,
    /// The layers that it inherits, and its own.
    pub(super) layers: (Above<'a>, &'a [Listed<S, C>]),
    pub(super) lens: Lens<S>,
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

impl<S: Values, C> Caller<'_, S, C> {
    /// A command that adds this to the conversation.
    pub(super) fn says(&self, messages: impl Into<Messages>) -> Command<S> {
        Command::update(S::Update::from_writes(Writes::from_iter([(self.said)(messages.into())])))
    }

    /// A command that answers a call with why it is not made.
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
        // What a person put in place of the arguments is held to the same rules. What the layers make of it, nobody is asked again.
        let args = approved.args.clone();
        match self.checked(approved, task).await? {
            Ok(call) => self.made(tool, &call, task).await,
            Err(reason) => {
                Ok(self.refuses(&call, &format!("the operator changed the arguments to {args}, and then: {reason}")))
            }
        }
    }

    /// The call as the layers let it be made, or why it may not be.
    async fn checked(&self, call: ToolCall, task: &Task<S, C>) -> Result<Result<ToolCall, String>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        if self.is_bare() {
            return Ok(Ok(call));
        }
        check(self.layers, &self.lens, self.site(task), call).await
    }

    /// Whether there are no layers.
    fn is_bare(&self) -> bool {
        self.layers.0.is_empty() && self.layers.1.is_empty()
    }

    fn site<'b>(&'b self, task: &'b Task<S, C>) -> CallSite<'b, S, C> {
        site(task.state(), task.run(), self.agent, self.layers.0, &self.lens)
    }

    /// The call as the operator wants it, or why it is not made.
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
        // A person's answer counts, even if the tool refuses these arguments since.
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

    /// Makes a call that nothing is in the way of.
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

    /// What the output of a call leads to.
    fn led_to(&self, output: Result<ToolOutput<S>, NodeError>, call: &ToolCall) -> Result<Command<S>, NodeError> {
        Ok(match output {
            Ok(ToolOutput::Content(content)) => self.says([words::answer(call, content)]),
            Ok(ToolOutput::Messages(messages)) => self.answered(self.says(messages), call)?,
            Ok(ToolOutput::Command(command)) => self.answered(command, call)?,
            Ok(ToolOutput::Invalid(mistake)) => self.refuses(call, &mistake),
            // A question of the tool's is no failure of it, and nothing that its model could mend.
            Err(error) if error.is_signal() => return Err(error),
            Err(error) => match self.errors.told(&error) {
                Some(text) => self.refuses(call, &text),
                None => return Err(error.of_tool(&call.name)),
            },
        })
    }

    /// The command, in which the call has an answer: providers refuse a conversation in which one has none. Whatever leaves
    /// the agent's graph answers for itself.
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
        // In front of what else was said: the answer follows the call.
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

/// Calls a tool. It may panic before it gives a future.
async fn caught<S: Values, C: 'static>(
    tool: &dyn Tool<S, C>,
    call: &ToolCall,
    task: &Task<S, C>,
) -> Result<ToolOutput<S>, NodeError> {
    let called = panics::caught(async { tool.call(call, task).await }).await;
    called.unwrap_or_else(|payload| Err(NodeError::panic(&*payload)))
}

/// What stands at the end of layers: the tool.
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
