//! CallNumbers the recorded calls of a task in the order in which they begin, and tracks the step whose code makes a call.
//!
//! The n-th call of an attempt must be the n-th of the next one. If something is called again after a failure (a retried tool, a layer
//! that passes a call on again), its calls keep their numbers. Calls in the code of a step are numbered separately.

use std::collections::HashMap;
use std::future::Future;
use std::iter;
use std::sync::{Arc, Mutex};

use super::{Run, StepKey, StepLog};
use crate::error::NodeError;
use crate::sync::lock;

tokio::task_local! {
    /// The part of a task that is being polled.
    static AROUND: CallScope;
}

/// A part of a task's code: a step, or a call that may be repeated.
#[derive(Clone)]
pub(super) struct CallScope {
    /// The task, by its log: another run may be polled in the same place.
    log: Arc<StepLog>,
    /// The innermost step.
    pub(super) step: Option<Arc<StepKey>>,
    pub(super) numbers: Arc<CallNumbers>,
}

impl CallScope {
    /// Returns the part that is being polled, if it belongs to the task of this log.
    pub(super) fn current(log: &Arc<StepLog>) -> Option<Self> {
        AROUND.try_with(|around| Arc::ptr_eq(&around.log, log).then(|| around.clone())).ok().flatten()
    }

    /// Runs the code of a step. Steps in it are numbered by themselves, questions with those of the task.
    pub(super) async fn step<T>(
        log: Arc<StepLog>,
        key: Arc<StepKey>,
        work: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<(T, Vec<String>), NodeError> {
        let outer = Self::current(&log).map(|around| around.numbers);
        let numbers = Arc::new(CallNumbers { outer, is_step: true, given: Mutex::default() });
        let result = AROUND.scope(Self { log, step: Some(key), numbers: numbers.clone() }, work).await?;
        Ok((result, numbers.questions()))
    }
}

/// The numbers that the calls in a part of a task's code were given.
pub(super) struct CallNumbers {
    /// The part around this one, which notes the numbers too.
    outer: Option<Arc<CallNumbers>>,
    /// True if the part is the code of a step.
    is_step: bool,
    /// By the key of a call, with number 0.
    given: Mutex<HashMap<StepKey, GivenNumbers>>,
}

#[derive(Default)]
struct GivenNumbers {
    numbers: Vec<u32>,
    /// Number of calls that have begun since the part last began.
    begun: usize,
}

impl CallNumbers {
    /// The number of a call that begins. `task` numbers calls of the whole task.
    pub(super) fn next(&self, key: &StepKey, task: &dyn Fn() -> u32) -> u32 {
        let mut given = lock(&self.given);
        let given = given.entry(key.clone()).or_default();
        if given.begun == given.numbers.len() {
            let is_own = self.is_step && key.asked().is_none();
            given.numbers.push(match &self.outer {
                _ if is_own => u32::try_from(given.begun).unwrap_or(u32::MAX),
                Some(outer) => outer.next(key, task),
                None => task(),
            });
        }
        given.begun += 1;
        given.numbers[given.begun - 1]
    }

    /// The number of the next call with this key, if an earlier attempt of this part has made it.
    pub(super) fn peek(&self, key: &StepKey) -> Option<u32> {
        let known = lock(&self.given).get(key).and_then(|given| given.numbers.get(given.begun).copied());
        known.or_else(|| self.outer.as_ref()?.peek(key))
    }

    /// Returns the identities of the questions that have been asked.
    fn questions(&self) -> Vec<String> {
        let given = lock(&self.given);
        let asked = given.iter().filter_map(|(key, given)| Some((key.asked()?, given.begun)));
        let mut asked: Vec<String> =
            asked.flat_map(|(identity, begun)| iter::repeat_n(identity.to_owned(), begun)).collect();
        asked.sort_unstable();
        asked
    }

    /// The part begins again.
    fn rewind(&self) {
        lock(&self.given).values_mut().for_each(|given| given.begun = 0);
    }
}

/// Something that may be called several times. After a call that failed or was dropped, the next one repeats it: its steps and questions
/// keep their numbers, and so their results and answers.
#[derive(Default)]
pub struct Repeat(Mutex<Option<Arc<CallNumbers>>>);

/// A call that has not succeeded yet.
struct OpenCall<'a> {
    repeat: &'a Repeat,
    numbers: Option<Arc<CallNumbers>>,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if let Some(numbers) = self.numbers.take() {
            *lock(&self.repeat.0) = Some(numbers);
        }
    }
}

impl Repeat {
    #[doc(hidden)]
    pub async fn call<T, C>(
        &self,
        run: &Run<C>,
        work: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        // Code that enters or leaves a graph has neither steps nor questions.
        let Some(home) = run.home().ok().flatten() else { return work.await };
        let around = CallScope::current(&home.steps);
        let failed = lock(&self.0).take();
        let numbers = failed.unwrap_or_else(|| {
            let outer = around.as_ref().map(|around| around.numbers.clone());
            Arc::new(CallNumbers { outer, is_step: false, given: Mutex::default() })
        });
        numbers.rewind();
        let mut open = OpenCall { repeat: self, numbers: Some(numbers.clone()) };
        let step = around.and_then(|around| around.step);
        let result = AROUND.scope(CallScope { log: home.steps, step, numbers }, work).await;
        if result.is_ok() {
            open.numbers = None;
        }
        result
    }
}
