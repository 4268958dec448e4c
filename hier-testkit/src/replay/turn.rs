//! The turns of a stored thread.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hier_core::checkpoint::{
    AnswerRecord, Checkpointer, CodecError, ListQuery, SaverError, Source, TaskWrites, codec, slot,
};
use hier_core::state::Values;
use hier_core::{Question, StateSnapshot};
use serde_json::Value;
use uuid::Uuid;

/// A turn of a stored thread: what came of one input.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredTurn<S: Values> {
    /// The thread.
    pub thread: String,
    /// Which of its turns, from 0.
    pub turn: usize,
    /// The state before the input.
    pub before: S,
    /// The thread at each of the turn's checkpoints, oldest first. The first has the input.
    pub states: Vec<StateSnapshot<S>>,
}

impl<S: Values> StoredTurn<S> {
    /// The state at the end of the turn.
    pub fn after(&self) -> &S {
        self.states.last().map_or(&self.before, |last| &last.values)
    }

    /// Whether it was changed from outside.
    pub(super) fn was_changed(&self) -> bool {
        self.states.iter().skip(1).any(|state| state.source != Some(Source::Loop))
    }

    /// The nodes that ran in each step, by name.
    pub(super) fn steps(&self) -> Vec<Vec<String>> {
        let done = self.states.len().saturating_sub(1);
        let steps = self.states.iter().take(done).map(|state| {
            let mut nodes: Vec<_> = state.tasks.iter().map(|task| task.node.clone()).collect();
            nodes.sort_unstable();
            nodes
        });
        steps.filter(|nodes| !nodes.is_empty()).collect()
    }
}

/// The turns of a thread, from its states, newest first: those on the way to the latest. What was left for another branch is
/// none of them, nor is what stands before the oldest input that is still stored.
pub(super) fn turns<S: Values>(thread: &str, initial: &S, states: Vec<StateSnapshot<S>>) -> Vec<StoredTurn<S>> {
    let mut wanted = states.first().and_then(|latest| latest.checkpoint);
    let mut line = Vec::new();
    for state in states {
        if wanted.is_some() && state.checkpoint == wanted {
            wanted = state.parent;
            line.push(state);
        }
    }
    let mut turns: Vec<StoredTurn<S>> = Vec::new();
    let mut before = initial.clone();
    for state in line.into_iter().rev() {
        let after = state.values.clone();
        if state.source == Some(Source::Input) {
            let (thread, turn) = (thread.to_owned(), turns.len());
            turns.push(StoredTurn { thread, turn, before: before.clone(), states: vec![state] });
        } else if let Some(turn) = turns.last_mut() {
            turn.states.push(state);
        }
        before = after;
    }
    turns
}

/// The answers that were given in a turn, by the node that asked, in the order of its questions.
pub(super) type Answers = HashMap<String, VecDeque<Value>>;

/// Reads the answers that were given at these checkpoints, and in the graphs inside.
pub(super) async fn answers(
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    checkpoints: &[Uuid],
) -> Result<Answers, SaverError> {
    let mut listed = saver.list(ListQuery { thread: Some(thread.to_owned()), ..ListQuery::default() }).await?;
    listed.sort_by_key(|listed| listed.checkpoint.id);
    let mut answers = Answers::new();
    for listed in listed {
        let root =
            if listed.namespace.is_empty() { Some(&listed.checkpoint.id) } else { listed.checkpoint.parents.get("") };
        if !root.is_some_and(|root| checkpoints.contains(root)) {
            continue;
        }
        let found = saver.get(thread, &listed.namespace, Some(listed.checkpoint.id)).await?;
        for record in found.iter().flat_map(|found| &found.writes) {
            let given = given(record).map_err(|error| SaverError::Invalid(format!("thread `{thread}`: {error}")))?;
            if let Some((node, values)) = given {
                answers.entry(node).or_default().extend(values);
            }
        }
    }
    Ok(answers)
}

/// The node of a task that was answered, and its answers.
fn given(record: &TaskWrites) -> Result<Option<(String, Vec<Value>)>, CodecError> {
    let asked = record.writes.iter().find(|write| write.slot == slot::INTERRUPT);
    let Some(asked) = asked else { return Ok(None) };
    let questions: Vec<Question> = codec::decode(&asked.value)?;
    let Some(node) = questions.first().and_then(|question| question.path.last()) else { return Ok(None) };
    // An answer that was taken back has no value.
    let answers = record.writes.iter().filter(|write| !write.value.is_empty());
    let mut answers: Vec<_> =
        answers.filter_map(|write| slot::answered(write.slot).map(|number| (number, write))).collect();
    answers.sort_by_key(|(number, _)| *number);
    let mut values = Vec::new();
    for (_, answer) in answers {
        values.push(codec::decode::<AnswerRecord>(&answer.value)?.value);
    }
    Ok(Some((node.clone(), values)))
}
