//! Numbers the recorded calls of a task in the order in which they begin, and tracks the step whose code makes a call.
//!
//! The n-th call of an attempt must be the n-th call of the next attempt. If a call is repeated after a failure, for
//! example by a layer, its inner calls keep their numbers. Calls in the code of a step are numbered separately.

use std::collections::HashMap;
use std::future::Future;
use std::iter;
use std::sync::{Arc, Mutex};

use super::{StepKey, StepLog};
use crate::error::NodeError;
use crate::sync::lock;

tokio::task_local! {
    /// The part of the current task that is being polled.
    static AROUND: CallScope;
}

/// A part of a task's code: a step, or a call that may be repeated.
#[derive(Clone)]
pub(super) struct CallScope {
    /// The log of the task. A task of another run may be polled inside this part.
    pub(super) log: Arc<StepLog>,
    /// The innermost step that contains the part.
    pub(super) step: Option<Arc<StepKey>>,
    pub(super) numbers: Arc<CallNumbers>,
}

impl CallScope {
    /// Returns the part that is being polled. Returns `None` if it belongs to the task of another log.
    pub(super) fn current(log: &Arc<StepLog>) -> Option<Self> {
        AROUND.try_with(|around| Arc::ptr_eq(&around.log, log).then(|| around.clone())).ok().flatten()
    }

    /// Runs the code of a step. Inner steps are numbered within this step. Its questions are numbered together with
    /// those of the task.
    pub(super) async fn run_step<T>(
        log: Arc<StepLog>,
        key: Arc<StepKey>,
        work: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<(T, Vec<String>), NodeError> {
        let outer = Self::current(&log).map(|around| around.numbers);
        let numbers = Arc::new(CallNumbers { outer, is_step: true, given: Mutex::default() });
        let result = AROUND.scope(Self { log, step: Some(key), numbers: numbers.clone() }, work).await?;
        Ok((result, numbers.questions()))
    }

    pub(super) async fn run_work<T>(self, work: impl Future<Output = T>) -> T {
        AROUND.scope(self, work).await
    }
}

/// The numbers of the calls in a part of a task's code.
pub(super) struct CallNumbers {
    /// The outer part, which also counts the calls of this part.
    outer: Option<Arc<CallNumbers>>,
    /// True if the part is the code of a step.
    is_step: bool,
    /// The numbers of calls by their keys. The number in each key is 0.
    given: Mutex<HashMap<StepKey, GivenNumbers>>,
}

#[derive(Default)]
struct GivenNumbers {
    numbers: Vec<u32>,
    /// Number of calls that have begun since the part last began.
    begun: usize,
}

impl CallNumbers {
    /// Returns the numbers for a call that may be repeated.
    pub(super) fn of_call(outer: Option<Arc<Self>>) -> Self {
        Self { outer, is_step: false, given: Mutex::default() }
    }

    /// Returns the number of a call that begins. `task` returns the next number in the whole task.
    pub(super) fn next(&self, key: &StepKey, task: &dyn Fn() -> u32) -> u32 {
        let mut given = lock(&self.given);
        let given = given.entry(key.clone()).or_default();
        if given.begun == given.numbers.len() {
            let is_own = self.is_step && key.question_identity().is_none();
            given.numbers.push(match &self.outer {
                _ if is_own => u32::try_from(given.begun).unwrap_or(u32::MAX),
                Some(outer) => outer.next(key, task),
                None => task(),
            });
        }
        given.begun += 1;
        given.numbers[given.begun - 1]
    }

    /// Returns the number of the next call with this key. Returns `None` if neither an earlier attempt of this part nor
    /// of an outer part has made that call.
    pub(super) fn peek(&self, key: &StepKey) -> Option<u32> {
        let known = lock(&self.given).get(key).and_then(|given| given.numbers.get(given.begun).copied());
        known.or_else(|| self.outer.as_ref()?.peek(key))
    }

    /// Returns the identities of the questions that this part has asked, sorted.
    fn questions(&self) -> Vec<String> {
        let given = lock(&self.given);
        let asked = given.iter().filter_map(|(key, given)| Some((key.question_identity()?, given.begun)));
        let mut asked: Vec<String> =
            asked.flat_map(|(identity, begun)| iter::repeat_n(identity.to_owned(), begun)).collect();
        asked.sort_unstable();
        asked
    }

    /// Restarts the numbering, because the part begins again.
    pub(super) fn rewind(&self) {
        lock(&self.given).values_mut().for_each(|given| given.begun = 0);
    }
}
