//! The tools with which an agent checks, awaits, messages and cancels its background subagents.

mod collect;

use std::sync::Arc;

use hier_spec::agent::{BACKGROUND_TOOLS, CANCEL_SUBAGENT, CHECK_SUBAGENTS, MESSAGE_SUBAGENT};
use serde_json::Value;

use super::agent::{AgentDef, writing};
use super::background_calls::{EndingCalls, args_of, handle_in, handles_in};
use super::background_set::{BackgroundRunner, SubagentEnd};
use crate::prompts;
use crate::state::background::{BackgroundStatus, BackgroundSubagent, BackgroundSubagents};
use crate::state::base::BaseState;
use hier_checkpoint::message::{Message, ToolCall};
use hier_core::NodeError;
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values};

/// Makes a call of a tool for background subagents. Returns `None` if the agent does not have this tool.
pub(super) async fn call_background<S, C>(
    agent: &Arc<AgentDef<S, C>>,
    call: &ToolCall,
    task: &Task<S, C>,
) -> Result<Option<Command<S>>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    if agent.background.0.is_empty() || !BACKGROUND_TOOLS.contains(&&*call.name) {
        return Ok(None);
    }
    let args = args_of(call);
    let tools = BackgroundTools { agent, task, call, args: &args, ending: EndingCalls::of(task.state().part()) };
    let answered = match &*call.name {
        MESSAGE_SUBAGENT => tools.send_message().await?,
        CANCEL_SUBAGENT => tools.cancel().await?,
        CHECK_SUBAGENTS => tools.collect(false).await?,
        _ => tools.collect(true).await?,
    };
    Ok(Some(answered.unwrap_or_else(|mistake| refused(prompts::refusal(call, &mistake)))))
}

struct BackgroundTools<'a, S: Values, C> {
    agent: &'a AgentDef<S, C>,
    task: &'a Task<S, C>,
    call: &'a ToolCall,
    args: &'a Value,
    /// The calls of the same reply that end subagents, including this one.
    ending: EndingCalls,
}

/// A subagent that this call is about.
struct Chosen<'a, S: Values, C> {
    handle: &'a str,
    record: &'a BackgroundSubagent,
    runner: &'a dyn BackgroundRunner<S, C>,
    thread: Arc<str>,
}

fn refused<S: Values + Contains<BaseState>>(message: Message) -> Command<S> {
    writing([BaseState::channels().messages.write::<S>([message])])
}

/// The result of a call, or the mistake of the model.
type Answered<S> = Result<Command<S>, String>;

impl<'a, S, C> BackgroundTools<'a, S, C>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    fn known(&self) -> &'a BackgroundSubagents {
        &self.task.state().part().background_subagents
    }

    fn answer(&self, text: String, ended: Vec<S::Write>) -> Command<S> {
        let message = BaseState::channels().messages.write::<S>([prompts::answer(self.call, text)]);
        writing([message].into_iter().chain(ended))
    }

    /// Finds a subagent by the handle that the model gave.
    fn find(&self, handle: &str) -> Result<Chosen<'a, S, C>, String> {
        let known = self.known();
        let found = known.iter().find(|(known, _)| *known == handle);
        let chosen = found.and_then(|(handle, record)| {
            let runner = self.agent.background.runner(record)?;
            Some(Chosen { handle, record, runner, thread: runner.thread(self.task, handle, record) })
        });
        chosen.ok_or_else(|| prompts::unknown_subagent(handle, &mut known.iter().map(|(handle, _)| handle)))
    }

    /// Finds the subagent of the argument `handle`, which must be running.
    fn running(&self) -> Result<Chosen<'a, S, C>, String> {
        let chosen = self.find(handle_in(self.args)?)?;
        if chosen.record.status == BackgroundStatus::Running {
            return Ok(chosen);
        }
        Err(prompts::already_ended(chosen.handle, chosen.record.status.described()))
    }

    /// Finds the subagents of the argument `handles`. Defaults to all that are running.
    fn chosen(&self) -> Result<Vec<Chosen<'a, S, C>>, String> {
        let Some(handles) = handles_in(self.args)? else {
            // Records whose subagent the program no longer has are left out.
            return Ok(self.known().running().filter_map(|(handle, _)| self.find(handle).ok()).collect());
        };
        handles.into_iter().map(|handle| self.find(handle)).collect()
    }

    async fn cancel(&self) -> Result<Answered<S>, NodeError> {
        let chosen = match self.running() {
            Ok(chosen) => chosen,
            Err(mistake) => return Ok(Err(mistake)),
        };
        if self.ending.cancelling(chosen.handle) != Some(&*self.call.id) {
            return Ok(Ok(self.answer(prompts::cancelled(chosen.handle), Vec::new())));
        }
        self.task.run().background().cancel(&chosen.thread).await;
        let ended = (chosen.handle.to_owned(), chosen.record.with_status(BackgroundStatus::Cancelled));
        let writes = self.agent.background.record_ends(self.task, vec![(chosen.thread, ended)]).await?;
        Ok(Ok(self.answer(prompts::cancelled(chosen.handle), writes)))
    }

    /// Sends a message to a running subagent. The message is sent once, even if the task runs again.
    async fn send_message(&self) -> Result<Answered<S>, NodeError> {
        let chosen = match self.running() {
            Ok(chosen) => chosen,
            Err(mistake) => return Ok(Err(mistake)),
        };
        let Some(text) = self.args.get("message").and_then(Value::as_str).filter(|text| !text.is_empty()) else {
            return Ok(Err("`message` must be a non-empty string".to_owned()));
        };
        let labels = self.task.state().part().trust_labels.labels();
        if !chosen.record.labels.labels().contains(labels) {
            return Ok(Err(prompts::NEW_LABELS.to_owned()));
        }
        if matches!(self.end_of(&chosen), Some(end) if matches!(*end, SubagentEnd::Ended { .. })) {
            return Ok(Err(prompts::has_ended(chosen.handle)));
        }
        let message = Message::user(prompts::from_supervisor(text));
        let sent = chosen.runner.send(self.task, &chosen.thread, self.task.run().task_id(), &message).await?;
        Ok(if sent {
            Ok(self.answer(prompts::sent(chosen.handle), Vec::new()))
        } else {
            Err(prompts::takes_no_messages(chosen.handle))
        })
    }

    fn end_of(&self, chosen: &Chosen<'_, S, C>) -> Option<Arc<SubagentEnd>> {
        self.task.run().background().ended(&chosen.thread)?.downcast().ok()
    }
}
