use std::collections::HashMap;
use std::fmt;

use hier_agents::{Message, ToolCall, Usage};
use hier_core::{Outcome, Question, RunError};
use serde_json::Value;

/// The record of a run of a [`Session`](super::Session). If an assertion of an `assert_…` method fails, the method
/// panics with a message that describes the whole run. Most of these methods return the trace, so that you can chain
/// them. For other assertions, use the fields.
#[derive(Debug)]
#[non_exhaustive]
pub struct Trace<O> {
    /// The outcome of the run, or the error with which it failed.
    pub result: Result<Outcome<O>, RunError>,
    /// The tasks of the graph and its subgraphs, in the order of their starts.
    pub tasks: Vec<TracedTask>,
    /// The replies of models, in the order in which the session received them.
    pub answers: Vec<TracedAnswer>,
    /// The questions that the run asked people, each with the operator's answer. The answer is `None` if the operator
    /// did not answer.
    pub questions: Vec<(Question, Option<Value>)>,
    /// The number of events that the trace lacks because the stream dropped them. If it is not 0, the lists are
    /// incomplete, and assertions about them fail.
    pub lost: usize,
}

/// A task that ran.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracedTask {
    /// The nodes whose subgraphs contain the task, outermost first. Empty in the root graph.
    pub path: Vec<String>,
    /// The name of the node.
    pub node: String,
    /// The number of the superstep in which the task ran, in the graph of the task.
    pub step: i64,
    /// The writes of the task, by channel. `None` if the task has not ended.
    pub writes: Option<Value>,
    /// The error of the task. `None` if the task has not failed.
    pub error: Option<String>,
    /// True if the task asked a question, or waited for a time or a signal, and therefore did not complete. After the
    /// answer or the wait, the node runs as a new task, which is another entry of [`Trace::tasks`].
    pub waits: bool,
}

impl TracedTask {
    /// Returns true if the task completed: it ended without an error and does not wait.
    pub fn is_done(&self) -> bool {
        self.writes.is_some() && self.error.is_none() && !self.waits
    }
}

/// A reply of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracedAnswer {
    /// The nodes whose subgraphs contain the agent, outermost first. Empty if the agent is the root graph.
    pub path: Vec<String>,
    /// The name of the graph that called the model.
    pub agent: String,
    /// The name of the node that called the model.
    pub node: String,
    /// The reply.
    pub message: Message,
}

/// A tool call in a model's reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracedCall {
    /// The name of the graph that called the model.
    pub agent: String,
    /// The call, with its arguments and id.
    pub call: ToolCall,
    /// The text of the result that the model received. `None` if no task wrote a result, for example because the call
    /// ended the agent.
    pub result: Option<String>,
}

impl<O> Trace<O> {
    /// Returns the nodes of the root graph that completed, in the order of their starts.
    pub fn nodes(&self) -> Vec<&str> {
        let done = self.tasks.iter().filter(|task| task.path.is_empty() && task.is_done());
        done.map(|task| &*task.node).collect()
    }

    /// Returns the tool calls of models in order, each with its result.
    pub fn calls(&self) -> Vec<TracedCall> {
        let results = self.results();
        let calls =
            self.answers.iter().flat_map(|answer| answer.message.tool_calls().iter().map(move |call| (answer, call)));
        let traced = calls.map(|(answer, call)| TracedCall {
            agent: answer.agent.clone(),
            call: call.clone(),
            result: results.get(&*call.id).cloned(),
        });
        traced.collect()
    }

    /// Returns the text of each tool message that a task wrote, by call id.
    fn results(&self) -> HashMap<&str, String> {
        let writes = self.tasks.iter().filter_map(|task| task.writes.as_ref()?.as_object());
        let messages = writes.flat_map(|channels| channels.values()).filter_map(Value::as_array).flatten();
        let results = messages.filter_map(|message| {
            let id = message.get("tool_call_id")?.as_str()?;
            let message: Message = serde_json::from_value(message.clone()).ok()?;
            Some((id, message.text()))
        });
        results.collect()
    }

    /// Returns the number of model calls.
    pub fn model_calls(&self) -> usize {
        self.answers.len()
    }

    /// Returns the token usage that the models reported.
    pub fn usage(&self) -> Usage {
        let costs = self.answers.iter().filter_map(|answer| answer.message.usage());
        costs.fold(Usage::default(), |sum, cost| sum + cost)
    }
}

/// Prints the tasks, replies, questions and outcome of the run, one per line. Failed assertions print this text.
impl<O> fmt::Display for Trace<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for task in &self.tasks {
            let place: String = task.path.iter().flat_map(|node| [node, " / "]).collect();
            let end = match (&task.error, &task.writes) {
                (Some(error), _) => format!("failed: {error}"),
                (None, _) if task.waits => "waits".to_owned(),
                (None, Some(writes)) => abbreviated(&writes.to_string()),
                (None, None) => "was cut off".to_owned(),
            };
            writeln!(f, "step {:>3}  {place}{}  {end}", task.step, task.node)?;
        }
        for answer in &self.answers {
            let said = Some(answer.message.text()).filter(|text| !text.is_empty()).map(|text| format!(" {text:?}"));
            let calls = answer
                .message
                .tool_calls()
                .iter()
                .map(|call| format!(" {}{}", call.name, abbreviated(&call.args.to_string())));
            let what: String = said.into_iter().chain(calls).collect();
            writeln!(f, "model of {}:{}", answer.agent, abbreviated(&what))?;
        }
        for (question, answer) in &self.questions {
            let answer = answer.as_ref().map_or_else(|| "unanswered".to_owned(), |answer| format!("answered {answer}"));
            writeln!(f, "{} asked {}: {answer}", question.path.join(" / "), abbreviated(&question.value.to_string()))?;
        }
        if self.lost > 0 {
            writeln!(f, "{} events were lost", self.lost)?;
        }
        match &self.result {
            Ok(Outcome::Finished(_)) => write!(f, "finished"),
            Ok(Outcome::Interrupted(asked)) => write!(f, "waits for {} answers", asked.questions.len()),
            Ok(Outcome::Stopped(stopped)) => write!(f, "stopped: {}", stopped.reason),
            Err(error) => write!(f, "failed: {error}"),
        }
    }
}

fn abbreviated(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
