//! Tool calls as durable steps.

use std::future::Future;

use serde::{Deserialize, Serialize};

use super::ToolOutput;
use crate::redaction::Redactor;
use hier_checkpoint::message::{Content, Message, ToolCall};
use hier_core::NodeError;
use hier_core::channel::{ChannelSpec, LAST};
use hier_core::graph::{Command, Task};
use hier_core::state::{ChannelWrite, Values};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredOutput {
    Content(Content),
    Messages(Vec<Message>),
    Writes(Vec<StoredWrite>),
}

#[derive(Serialize, Deserialize)]
struct StoredWrite {
    channel: String,
    overwrite: bool,
    /// The reducer rule of the channel when it was written.
    rule: String,
    #[serde(with = "serde_bytes")]
    value: Vec<u8>,
}

/// Makes a tool call and stores its output with the task, as [`Run::step`](hier_core::Run::step) does. If the task runs
/// again, returns the stored output without making the call. Failures and invalid arguments are not stored. Code that
/// `#[tool(step)]` generates calls this function.
pub async fn once<S: Values, C>(
    task: &Task<S, C>,
    call: &ToolCall,
    work: impl Future<Output = Result<ToolOutput<S>, NodeError>>,
) -> Result<ToolOutput<S>, NodeError> {
    if !task.run().stores_steps()? {
        return work.await;
    }
    let mut misfit = None;
    let stored = async {
        match redacted(task, work.await?)? {
            ToolOutput::Content(content) => Ok(StoredOutput::Content(content)),
            ToolOutput::Messages(messages) => Ok(StoredOutput::Messages(messages)),
            ToolOutput::Command(command) => pack(task.state(), call, &command),
            ToolOutput::Invalid(mistake) => {
                misfit = Some(mistake);
                Err(NodeError::permanent("the arguments do not fit"))
            }
        }
    };
    let stored = task.run().step_of(&format!("tool {}", call.name), &(&call.id, &call.args), stored).await;
    if let Some(mistake) = misfit {
        return Ok(ToolOutput::Invalid(mistake));
    }
    Ok(match stored? {
        StoredOutput::Content(content) => ToolOutput::Content(content),
        StoredOutput::Messages(messages) => ToolOutput::Messages(messages),
        StoredOutput::Writes(writes) => ToolOutput::Command(unpack(task, writes)?),
    })
}

/// Removes secrets from a tool's output before it is recorded.
fn redacted<S: Values, C>(task: &Task<S, C>, output: ToolOutput<S>) -> Result<ToolOutput<S>, NodeError> {
    let Some(redactor) = Redactor::present() else { return Ok(output) };
    Ok(match output {
        ToolOutput::Content(mut content) => {
            redactor.content(&mut content);
            ToolOutput::Content(content)
        }
        ToolOutput::Messages(mut messages) => {
            for message in &mut messages {
                redactor.message(message);
            }
            ToolOutput::Messages(messages)
        }
        ToolOutput::Command(command) => ToolOutput::Command(redactor.command(task.state(), Ok(command))?),
        ToolOutput::Invalid(mistake) => ToolOutput::Invalid(mistake),
    })
}

fn pack<S: Values>(state: &S, call: &ToolCall, command: &Command<S>) -> Result<StoredOutput, NodeError> {
    if command.has_targets() || command.is_for_parent() {
        return Err(NodeError::permanent(format!(
            "the tool `{}` is a step and returned a command with a target, which cannot be recorded: return an update, or \
             remove `step`",
            call.name
        )));
    }
    let mut writes = Vec::with_capacity(command.writes.len());
    for write in &command.writes {
        let Some(stored) = write.stored() else { continue };
        let mut value = Vec::new();
        stored.encode(&mut value)?;
        let rule = state.channel(write.channel()).map_or(LAST, ChannelSpec::rule).to_owned();
        writes.push(StoredWrite { channel: write.name().to_owned(), overwrite: write.is_overwrite(), rule, value });
    }
    Ok(StoredOutput::Writes(writes))
}

fn unpack<S: Values, C>(task: &Task<S, C>, stored: Vec<StoredWrite>) -> Result<Command<S>, NodeError> {
    let (state, mut command) = (task.state(), Command::new());
    for StoredWrite { channel, overwrite, rule, value } in stored {
        let mut channels = (0..).map_while(|index| Some((index, state.channel(index)?)));
        let (index, spec) = channels.find(|(_, spec)| spec.name == *channel).ok_or_else(|| {
            NodeError::permanent(format!(
                "a recorded step of a tool writes the channel `{channel}`, which the state no longer has: restore the channel \
                 until the thread has finished its superstep"
            ))
        })?;
        let overwrite = spec.replaces(&rule, overwrite).ok_or_else(|| {
            NodeError::permanent(format!(
                "a recorded step of a tool writes the channel `{channel}` for the reducer `{rule}`, but the channel now has `{}`: restore \
                 `{rule}` until the thread has finished its superstep",
                spec.rule()
            ))
        })?;
        command.writes.push(state.write_from(index, overwrite, &value)?);
    }
    Ok(command)
}
