//! The earlier progress of a task: its answers, questions and steps.
//!
//! An answer belongs to the question with the same identity, which is the hash of the question's key or value. A number
//! is only the place where an answer is stored, because concurrent questions may be asked in another order in each
//! attempt.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use uuid::Uuid;

use super::StepLog;
use crate::question::{Asker, Question};
use crate::sync::lock;

#[derive(Debug, Default)]
pub(crate) struct TaskResume {
    /// The id and the place under which the task has stored records. None if it has stored no records.
    pub(crate) known: Option<(Uuid, Arc<str>)>,
    pub(crate) answers: Vec<TaskAnswer>,
    /// An answer for the first task of this superstep that asks. Present only if no question was open when the answer
    /// arrived.
    pub(crate) unaddressed: Option<Arc<UnaddressedAnswer>>,
    pub(crate) free_slot: i32,
    /// The failure that the error handler must handle.
    pub(crate) failure: Option<String>,
    /// If set, the results in lower slots are void, because they could not be applied.
    pub(crate) void: Option<i32>,
    /// True if the task runs without its earlier results. It only keeps its id and its slots.
    pub(crate) is_afresh: bool,
    pub(crate) questions: Vec<Question>,
    pub(crate) steps: Arc<StepLog>,
    /// The numbers that this attempt has given to its questions.
    pub(crate) places: Mutex<QuestionNumbers>,
    /// The answer for the first task that asks. Set if this task has taken it.
    pub(crate) taken: OnceLock<TaskAnswer>,
}

impl TaskResume {
    /// Returns true if the task has asked a question or can receive an answer.
    pub(crate) fn is_about_answers(&self) -> bool {
        !self.answers.is_empty() || !self.questions.is_empty() || self.unaddressed.is_some()
    }

    fn answers(&self) -> impl Iterator<Item = &TaskAnswer> {
        self.answers.iter().chain(self.taken.get())
    }

    /// Returns the number of the n-th question with this identity. If an answer or an earlier question has the same
    /// identity, returns its number.
    ///
    /// Otherwise, the question may be an earlier question whose value has changed. This applies to a question without a
    /// key. If exactly one other earlier question without a key is left and it is unanswered, the question takes that
    /// number. In all other cases, returns the first free number.
    pub(super) fn place(&self, identity: &str, nth: u32, has_key: bool) -> usize {
        let places = &mut *lock(&self.places);
        *places.of.entry((identity.to_owned(), nth)).or_insert_with(|| {
            let answered: Vec<(usize, &str)> =
                self.answers().map(|answer| (answer.number, &*answer.identity)).collect();
            let asked = self.asked_questions().map(|asker| (asker.number, &*asker.identity));
            let known: Vec<(usize, &str)> = answered.iter().copied().chain(asked).collect();
            let left = known.iter().filter(|(number, _)| !places.used.contains(number));
            let equal = left.clone().find(|(_, of)| *of == identity);
            let keyed: Vec<usize> =
                self.asked_questions().filter(|asker| asker.has_key).map(|asker| asker.number).collect();
            let mut unkeyed = left.filter(|(number, _)| !keyed.contains(number));
            let changed = || match (unkeyed.next(), unkeyed.next()) {
                (Some((number, _)), None) if !has_key && answered.iter().all(|(other, _)| other != number) => {
                    Some(*number)
                }
                _ => None,
            };
            let is_free =
                |number: &usize| !places.used.contains(number) && known.iter().all(|(other, _)| other != number);
            // At least one of these numbers is free.
            let most = places.used.len() + known.len();
            let new = || (0..most).find(is_free).unwrap_or(most);
            let number = equal.map(|(number, _)| *number).or_else(changed).unwrap_or_else(new);
            places.used.insert(number);
            number
        })
    }

    /// Returns the earlier questions of this task. Leaves out the questions of its subgraphs.
    fn asked_questions(&self) -> impl Iterator<Item = &Asker> {
        let task = self.known.as_ref().map(|(task, _)| *task);
        let askers = self.questions.iter().filter_map(|question| question.asker.as_ref());
        askers.filter(move |asker| Some(asker.task) == task)
    }

    /// Returns the answer to the question with this number and identity. Returns the unaddressed answer if `fits`
    /// returns true for it.
    pub(super) fn answer(&self, number: usize, identity: &str, fits: impl FnOnce(&Value) -> bool) -> Option<Value> {
        let own = self.answers().find(|answer| answer.number == number && answer.identity == identity);
        own.map(|answer| answer.value.clone()).or_else(|| self.take_unaddressed(number, identity, fits))
    }

    /// Returns true if an answer belongs to the n-th question with this identity. The unaddressed answer does not
    /// count.
    pub(super) fn has_answer(&self, identity: &str, nth: u32) -> bool {
        let places = lock(&self.places);
        let place = places.of.get(&(identity.to_owned(), nth));
        self.answers().any(|answer| {
            let is_next = || !places.used.contains(&answer.number);
            answer.identity == identity && place.map_or_else(is_next, |place| *place == answer.number)
        })
    }

    /// Takes the answer for the first task that asks, if neither this task nor another task has taken it.
    fn take_unaddressed(&self, number: usize, identity: &str, fits: impl FnOnce(&Value) -> bool) -> Option<Value> {
        if self.taken.get().is_some() {
            return None;
        }
        let value = self.unaddressed.as_ref()?.take_if(fits)?;
        let identity = identity.to_owned();
        Some(self.taken.get_or_init(|| TaskAnswer { number, identity, value }).value.clone())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TaskAnswer {
    pub(crate) number: usize,
    pub(crate) identity: String,
    pub(crate) value: Value,
}

#[derive(Debug, Default)]
pub(crate) struct QuestionNumbers {
    /// The numbers of the questions, by their identity and their place among the questions with that identity.
    of: HashMap<(String, u32), usize>,
    used: HashSet<usize>,
}

/// An answer for the first task that asks, in this graph or a subgraph.
#[derive(Debug)]
pub(crate) struct UnaddressedAnswer {
    answer: Mutex<Option<Value>>,
    /// The namespace in which the answer is stored until a task takes it.
    pub(crate) namespace: Arc<str>,
    pub(crate) checkpoint: Uuid,
}

impl UnaddressedAnswer {
    pub(crate) fn new(answer: Value, namespace: Arc<str>, checkpoint: Uuid) -> Self {
        Self { answer: Mutex::new(Some(answer)), namespace, checkpoint }
    }

    /// Takes the answer if no task has taken it and `fits` returns true for it.
    fn take_if(&self, fits: impl FnOnce(&Value) -> bool) -> Option<Value> {
        lock(&self.answer).take_if(|answer| fits(answer))
    }

    /// Returns true if no task has taken the answer yet.
    pub(crate) fn waits(&self) -> bool {
        lock(&self.answer).is_some()
    }
}
