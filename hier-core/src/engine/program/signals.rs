//! Signals: messages that a task waits for, from a client or another graph.

use std::any::{Any, type_name};
use std::fmt;
use std::future::IntoFuture;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use futures_core::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::step_home::unsaved;
use super::step_log::StepRecord;
use super::{Run, StepHome, StepKey};
use crate::checkpoint::codec;
use crate::error::{NodeError, NodeErrorKind};
use crate::question::QuestionKind;

/// A pending signal, returned by [`Run::signal`]. Await it.
#[must_use = "nothing is waited for before this is awaited"]
pub struct SignalWait<'a, T, C = ()> {
    run: &'a Run<C>,
    name: String,
    until: Option<(SystemTime, T)>,
}

impl<T, C> fmt::Debug for SignalWait<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let due = self.until.as_ref().map(|(due, _)| due);
        f.debug_struct("SignalWait").field("name", &self.name).field("due", &due).finish_non_exhaustive()
    }
}

impl<T, C> SignalWait<'_, T, C> {
    /// Sets a deadline and a default: if no signal has arrived by then, the task receives the value. The task continues when the thread is next
    /// driven: by a [sweeper](crate::graph::CompiledGraph::sweeper), or by a run with `()`. A signal that arrives before the thread is
    /// driven counts. A later signal stays in the inbox for the next call. The deadline is recorded with the task at the first attempt
    /// and does not move.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use hier_core::prelude::*;
    /// async fn paid(run: &Run) -> hier_core::Result<bool> {
    ///     let tomorrow = SystemTime::now() + Duration::from_hours(24);
    ///     run.signal("paid").until(tomorrow, false).await
    /// }
    /// # let _ = paid;
    /// ```
    ///
    /// A saver without timers rejects the deadline.
    pub fn until(mut self, time: SystemTime, default: T) -> Self {
        self.until = Some((time, default));
        self
    }
}

impl<'a, T, C> IntoFuture for SignalWait<'a, T, C>
where
    T: Serialize + DeserializeOwned + Send + 'a,
    C: Send + Sync,
{
    type Output = Result<T, NodeError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}

impl<T, C> SignalWait<'_, T, C>
where
    T: Serialize + DeserializeOwned,
{
    async fn wait(self) -> Result<T, NodeError> {
        let Self { run, name, until } = self;
        let Some(home) = run.step_home()? else {
            return Err(NodeError::permanent(format!(
                "graph `{}` has no checkpointer, so it cannot receive the signal `{name}`: give it one with `.checkpointer(…)`",
                run.graph()
            )));
        };
        let (key, until_key) = (home.begin_own(&name, StepKey::SIGNAL), home.begin_own(&name, "until"));
        if let Some(found) = home.find(&key) {
            // The result of a signal must not be cached.
            run.note_answer();
            return run.recorded_result(&home, &found).await;
        }
        if let Some(value) = run.take_signal(&home, &key, &name).await? {
            return Ok(value);
        }
        let mut question = run.waiting(&key, json!({ "signal": name }));
        question.kind = QuestionKind::Signal(name.into());
        if let Some((time, default)) = until {
            let due = run.recorded_time(&home, until_key, time, None).await?;
            if due <= run.shared.config.now() {
                return run.record(&home, key, default, Vec::new()).await;
            }
            (question.due, question.default) = (Some(due), Some(codec::to_json(&default)?));
        }
        Err(NodeError::from_kind(NodeErrorKind::Interrupt(vec![question]), false))
    }
}

impl<C> Run<C> {
    /// Waits for a signal with this name, sent by [`CompiledGraph::send`](crate::graph::CompiledGraph::send).
    ///
    /// Signals wait in the inbox of the thread, even if they arrive before this call. The call takes the first signal of this name and
    /// records it with the task in the same commit. No other task gets it, and this task gets it again whenever it runs again. If no
    /// signal has arrived, the run stops with [`Outcome::Interrupted`](crate::Outcome::Interrupted) and a question of the kind
    /// [`QuestionKind::Signal`](crate::QuestionKind::Signal). The node must return the error (`?`). The thread continues when the signal
    /// has arrived and the thread is driven. To limit the wait, use [`SignalWait::until`].
    ///
    /// A signal that is not a `T` is an error and stays in the inbox. Needs a checkpointer with inboxes.
    pub fn signal<T>(&self, name: &str) -> SignalWait<'_, T, C>
    where
        T: Serialize + DeserializeOwned,
    {
        SignalWait { run: self, name: name.to_owned(), until: None }
    }

    /// Takes the first signal with this name from the thread's inbox.
    async fn take_signal<T>(&self, home: &StepHome, key: &StepKey, name: &str) -> Result<Option<T>, NodeError>
    where
        T: Serialize + DeserializeOwned,
    {
        let Some(log) = home.log() else { return Ok(None) };
        let committer = &log.committer;
        let mut inbox = committer.signals.lock().await;
        if inbox.first(name).is_none() {
            inbox.read(committer.mail().await.map_err(unsaved)?);
        }
        let Some(letter) = inbox.first(name) else { return Ok(None) };
        let value = codec::decode(&letter.value).map_err(|error| {
            let (node, of) = (self.node(), type_name::<T>());
            let (thread, id) = (&committer.lease.thread, letter.id);
            NodeError::permanent(format!(
                "the signal `{name}` that node `{node}` waits for is not a `{of}`: {error}; it stays in the inbox of the thread: remove it \
                 with `graph.discard(\"{thread}\", id)` or `hier inbox discard {thread} {id}`, or change the type that the node expects"
            ))
        })?;
        let (id, record) = (letter.id, StepRecord::new::<T>(key.clone(), letter.value.clone(), Vec::new()));
        // From here on the signal belongs to this task. If the attempt is dropped while it is stored, the next attempt gets it.
        let task: Weak<dyn Any + Send + Sync> = Arc::downgrade(&home.steps) as _;
        inbox.take(name, task);
        let found = home.steps.put(record, Some(id));
        home.store(&found, true, None).await?;
        self.note_answer();
        Ok(Some(value))
    }
}
