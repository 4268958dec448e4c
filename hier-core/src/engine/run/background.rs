//! Background runs of subgraphs. Each has its own thread, lease and checkpoints.

use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::checkpoint::{InboxMessage, ListQuery, background, codec};
use crate::config::Config;
use crate::engine::durable::attempts;
use crate::engine::program::{
    Attached, BackgroundEnd, BackgroundWork, Command, ErasedGraph, Input, Program, Run, Scope, Task,
};
use crate::engine::run::start::RootRun;
use crate::engine::run::subgraph::subgraph_error;
use crate::engine::stream::emitter::{Emitter, EventSink, PrefixedSink};
use crate::engine::stream::outcome::Outcome;
use crate::error::{NodeError, RunError};
use crate::state::Values;

/// The options with which [`Attached::start_in_background`] starts or continues a run. `T` is the state of the graph
/// that runs in the background.
pub struct BackgroundStart<T> {
    /// The id of the run's thread.
    pub thread: Arc<str>,
    /// The last segment of the namespace in the run's events: the node and the task that started the run.
    pub segment: String,
    /// The initial state of a new thread. A stored thread takes only the values of channels that it does not contain.
    pub state: Arc<T>,
    /// The scope that the graph inherits.
    pub scope: Option<Scope>,
    /// The answers to questions of the thread, as pairs of a question's id and an answer. Empty for a new run.
    pub answers: Vec<(String, serde_json::Value)>,
    /// True if the background run continues after the run that starts it has ended.
    pub is_detached: bool,
}

impl<T> std::fmt::Debug for BackgroundStart<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundStart").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<T: Values, C: Send + Sync + 'static, D: Send + Sync + 'static> Attached<T, C, D> {
    /// Returns the id of the thread for the background run with this name. The id begins with the id of the thread on
    /// which the run of `task` is stored.
    pub fn background_thread<S: Values>(task: &Task<S, C>, name: &str) -> Arc<str> {
        let thread = task.run.shared.config.thread_id().unwrap_or_default();
        background::thread_of(thread, name).into()
    }

    /// Starts or continues the background run on the thread `start.thread`. Does nothing if the run of `task` has
    /// already started a background run on this thread. The function `end` converts the outcome for
    /// [`BackgroundRuns`](crate::internals::BackgroundRuns).
    ///
    /// # Errors
    ///
    /// Fails without a tokio runtime. Also fails if the run of `task` has a [`StepPolicy`](crate::drive::StepPolicy),
    /// as on a cluster.
    pub fn start_in_background<S: Values>(
        &self,
        task: &Task<S, C>,
        start: BackgroundStart<T>,
        end: impl FnOnce(Result<Outcome<T>, RunError>) -> BackgroundEnd + Send + 'static,
    ) -> Result<(), NodeError> {
        let outer = &task.run.shared;
        if outer.config.step_policy.is_some() {
            return Err(NodeError::permanent(format!(
                "graph `{}` cannot run in the background here, because this cluster drives each superstep by itself: \
                 attach it without `background: true`",
                self.graph.plan.graph()
            )));
        }
        let BackgroundStart { thread, segment, state, scope, answers, is_detached } = start;
        let within_outer =
            || outer.config.cancel.as_ref().map_or_else(CancellationToken::new, CancellationToken::child_token);
        // If the outer run is cancelled, a detached run is only paused.
        let pause = if is_detached { within_outer() } else { CancellationToken::new() };
        let stop = if is_detached { pause.child_token() } else { within_outer() };
        let mut path = outer.namespace.clone();
        path.push(segment);
        let emitter = outer.sink.as_deref().and_then(EventSink::for_subgraphs);
        let emitter = emitter.map(|(root, modes)| {
            let sink = Arc::new(PrefixedSink { root, path });
            Arc::new(Emitter::nested(sink, modes, Vec::new()))
        });
        let config = outer.config.in_background(
            &thread,
            stop.clone(),
            pause.clone(),
            outer.log.is_some() || is_detached,
            is_detached,
        );
        let run = RootRun {
            graph: self.graph.clone(),
            attached: outer.background.attachments(),
            config: Arc::new(config),
            context: (self.context)(&outer.context),
            emitter,
            state,
            scope,
        };
        let input = if answers.is_empty() { Input::Enter } else { Input::Command(Box::new(Command::answers(answers))) };
        let (log, graph) = (outer.log.clone(), self.graph.plan.graph().to_owned());
        let work = Box::pin(async move {
            // The call that starts the run must be stored before the run begins. Otherwise, if the call were lost, the
            // repeated call would start a second run.
            let stored = match log {
                Some(log) => log.committer.flush().await.map_err(|error| RunError::Saver { graph, error }),
                None => Ok(()),
            };
            match stored {
                Ok(()) => end(run.run(input).await),
                Err(error) => end(Err(error)),
            }
        });
        let work = BackgroundWork { thread, namespace: outer.namespace.clone(), stop, pause, work };
        outer.background.start(work, &outer.tracker)
    }

    /// Sends a message to the inbox of a background run. Returns false if the graph has no inbox that accepts
    /// `message`. Otherwise returns true, even if the thread has already received a message with this id. The inbox
    /// ignores such a repeated message.
    pub async fn send_to_background<S: Values>(
        &self,
        task: &Task<S, C>,
        thread: &str,
        id: Uuid,
        message: &(impl Serialize + Sync),
    ) -> Result<bool, NodeError> {
        let graph = self.graph.plan.graph();
        let Ok(value) = self.graph.fit(codec::encode(message)?) else { return Ok(false) };
        let Some(saver) = task.run.shared.background.attachments().saver else { return Ok(false) };
        let failed = |error| subgraph_error(RunError::Saver { graph: graph.to_owned(), error });
        // The call that sends the message must be stored before the message. Otherwise, if the call were lost, the
        // repeated call would send the message under another id.
        if let Some(log) = &task.run.shared.log {
            log.committer.flush().await.map_err(failed)?;
        }
        let posted = saver.post(thread, graph, InboxMessage::message(id, value)).await;
        posted.map(|_| true).map_err(failed)
    }

    /// Returns the number of supersteps that a background run has stored, and the number of messages in its inbox.
    pub async fn background_progress<S: Values>(
        &self,
        task: &Task<S, C>,
        thread: &str,
    ) -> Result<(i64, usize), NodeError> {
        let Some(saver) = task.run.shared.background.attachments().saver else { return Ok((0, 0)) };
        let failed = |error| subgraph_error(RunError::Saver { graph: self.graph.plan.graph().to_owned(), error });
        let query = ListQuery { namespace: Some(String::new()), limit: Some(1), ..ListQuery::thread(thread) };
        let newest = saver.list(query).await.map_err(failed)?;
        let steps = newest.first().map_or(0, |newest| newest.checkpoint.step.max(0));
        Ok((steps, saver.mail(thread).await.map_err(failed)?.len()))
    }

    /// Returns true if continuing the background run on this thread would have no effect, because the run has finished
    /// or failed, or because each of its next tasks waits for an answer.
    pub async fn background_stands_still<S: Values>(&self, task: &Task<S, C>, thread: &str) -> bool {
        let Some(saver) = task.run.shared.background.attachments().saver else { return false };
        if let Ok(Some(saved)) = saver.get(thread, "", None).await
            && attempts::has_failed(&saved)
        {
            return true;
        }
        let config = Config::new().thread(thread);
        let Ok(snapshot) = ErasedGraph::state(&*self.graph, &saver, &config).await else { return false };
        snapshot.checkpoint.is_some() && snapshot.tasks.iter().all(|task| !task.questions.is_empty())
    }
}

impl<C> Run<C> {
    /// Returns true if background runs can continue after this run, so that a later run of the thread collects their
    /// results. Returns false if the graph has no checkpointer, if the caller is a task of a subgraph, or if this run
    /// is itself a background run.
    pub fn can_detach(&self) -> bool {
        let thread = self.shared.config.thread_id();
        self.shared.background.are_durable()
            && self.shared.namespace.is_empty()
            && thread.is_some_and(|thread| background::outer_of(thread).is_none())
    }
}

impl<T: Values, D> Program<T, D> {
    /// Returns a copy of the graph in which the conversation is the `inbox` channel. Returns the graph itself if it
    /// already has an inbox, or if its state has no conversation.
    #[must_use]
    pub fn with_inbox(self: &Arc<Self>) -> Arc<Self> {
        let conversation = || self.channels.iter().position(|channel| channel.name == hier_spec::trust::CONVERSATION);
        match self.inbox.is_none().then(conversation).flatten() {
            Some(inbox) => Arc::new(Self { inbox: Some(inbox), ..Self::clone(self) }),
            None => self.clone(),
        }
    }
}
