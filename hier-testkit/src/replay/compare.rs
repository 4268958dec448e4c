use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hier_core::state::Values;
use hier_core::{Event, Outcome, Question};
use serde_json::{Map, Value};

use super::report::ReplayChange;
use super::turn::StoredTurn;
use crate::session::Trace;

/// Compares the nodes that ran, and how the turn ended.
pub(super) fn steps_and_end<S: Values, O>(turn: &StoredTurn<S>, now: &Trace<O>) -> Vec<ReplayChange> {
    if let Err(error) = &now.result {
        return vec![ReplayChange::Failed(error.to_string())];
    }
    let recorded = turn.steps();
    let mut by_step: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for task in now.tasks.iter().filter(|task| task.path.is_empty() && task.is_done()) {
        by_step.entry(task.step).or_default().push(task.node.clone());
    }
    let mut ran: Vec<Vec<String>> = by_step.into_values().collect();
    for nodes in &mut ran {
        nodes.sort_unstable();
    }
    let then = recorded_end(turn);
    if then.is_none() {
        // The recorded turn was cut off, so later steps are not a difference.
        ran.truncate(recorded.len());
    } else if is_waiting(now) {
        // The recorded steps do not contain the waiting step. Tasks that finished in this step of the replay do not
        // count.
        ran.truncate(recorded.len().max(steps_applied(now)));
    }
    let mut changes = Vec::new();
    let steps = recorded.len().max(ran.len());
    if let Some(step) = (0..steps).find(|step| recorded.get(*step) != ran.get(*step)) {
        let at = |steps: &[Vec<String>]| steps.get(step).cloned().unwrap_or_default();
        changes.push(ReplayChange::Nodes { step: step + 1, recorded: at(&recorded), now: at(&ran) });
    }
    if let (Some(recorded), Some(now)) = (then, replayed_end(now))
        && recorded != now
    {
        changes.push(ReplayChange::Ended { recorded, now });
    }
    changes
}

fn is_waiting<O>(trace: &Trace<O>) -> bool {
    matches!(trace.result, Ok(Outcome::Interrupted(_)))
}

/// Counts the supersteps before the one in which a task waits.
fn steps_applied<O>(trace: &Trace<O>) -> usize {
    let root = || trace.tasks.iter().filter(|task| task.path.is_empty());
    let open = root().filter(|task| task.waits).map(|task| task.step).max();
    let steps: BTreeSet<i64> =
        root().map(|task| task.step).filter(|step| open.is_none_or(|open| *step < open)).collect();
    steps.len()
}

/// Describes how the recorded turn ended. Returns `None` if a crash, a failure or a breakpoint cut it off.
fn recorded_end<S: Values>(turn: &StoredTurn<S>) -> Option<String> {
    let last = turn.states.last()?;
    if last.next.is_empty() {
        return Some("finished".to_owned());
    }
    let open: Vec<&Question> = last.questions.iter().filter(|question| !question.answered).collect();
    (!open.is_empty()).then(|| waits_for(&open))
}

fn replayed_end<O>(trace: &Trace<O>) -> Option<String> {
    match trace.result.as_ref().ok()? {
        Outcome::Finished(_) => Some("finished".to_owned()),
        Outcome::Interrupted(asked) => Some(waits_for(&asked.questions.iter().collect::<Vec<_>>())),
        Outcome::Stopped(stopped) => Some(format!("stopped: {}", stopped.reason)),
    }
}

fn waits_for(questions: &[&Question]) -> String {
    let mut asked: Vec<String> = questions.iter().map(|question| question.value.to_string()).collect();
    asked.sort_unstable();
    format!("waits for an answer to {}", asked.join(", "))
}

/// Returns the channels whose values differ, except the ignored channels.
pub(super) fn channels<S: Values>(
    recorded: &S,
    now: &S,
    ignored: &[String],
) -> Result<Vec<ReplayChange>, serde_json::Error> {
    let (mut recorded, mut now) = (values(recorded)?, values(now)?);
    let names: BTreeSet<String> =
        recorded.keys().chain(now.keys()).filter(|name| !ignored.contains(name)).cloned().collect();
    let mut changes = Vec::new();
    for name in names {
        let (recorded, now) = (recorded.remove(&name), now.remove(&name));
        if recorded != now {
            changes.push(ReplayChange::Channel { name, recorded, now });
        }
    }
    Ok(changes)
}

/// Returns the values of the channels without message ids.
fn values<S: Values>(state: &S) -> Result<Map<String, Value>, serde_json::Error> {
    let mut data = Event::Values(Arc::new(state.clone())).data()?;
    forget_ids(&mut data);
    Ok(match data {
        Value::Object(channels) => channels,
        _ => Map::new(),
    })
}

fn forget_ids(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("role") {
                fields.remove("id");
            }
            fields.values_mut().for_each(forget_ids);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_ids),
        _ => {}
    }
}
