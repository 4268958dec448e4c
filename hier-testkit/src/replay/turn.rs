use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hier_core::checkpoint::{
    AnswerRecord, Checkpointer, CodecError, ListQuery, SaverError, Source, TaskWrites, codec, slot,
};
use hier_core::state::Values;
use hier_core::{Question, StateSnapshot};
use serde_json::Value;
use uuid::Uuid;

/// A turn of a stored thread. It contains an input and all runs until the next input.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredTurn<S: Values> {
    /// The id of the thread.
    pub thread: String,
    /// The index of the turn in its thread. The first turn has the index 0.
    pub turn: usize,
    /// The state before the input.
    pub before: S,
    /// The states at the turn's checkpoints, oldest first. The first one contains the input.
    pub states: Vec<StateSnapshot<S>>,
}

impl<S: Values> StoredTurn<S> {
    /// Returns the state at the end of the turn.
    pub fn after(&self) -> &S {
        self.states.last().map_or(&self.before, |last| &last.values)
    }

    /// Returns true if `update_state` or a fork changed the turn.
    pub(super) fn was_changed(&self) -> bool {
        self.states.iter().skip(1).any(|state| state.source != Some(Source::Loop))
    }

    /// Returns the nodes of each superstep, sorted by name.
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

/// Splits the states of a thread, which are sorted from newest to oldest, into turns. Omits other branches, and states
/// before the oldest stored input.
pub(super) fn turns<S: Values>(thread: &str, initial: &S, states: Vec<StateSnapshot<S>>) -> Vec<StoredTurn<S>> {
    let mut wanted = states.first().and_then(|latest| latest.checkpoint);
    let mut path = Vec::new();
    for state in states {
        if wanted.is_some() && state.checkpoint == wanted {
            wanted = state.parent;
            path.push(state);
        }
    }
    let mut turns: Vec<StoredTurn<S>> = Vec::new();
    let mut before = initial.clone();
    for state in path.into_iter().rev() {
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

/// The answers of a turn by node, in the order of its questions.
pub(super) type RecordedAnswers = HashMap<String, VecDeque<Value>>;

/// Reads the answers at these checkpoints, including those of subgraphs.
pub(super) async fn answers(
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    checkpoints: &[Uuid],
) -> Result<RecordedAnswers, SaverError> {
    let mut listed = saver.list(ListQuery { thread: Some(thread.to_owned()), ..ListQuery::default() }).await?;
    listed.sort_by_key(|listed| listed.checkpoint.id);
    let mut answers = RecordedAnswers::new();
    for listed in listed {
        let root =
            if listed.namespace.is_empty() { Some(&listed.checkpoint.id) } else { listed.checkpoint.parents.get("") };
        if !root.is_some_and(|root| checkpoints.contains(root)) {
            continue;
        }
        let found = saver.get(thread, &listed.namespace, Some(listed.checkpoint.id)).await?;
        for record in found.iter().flat_map(|found| &found.writes) {
            let answered =
                answers_of(record).map_err(|error| SaverError::Invalid(format!("thread `{thread}`: {error}")))?;
            if let Some((node, values)) = answered {
                answers.entry(node).or_default().extend(values);
            }
        }
    }
    Ok(answers)
}

/// Returns the node and the answers of an answered task.
fn answers_of(record: &TaskWrites) -> Result<Option<(String, Vec<Value>)>, CodecError> {
    let asked = record.writes.iter().find(|write| write.slot == slot::INTERRUPT);
    let Some(asked) = asked else { return Ok(None) };
    let questions: Vec<Question> = codec::decode(&asked.value)?;
    let Some(node) = questions.first().and_then(|question| question.path.last()) else { return Ok(None) };
    // A withdrawn answer has no value.
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
