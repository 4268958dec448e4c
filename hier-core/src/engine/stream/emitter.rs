//! Delivers run events through a bounded queue. A slow consumer loses the oldest events and never blocks the run.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::engine::stream::event::{DebugEvent, Event, MessageChunk, Modes, Nested, StreamMode};
use crate::engine::stream::outcome::Outcome;
use crate::engine::stream::ring::Ring;
use crate::error::RunError;
use crate::question::Question;
use crate::runs::TaskEvent;
use crate::state::Values;

/// Receives the events of subgraphs. Hides the types of the root graph.
pub(crate) trait NestedSink: Send + Sync {
    fn nested(&self, event: Nested);
    fn message(&self, event: MessageChunk);
}

impl<S: Values> NestedSink for Ring<S> {
    fn nested(&self, event: Nested) {
        self.push(Event::Nested(event));
    }

    fn message(&self, event: MessageChunk) {
        self.push(Event::Message(Box::new(event)));
    }
}

/// Receives the events of nodes. Hides the types of their graph.
pub(crate) trait EventSink: Send + Sync {
    fn wants_custom(&self) -> bool;
    fn custom(&self, node: &str, value: Value);
    fn wants_messages(&self) -> bool;
    fn message(&self, event: MessageChunk);
    /// Returns the sink and the modes for the events of subgraphs. Returns `None` if no consumer wants such events.
    fn for_subgraphs(&self) -> Option<(Arc<dyn NestedSink>, Modes)>;
}

enum Sink<S: Values> {
    Root { ring: Arc<Ring<S>>, subgraphs: bool },
    Nested { root: Arc<dyn NestedSink>, namespace: Vec<String> },
}

pub(crate) struct Emitter<S: Values> {
    pub(crate) modes: Modes,
    sink: Sink<S>,
}

impl<S: Values> Emitter<S> {
    pub(crate) fn root(ring: Arc<Ring<S>>, modes: Modes, subgraphs: bool) -> Self {
        Self { modes, sink: Sink::Root { ring, subgraphs } }
    }

    pub(crate) fn nested(root: Arc<dyn NestedSink>, modes: Modes, namespace: Vec<String>) -> Self {
        Self { modes, sink: Sink::Nested { root, namespace } }
    }

    pub(crate) fn wants(&self, mode: StreamMode) -> bool {
        self.modes.has(mode)
    }

    /// Returns true if a consumer wants events of tasks, which are costly: they need task ids and JSON.
    pub(crate) fn wants_tasks(&self) -> bool {
        self.wants(StreamMode::Tasks) || self.wants(StreamMode::Debug)
    }

    pub(crate) fn emit(&self, event: Event<S>) {
        match &self.sink {
            Sink::Root { ring, .. } => ring.push(event),
            Sink::Nested { root, namespace } => match event.into_log() {
                Ok(event) => root.nested(Nested { namespace: namespace.clone(), event: event.body }),
                Err(error) => tracing::warn!(%error, "dropped an event of a subgraph: it cannot be serialized to JSON"),
            },
        }
    }

    pub(crate) fn task(&self, task: TaskEvent) {
        if self.wants(StreamMode::Debug) {
            self.emit(Event::Debug(DebugEvent::new(task.clone())));
        }
        if self.wants(StreamMode::Tasks) {
            self.emit(Event::Task(task));
        }
    }

    pub(crate) fn interrupted(&self, questions: &[Question]) {
        if self.wants(StreamMode::Updates) {
            self.emit(Event::Interrupted(questions.to_vec()));
        }
    }

    /// Returns true if the run should yield its thread to the consumer.
    pub(crate) fn is_crowded(&self) -> bool {
        matches!(&self.sink, Sink::Root { ring, .. } if ring.is_crowded())
    }
}

impl<S: Values> EventSink for Emitter<S> {
    fn wants_custom(&self) -> bool {
        self.wants(StreamMode::Custom)
    }

    fn custom(&self, node: &str, value: Value) {
        self.emit(Event::Custom { node: node.to_owned(), value });
    }

    fn wants_messages(&self) -> bool {
        self.wants(StreamMode::Messages)
    }

    fn message(&self, event: MessageChunk) {
        match &self.sink {
            Sink::Root { ring, .. } => ring.message(event),
            Sink::Nested { root, .. } => root.message(event),
        }
    }

    fn for_subgraphs(&self) -> Option<(Arc<dyn NestedSink>, Modes)> {
        match &self.sink {
            Sink::Root { ring, subgraphs } => {
                // A consumer receives the messages of all graphs, even without the events of subgraphs.
                let modes = if *subgraphs { Some(self.modes) } else { self.modes.only(StreamMode::Messages) };
                modes.map(|modes| (ring.clone() as Arc<dyn NestedSink>, modes))
            }
            Sink::Nested { root, .. } => Some((root.clone(), self.modes)),
        }
    }
}

/// Emits the events of a part as events of its outer graph.
pub(crate) struct PartSink {
    /// The sink of the part itself. None if no consumer wants events of subgraphs.
    pub(crate) own: Option<Arc<dyn EventSink>>,
    pub(crate) outer: Arc<dyn EventSink>,
}

impl EventSink for PartSink {
    fn wants_custom(&self) -> bool {
        self.outer.wants_custom()
    }

    fn custom(&self, node: &str, value: Value) {
        self.outer.custom(node, value);
    }

    fn wants_messages(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.wants_messages())
    }

    fn message(&self, event: MessageChunk) {
        if let Some(own) = &self.own {
            own.message(event);
        }
    }

    fn for_subgraphs(&self) -> Option<(Arc<dyn NestedSink>, Modes)> {
        self.own.as_ref()?.for_subgraphs()
    }
}

/// Passes on the events of a background run. Puts the path of the run in front of their namespaces.
pub(crate) struct PrefixedSink {
    pub(crate) root: Arc<dyn NestedSink>,
    pub(crate) path: Vec<String>,
}

impl NestedSink for PrefixedSink {
    fn nested(&self, mut event: Nested) {
        event.namespace.splice(..0, self.path.iter().cloned());
        self.root.nested(event);
    }

    fn message(&self, mut event: MessageChunk) {
        event.namespace.splice(..0, self.path.iter().cloned());
        let node = |level: &String| level.split(':').next().unwrap_or_default().to_owned();
        event.path.splice(..0, self.path.iter().map(node));
        self.root.message(event);
    }
}

/// Closes the ring when the run ends or panics.
pub(crate) struct CloseOnDrop<S: Values>(pub(crate) Arc<Ring<S>>);

impl<S: Values> Drop for CloseOnDrop<S> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A [`Stream`] of the events of a run. If the run fails, its error is the last item.
///
/// The run is a separate tokio task, so a slow consumer does not delay it. The stream buffers up to
/// [`Config::stream_capacity`](crate::Config::stream_capacity) events, and at most about 64 MiB. If the buffer is full,
/// the stream drops the oldest events and reports their number as [`Event::Lagged`]. Dropping the stream cancels the
/// run.
#[must_use = "dropping the stream cancels the run"]
pub struct EventStream<S: Values, O = S> {
    ring: Arc<Ring<S>>,
    run: Option<AbortOnDropHandle<Result<Outcome<O>, RunError>>>,
    outcome: Option<Result<Outcome<O>, RunError>>,
    graph: String,
}

impl<S: Values, O> fmt::Debug for EventStream<S, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("graph", &self.graph).finish_non_exhaustive()
    }
}

impl<S: Values, O> EventStream<S, O> {
    pub(crate) fn new(
        graph: String,
        ring: Arc<Ring<S>>,
        run: Result<JoinHandle<Result<Outcome<O>, RunError>>, RunError>,
    ) -> Self {
        let (run, outcome) = match run {
            Ok(run) => (Some(AbortOnDropHandle::new(run)), None),
            Err(error) => {
                ring.close();
                (None, Some(Err(error)))
            }
        };
        Self { ring, run, outcome, graph }
    }

    /// Returns the next event, or `None` when the run has ended and all events were read. Cancel safe: no event is lost
    /// if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Event<S>, RunError>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Waits for the end of the run and returns its outcome. Drops the events that were not read. Dropping the future
    /// cancels the run.
    ///
    /// # Errors
    ///
    /// Returns the error of the run, or [`RunError::OutcomeTaken`] if the stream has already returned that error.
    pub async fn outcome(mut self) -> Result<Outcome<O>, RunError> {
        loop {
            match self.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => {
                    return self.outcome.take().unwrap_or(Err(RunError::OutcomeTaken));
                }
            }
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Event<S>, RunError>>> {
        if let Some(run) = &mut self.run {
            let Poll::Ready(ended) = Pin::new(run).poll(context) else { return Poll::Pending };
            self.run = None;
            // The run catches all panics. So the task was cancelled, because the runtime shuts down.
            self.outcome = Some(ended.unwrap_or_else(|_| Err(RunError::Cancelled { graph: self.graph.clone() })));
        }
        if matches!(self.outcome, Some(Err(_)))
            && let Some(Err(error)) = self.outcome.take()
        {
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(None)
    }
}

/// No field is pinned.
impl<S: Values, O> Unpin for EventStream<S, O> {}

impl<S: Values, O> Stream for EventStream<S, O> {
    type Item = Result<Event<S>, RunError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.ring.poll_pop(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(Ok(event))),
            Poll::Ready(None) => self.poll_end(context),
            Poll::Pending => Poll::Pending,
        }
    }
}
