//! Builds a trace from the events of a run.

use std::collections::HashMap;

use hier_agents::ChatChunk;
use hier_core::runs::{LogEvent, TaskEvent, TaskPhase};
use hier_core::state::Values;
use hier_core::{Event, MessageChunk, Outcome, Question, RunError, StreamMode};
use serde_json::Value;
use uuid::Uuid;

use super::trace::{Trace, TracedAnswer, TracedTask};

#[derive(Default)]
pub(super) struct Recorder {
    tasks: Vec<TracedTask>,
    /// The indices of tasks that have not ended.
    open: HashMap<Uuid, usize>,
    answers: Vec<TracedAnswer>,
    questions: Vec<(Question, Option<Value>)>,
    lost: usize,
}

impl Recorder {
    pub(super) const MODES: [StreamMode; 2] = [StreamMode::Debug, StreamMode::Messages];

    pub(super) fn record_event<S: Values>(&mut self, event: &Event<S>) {
        match event {
            Event::Debug(debug) => self.record_task(&[], &debug.task),
            Event::Nested(nested) => {
                if let LogEvent::Debug { task, .. } = &nested.event {
                    self.record_task(&nested.namespace, task);
                }
            }
            Event::Message(chunk) => self.record_answer(chunk),
            Event::Lagged(lost) => self.lost += lost,
            _ => {}
        }
    }

    fn record_task(&mut self, namespace: &[String], task: &TaskEvent) {
        match &task.phase {
            TaskPhase::Started { .. } => {
                // A namespace segment is `node:task id`.
                let path = namespace.iter().map(|level| level.split(':').next().unwrap_or(level).to_owned()).collect();
                let (node, step) = (task.node.clone(), task.step);
                self.open.insert(task.id, self.tasks.len());
                self.tasks.push(TracedTask { path, node, step, writes: None, error: None, waits: false });
            }
            TaskPhase::Finished { result, error, interrupts } => {
                // If an error handler takes over, the task ends twice: with the error, and with the handler's result.
                if let Some(traced) = self.open.get(&task.id).and_then(|place| self.tasks.get_mut(*place)) {
                    traced.writes = Some(result.clone());
                    traced.error.clone_from(error);
                    traced.waits = !interrupts.is_empty();
                }
            }
        }
    }

    fn record_answer(&mut self, chunk: &MessageChunk) {
        let ChatChunk::Done(response) = &chunk.chunk else { return };
        self.answers.push(TracedAnswer {
            path: chunk.path.clone(),
            agent: chunk.agent.clone(),
            node: chunk.node.clone(),
            message: response.message.clone(),
        });
    }

    /// Records a question to a person. If the run asks an unanswered question again, the record still contains the
    /// question once.
    pub(super) fn record_question(&mut self, question: &Question, answer: Option<Value>) {
        match self.questions.iter_mut().find(|(known, answer)| known.id == question.id && answer.is_none()) {
            Some((_, known)) => *known = answer,
            None => self.questions.push((question.clone(), answer)),
        }
    }

    pub(super) fn finish<O>(self, result: Result<Outcome<O>, RunError>) -> Trace<O> {
        let Self { tasks, answers, questions, lost, .. } = self;
        Trace { result, tasks, answers, questions, lost }
    }
}
