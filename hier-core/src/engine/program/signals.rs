//! Signals. A client or another graph sends them, and a task waits for them.

use std::any::{Any, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::SystemTime;

use futures_core::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::step_log::StepRecord;
use super::{NeedsAwait, Run, StepHome, StepKey, unsaved};
use crate::checkpoint::codec;
use crate::error::{NodeError, NodeErrorKind};
use crate::question::QuestionKind;

/// A wait for a signal. [`Run::signal`] returns it. Await it to receive the value.
#[must_use = "nothing is waited for before this is awaited: add `.await`"]
pub struct SignalWait<'a, S, T, C = ()> {
    run: &'a Run<C>,
    name: String,
    until: Option<(SystemTime, T)>,
    /// Starts the wait. Called when the value is first polled.
    start: Start<'a, T, C>,
    waiting: Option<BoxFuture<'a, Result<T, NodeError>>>,
    state: PhantomData<S>,
}

type Start<'a, T, C> = fn(&'a Run<C>, String, Option<(SystemTime, T)>) -> BoxFuture<'a, Result<T, NodeError>>;

impl<S, T, C> fmt::Debug for SignalWait<'_, S, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let due = self.until.as_ref().map(|(due, _)| due);
        f.debug_struct("SignalWait").field("name", &self.name).field("due", &due).finish_non_exhaustive()
    }
}

impl<T, C> SignalWait<'_, NeedsAwait, T, C> {
    /// Sets a deadline, after which the call returns `default`.
    ///
    /// The task continues when a [sweeper](crate::graph::CompiledGraph::sweeper) or a run with the input `()` resumes
    /// the thread after the deadline. A signal that arrives before the task continues still counts. A later signal
    /// stays in the inbox for the next call. The first attempt fixes the deadline: if the node runs again and passes
    /// another time, that time has no effect.
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
    /// # Errors
    ///
    /// Fails if the saver does not support timers.
    pub fn until(mut self, time: SystemTime, default: T) -> Self {
        self.until = Some((time, default));
        self
    }
}

impl<T, C> Future for SignalWait<'_, NeedsAwait, T, C> {
    type Output = Result<T, NodeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { run, name, until, start, waiting, .. } = &mut *self;
        waiting.get_or_insert_with(|| start(run, std::mem::take(name), until.take())).as_mut().poll(context)
    }
}

/// No field is pinned.
impl<S, T, C> Unpin for SignalWait<'_, S, T, C> {}

impl<C> Run<C> {
    /// Waits for the next signal with this name. Clients and other graphs send signals with
    /// [`CompiledGraph::send`](crate::graph::CompiledGraph::send).
    ///
    /// A signal waits in the inbox of the thread until a task receives it, so the signal may arrive before this call.
    /// The call takes the oldest signal with this name out of the inbox and stores it with the task, in one commit. No
    /// other task receives this signal. If the task runs again, the call returns the same value.
    ///
    /// If no signal has arrived, the call returns an error, which the node must return with `?`. The run then stops
    /// with an [`Outcome::Interrupted`](crate::Outcome::Interrupted) and a question of the kind
    /// [`QuestionKind::Signal`](crate::QuestionKind::Signal). When the signal has arrived, a
    /// [sweeper](crate::graph::CompiledGraph::sweeper) or a run with the input `()` continues the thread. To limit the
    /// wait, use [`SignalWait::until`].
    ///
    /// Cancel safety: a dropped call may already have received the signal. Later calls in the same attempt then do not
    /// return it. If the task runs again, the same call returns it.
    ///
    /// # Errors
    ///
    /// Fails if the graph has no checkpointer, or a checkpointer that does not support inboxes. Also fails if the value
    /// of the signal is not a `T`. Such a signal stays in the inbox: remove it with
    /// [`CompiledGraph::discard`](crate::graph::CompiledGraph::discard).
    pub fn signal<'a, T>(&'a self, name: &str) -> SignalWait<'a, NeedsAwait, T, C>
    where
        T: Serialize + DeserializeOwned + Send + 'a,
        C: Send + Sync,
    {
        let start = |run: &'a Self, name, until| -> BoxFuture<'a, _> { Box::pin(run.wait_for_signal(name, until)) };
        SignalWait { run: self, name: name.to_owned(), until: None, start, waiting: None, state: PhantomData }
    }

    async fn wait_for_signal<T>(&self, name: String, until: Option<(SystemTime, T)>) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
    {
        let Some(home) = self.step_home()? else {
            return Err(NodeError::permanent(format!(
                "graph `{}` has no checkpointer, so it cannot receive the signal `{name}`: add `.checkpointer(…)` to the compiled graph",
                self.graph()
            )));
        };
        let (key, until_key) = (home.begin_own(&name, StepKey::SIGNAL), home.begin_own(&name, "until"));
        if let Some(found) = home.find(&key) {
            // A result that depends on a signal must not be cached.
            self.note_answer();
            return self.recorded_result(&home, &found).await;
        }
        if let Some(value) = self.take_signal(&home, &key, &name).await? {
            return Ok(value);
        }
        let mut question = self.waiting(&key, json!({ "signal": name }));
        question.kind = QuestionKind::Signal(name.into());
        if let Some((time, default)) = until {
            let due = self.recorded_time(&home, until_key, time, None).await?;
            if due <= self.shared.config.now() {
                return self.record(&home, key, default, Vec::new()).await;
            }
            (question.due, question.default) = (Some(due), Some(codec::to_json(&default)?));
        }
        Err(NodeError::from_kind(NodeErrorKind::Interrupt(vec![question]), false))
    }

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
        // From here on, the signal belongs to this task. If the attempt is dropped while the signal is stored, the next
        // attempt receives it.
        let task: Weak<dyn Any + Send + Sync> = Arc::downgrade(&home.steps) as _;
        inbox.take(name, task);
        let found = home.steps.put(record, Some(id));
        home.store(&found, true, None).await?;
        self.note_answer();
        Ok(Some(value))
    }
}
