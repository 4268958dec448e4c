use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{Run, StepHome, StepKey};
use crate::error::{NodeError, NodeErrorKind};
use crate::question::QuestionKind;

impl<C> Run<C> {
    /// Waits until this time, even if the process ends in between.
    ///
    /// The first call stores the time with the task, like the result of a [step](Run::step). If the task runs again, it
    /// waits only for the rest of the time.
    ///
    /// * For a wait of up to [`Config::sleep_in_place`](crate::Config::sleep_in_place) (10 seconds by default), the run
    ///   keeps running. The wait counts towards the node's `timeout`, but not towards its `idle_timeout`.
    /// * For a longer wait, the call returns an error, which the node must return with `?`. The run then stops with an
    ///   [`Outcome::Interrupted`](crate::Outcome::Interrupted) and a question of the kind
    ///   [`QuestionKind::Timer`](crate::QuestionKind::Timer). When the time has come, a
    ///   [sweeper](crate::graph::CompiledGraph::sweeper) or a run with the input `()` continues the thread.
    ///
    /// A sleep never ends early, but may end late. If a task sleeps several times, the engine numbers the sleeps in the
    /// order in which they begin. When the task runs again, it must begin its sleeps in the same order, because the
    /// n-th sleep uses the n-th stored time. Without a checkpointer, the run keeps running for a wait of any length.
    ///
    /// # Errors
    ///
    /// Fails if the wait is longer than `sleep_in_place` and the saver does not support timers.
    pub async fn sleep_until(&self, time: SystemTime) -> Result<(), NodeError> {
        let Some(home) = self.step_home()? else { return self.wait_until(time).await };
        let key = home.begin_own("", "sleep");
        let mut question = self.waiting(&key, json!("sleep"));
        let left = time.duration_since(self.shared.config.now()).unwrap_or_default();
        let in_place = Some(time).filter(|_| !left.is_zero() && left <= self.shared.config.sleep_in_place);
        let due = self.recorded_time(&home, key, time, in_place).await?;
        let left = due.duration_since(self.shared.config.now()).unwrap_or_default();
        if left <= self.shared.config.sleep_in_place {
            return self.wait_until(due).await;
        }
        (question.kind, question.due) = (QuestionKind::Timer, Some(due));
        Err(NodeError::from_kind(NodeErrorKind::Interrupt(vec![question]), false))
    }

    /// Waits for this duration. See [`Run::sleep_until`].
    pub async fn sleep(&self, duration: Duration) -> Result<(), NodeError> {
        let time = self.shared.config.now().checked_add(duration);
        let too_long = || NodeError::permanent("the duration of a sleep is too long: choose a shorter one");
        self.sleep_until(time.ok_or_else(too_long)?).await
    }

    /// Returns the recorded time of this call. If no time was recorded, records this time, rounded up to milliseconds.
    /// With `in_place`, the task then waits in place until that time.
    pub(super) async fn recorded_time(
        &self,
        home: &StepHome,
        key: StepKey,
        time: SystemTime,
        in_place: Option<SystemTime>,
    ) -> Result<SystemTime, NodeError> {
        let millis = if let Some(found) = home.find(&key) {
            self.recorded_result::<u64>(home, &found).await?
        } else {
            let millis = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().div_ceil(1_000_000);
            self.record_until(home, key, u64::try_from(millis).unwrap_or(u64::MAX), Vec::new(), in_place).await?
        };
        Ok(UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(time))
    }

    async fn wait_until(&self, time: SystemTime) -> Result<(), NodeError> {
        let left = time.duration_since(self.shared.config.now()).unwrap_or_default();
        self.pause(left).await;
        Ok(())
    }

    /// Waits for this duration, and calls [`Run::heartbeat`] often enough that the `idle_timeout` does not end the
    /// wait. Does not store the time, so a repeated call waits again.
    #[doc(hidden)]
    pub async fn pause(&self, mut left: Duration) {
        while !left.is_zero() {
            self.heartbeat();
            let interval = self.any_heartbeat().map_or(Duration::MAX, |heartbeat| heartbeat.interval());
            let wait = left.min(interval);
            tokio::time::sleep(wait).await;
            left = left.saturating_sub(wait);
        }
    }
}
