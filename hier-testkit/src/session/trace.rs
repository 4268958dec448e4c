//! What a run did.

use std::collections::HashMap;
use std::fmt;

use hier_agents::{Message, ToolCall, Usage};
use hier_core::{Outcome, Question, RunError};
use serde_json::Value;

/// What a run of a [`Session`](super::Session) did, and how it ended.
///
/// The lists are for assertions of one's own; the `assert_…` methods say with their message all that happened. They can be
/// chained.
#[derive(Debug)]
#[non_exhaustive]
pub struct Trace<O> {
    /// How the run ended, or why it failed.
    pub result: Result<Outcome<O>, RunError>,
    /// What ran, in the order in which it began: in the graph and in the graphs inside it.
    pub tasks: Vec<TracedTask>,
    /// What models answered, in order.
    pub answers: Vec<TracedAnswer>,
    /// What was asked of a person, and what the operator answered; none if it did not.
    pub questions: Vec<(Question, Option<Value>)>,
    /// How many events were dropped since the run was faster than this: then the lists lack something, and assertions fail.
    pub lost: usize,
}

/// A task that ran.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracedTask {
    /// The graphs inside the root in which it ran, by their nodes; empty for the root's.
    pub path: Vec<String>,
    /// The node.
    pub node: String,
    /// The superstep of its graph.
    pub step: i64,
    /// Its writes by channel, as JSON; none if it has not ended.
    pub writes: Option<Value>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// Whether it asked somebody or waited: then it runs again.
    pub waits: bool,
}

impl TracedTask {
    /// Whether it ended without an error and without a question.
    pub fn is_done(&self) -> bool {
        self.writes.is_some() && self.error.is_none() && !self.waits
    }
}

/// An answer of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracedAnswer {
    /// The agents above it, by their nodes; empty for the root.
    pub path: Vec<String>,
    /// The graph whose node asked.
    pub agent: String,
    /// The node that asked.
    pub node: String,
    /// The answer.
    pub message: Message,
}

/// A call of a tool that a model wanted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracedCall {
    /// The graph whose model wanted it.
    pub agent: String,
    /// The name, the arguments, the id.
    pub call: ToolCall,
    /// The text that the model was given as the result; none if there was none, as of a call by which an agent ends.
    pub result: Option<String>,
}

impl<O> Trace<O> {
    /// The nodes of the root graph that were done, in order; within a superstep in the order in which they began.
    pub fn nodes(&self) -> Vec<&str> {
        let done = self.tasks.iter().filter(|task| task.path.is_empty() && task.is_done());
        done.map(|task| &*task.node).collect()
    }

    /// The calls of tools that models wanted, in order, with their results.
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

    /// The results of calls, by their ids: the messages of tools that tasks wrote.
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

    /// How often models answered.
    pub fn model_calls(&self) -> usize {
        self.answers.len()
    }

    /// What the models' answers cost, as far as they say so.
    pub fn usage(&self) -> Usage {
        let costs = self.answers.iter().filter_map(|answer| answer.message.usage());
        costs.fold(Usage::default(), |sum, cost| sum + cost)
    }
}

/// The run, line by line: for those who look at a test that fails.
impl<O> fmt::Display for Trace<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for task in &self.tasks {
            let place: String = task.path.iter().flat_map(|node| [node, " / "]).collect();
            let end = match (&task.error, &task.writes) {
                (Some(error), _) => format!("failed: {error}"),
                (None, _) if task.waits => "waits".to_owned(),
                (None, Some(writes)) => short(&writes.to_string()),
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
                .map(|call| format!(" {}{}", call.name, short(&call.args.to_string())));
            let what: String = said.into_iter().chain(calls).collect();
            writeln!(f, "model of {}:{}", answer.agent, short(&what))?;
        }
        for (question, answer) in &self.questions {
            let answer =
                answer.as_ref().map_or_else(|| "nobody answered".to_owned(), |answer| format!("answered {answer}"));
            writeln!(f, "{} asked {}: {answer}", question.path.join(" / "), short(&question.value.to_string()))?;
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

/// The beginning of a text.
fn short(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
