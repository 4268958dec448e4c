use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::CompiledGraph;
use super::due::names;
use crate::checkpoint::{
    CodecError, Delivered, InboxMessage, ListQuery, PostOutcome, WhenRunning, check_new_thread, codec,
};
use crate::config::Config;
use crate::engine::Saver;
use crate::engine::program::{GraphOutput, Program, SecretChannel};
use crate::error::RunError;
use crate::state::Values;

/// A signal: a named value that a task receives with [`Run::signal`](crate::Run::signal). Send it with
/// [`CompiledGraph::send`].
#[derive(Debug)]
pub struct Signal {
    name: Arc<str>,
    value: Result<Vec<u8>, CodecError>,
}

impl Signal {
    /// Creates a signal from its name and a value that is serialized to JSON.
    pub fn new(name: impl Into<Arc<str>>, value: &(impl Serialize + ?Sized)) -> Self {
        Self { name: name.into(), value: codec::encode(value) }
    }
}

/// A message or a [`Signal`] for a thread. [`CompiledGraph::send`] accepts it. Each serializable value converts into a
/// message.
pub struct ThreadMessage {
    id: Option<Uuid>,
    signal: Option<Arc<str>>,
    value: Result<Vec<u8>, CodecError>,
}

impl fmt::Debug for ThreadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadMessage").field("id", &self.id).field("signal", &self.signal).finish_non_exhaustive()
    }
}

impl ThreadMessage {
    /// Creates a message for the `inbox` channel of a graph. The value must have the type of the channel. If the
    /// channel is a list, the value can also be a single item. If the channel is a conversation, a string becomes a
    /// user message.
    pub fn message(value: &(impl Serialize + ?Sized)) -> Self {
        Self { id: None, signal: None, value: codec::encode(value) }
    }

    /// Sets the id. A thread ignores a second message with the same id, so a sender that sets the id can safely send
    /// the message again. Defaults to a random id.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }
}

impl<T: Serialize> From<T> for ThreadMessage {
    fn from(message: T) -> Self {
        Self::message(&message)
    }
}

impl From<Signal> for ThreadMessage {
    fn from(signal: Signal) -> Self {
        Self { id: None, signal: Some(signal.name), value: signal.value }
    }
}

impl<S, C, I, O> CompiledGraph<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    /// Sends a message or a [`Signal`] to a thread. When the future resolves, the message is stored. Returns false if
    /// an earlier message to the thread had the same [id](ThreadMessage::id).
    ///
    /// The thread need not exist yet. A run may hold the thread at the time of the call, in this process or another
    /// one.
    ///
    /// A **signal** goes to the first task that calls [`Run::signal`](crate::Run::signal) with the name of the signal,
    /// now or later. If a task already waits for the signal, the thread becomes due at once, and a
    /// [sweeper](CompiledGraph::sweeper) resumes it.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # use hier_core::checkpoint::MemorySaver;
    /// # use hier_core::graph::Signal;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Order { receipt: String }
    /// async fn ship(run: &Run) -> hier_core::Result<OrderUpdate> {
    ///     let receipt: String = run.signal("paid").await?;
    ///     Ok(Order::update().receipt(receipt))
    /// }
    /// # graph! { Shop<Order> = Graph { nodes: [ship], edges: [START >> ship >> END] } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// let shop = Shop::compile().checkpointer(MemorySaver::new());
    /// shop.send("order-7", Signal::new("paid", &"r-17")).await?; // before the order exists
    /// let end = shop.invoke(Order::update()).thread("order-7").await?;
    /// assert_eq!(end.state().receipt, "r-17");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The engine writes a **message** to the `inbox` channel of the graph between two supersteps, exactly once. If a
    /// run is in progress, it receives the message after the current superstep, unless the graph has then finished.
    /// Otherwise, the next run receives the message: at its start with a new input, or after its first superstep.
    ///
    /// Cancel safety: if the future is dropped, the message may or may not be stored. Give it an id to send it again.
    ///
    /// # Errors
    ///
    /// For a message, fails if the graph has no `inbox` channel, or if this channel does not accept the value. For
    /// messages and signals, fails if the thread belongs to another graph, if the inbox would exceed
    /// [`INBOX_BYTES`](crate::checkpoint::INBOX_BYTES), or without a checkpointer that supports inboxes.
    pub async fn send(&self, to: impl Into<Config>, mail: impl Into<ThreadMessage>) -> Result<bool, RunError> {
        let (config, mail) = (to.into(), mail.into());
        let graph = self.inner.plan.graph();
        let saver = self.saver("send to threads")?;
        let thread = config.thread_id().ok_or_else(|| RunError::NoThread { graph: graph.to_owned() })?;
        let refused = |reason: String| RunError::Send { graph: graph.to_owned(), reason };
        let value = mail.value.map_err(|error| refused(format!("it cannot be stored: {error}")))?;
        let id = mail.id.unwrap_or_else(Uuid::new_v4);
        let letter = match mail.signal {
            Some(name) => InboxMessage::signal(id, name, value),
            None => InboxMessage::message(id, self.inner.fit(value).map_err(refused)?),
        };
        post(&self.inner, saver, thread, letter).await
    }

    /// Returns the messages and signals that no run has received yet, oldest first.
    pub async fn waiting(&self, thread: impl Into<Config>) -> Result<Vec<Delivered>, RunError> {
        let (saver, thread) = (self.saver("read threads")?, thread.into());
        let graph = || self.inner.plan.graph().to_owned();
        let name = thread.thread_id().ok_or_else(|| RunError::NoThread { graph: graph() })?;
        saver.mail(name).await.map_err(|error| RunError::Saver { graph: graph(), error })
    }

    /// Deletes a message or a signal from the inbox. This is necessary if the value of a signal has the wrong type,
    /// because every run that receives the signal fails. The error of such a run contains the id.
    ///
    /// Returns false if the inbox does not contain the message. The thread remembers the id of a deleted message: if a
    /// program sends another message with this id, the thread ignores the new message.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Busy`](crate::checkpoint::SaverError::Busy) if a run holds the thread. To take over the
    /// thread or to wait for it instead, set [`Config::when_running`].
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # use hier_core::checkpoint::MemorySaver;
    /// # use hier_core::graph::{ThreadMessage, Signal};
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Order { receipt: String }
    /// # async fn ship(run: &Run) -> hier_core::Result<OrderUpdate> {
    /// #     let receipt: String = run.signal("paid").await?;
    /// #     Ok(Order::update().receipt(receipt))
    /// # }
    /// # graph! { Shop<Order> = Graph { nodes: [ship], edges: [START >> ship >> END] } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// let shop = Shop::compile().checkpointer(MemorySaver::new());
    /// shop.send("order-7", Signal::new("paid", &17)).await?; // the task expects a string
    /// assert!(shop.invoke(Order::update()).thread("order-7").await.is_err());
    ///
    /// let wrong = shop.waiting("order-7").await?[0].message.id;
    /// assert!(shop.discard("order-7", wrong).await?);
    /// shop.send("order-7", Signal::new("paid", &"r-17")).await?;
    /// assert_eq!(shop.invoke(()).thread("order-7").await?.state().receipt, "r-17");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn discard(&self, thread: impl Into<Config>, id: Uuid) -> Result<bool, RunError> {
        let (saver, config) = (self.saver("discard messages")?, thread.into());
        let graph = || self.inner.plan.graph().to_owned();
        let thread = config.thread_id().ok_or_else(|| RunError::NoThread { graph: graph() })?;
        let discarded = saver.discard(thread, config.claim(WhenRunning::Reject), id).await;
        discarded.map_err(|error| RunError::Saver { graph: graph(), error })
    }
}

/// Stores a message in the inbox of a thread, unless the thread belongs to another graph.
pub(super) async fn post<S: Values, C>(
    program: &Program<S, C>,
    saver: &Saver,
    thread: &str,
    letter: InboxMessage,
) -> Result<bool, RunError> {
    let graph = program.plan.graph();
    SecretChannel::check(program.secret_channels(), saver)?;
    let failed = |error| RunError::Saver { graph: graph.to_owned(), error };
    let newest = ListQuery { namespace: Some(String::new()), limit: Some(1), ..ListQuery::thread(thread) };
    let newest = saver.list(newest).await.map_err(failed)?;
    let stored = newest.first().map(|listed| &*listed.checkpoint.schema.graph);
    if stored.is_none() {
        check_new_thread(thread).map_err(failed)?;
    }
    if let Some(stored) = stored.filter(|stored| !names(program).iter().any(|own| own == stored)) {
        let reason =
            format!("thread `{thread}` belongs to graph `{stored}`: send through that graph, or to another thread");
        return Err(RunError::Send { graph: graph.to_owned(), reason });
    }
    saver.post(thread, graph, letter).await.map(PostOutcome::is_new).map_err(failed)
}
