use std::sync::{Arc, Mutex};

use super::Run;
use super::numbers::{CallNumbers, CallScope};
use crate::error::NodeError;
use crate::sync::lock;

/// A call that its caller may repeat, such as a tool call with retries. The steps and questions of a repeated call have
/// the same numbers as in the call that failed or was dropped. The repeated call therefore finds the stored results and
/// answers.
#[derive(Default)]
pub struct Repeat(Mutex<Option<Arc<CallNumbers>>>);

/// Keeps the numbers of a call for the next call, unless the call succeeds.
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
            Arc::new(CallNumbers::of_call(outer))
        });
        numbers.rewind();
        let mut open = OpenCall { repeat: self, numbers: Some(numbers.clone()) };
        let step = around.and_then(|around| around.step);
        let result = CallScope { log: home.steps, step, numbers }.run_work(work).await;
        if result.is_ok() {
            open.numbers = None;
        }
        result
    }
}
