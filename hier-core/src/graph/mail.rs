//! Sending to a thread: messages for the inbox of its graph, and signals.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::CompiledGraph;
use super::due::names;
use crate::checkpoint::{CodecError, Delivered, InboxMessage, ListQuery, PostOutcome, WhenRunning, codec};
use crate::config::Config;
use crate::engine::Saver;
use crate::engine::program::{GraphOutput, Program};
use crate::error::RunError;
use crate::state::Values;

/// A signal: a name and a value, for a task that waits in [`Run::signal`](crate::Run::signal).
#[derive(Debug)]
pub struct Signal {
    name: Arc<str>,
    value: Result<Vec<u8>, CodecError>,
}

impl Signal {
    /// A signal of this name.
    pub fn new(name: impl Into<Arc<str>>, value: &impl Serialize) -> Self {
        Self { name: name.into(), value: codec::encode(value) }
    }
}

/// What is sent to a thread with [`CompiledGraph::send`]: a [`Signal`], or a message, which is any value that the inbox takes.
pub struct Mail {
    id: Option<Uuid>,
    signal: Option<Arc<str>>,
    value: Result<Vec<u8>, CodecError>,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("id", &self.id).field("signal", &self.signal).finish_non_exhaustive()
    }
}

impl Mail {
    /// A message for the inbox of the graph: what its channel takes, or one item of it. A text is also what the user of a
    /// conversation says.
    pub fn message(value: &impl Serialize) -> Self {
        Self { id: None, signal: None, value: codec::encode(value) }
    }

    /// The id of what is sent: what is sent again with the same id is ignored, however often a sender tries. Unless it is given each is
    /// new.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }
}

impl<T: Serialize> From<T> for Mail {
    fn from(message: T) -> Self {
        Self::message(&message)
    }
}

impl From<Signal> for Mail {
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
    /// Sends something to a thread from outside its runs, and says whether it is new ([`Mail::id`]). When this returns it survives a
    /// crash. The thread need not exist, and may be running anywhere.
    ///
    /// A [`Signal`] goes to the first task that asks for it with [`Run::signal`](crate::Run::signal), now or later; a thread that
    /// waits for it is due at once ([`CompiledGraph::sweeper`]).
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
    /// shop.send("order-7", Signal::new("paid", &"r-17")).await?; // before the order is there
    /// let end = shop.invoke(Order::update()).thread("order-7").await?;
    /// assert_eq!(end.state().receipt, "r-17");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Anything else is a message for the graph's `inbox`. It is written to that channel between two supersteps, in the commit of the
    /// checkpoint that first contains it. It is written exactly once, even after kills and with several machines. A running thread
    /// receives it after the current step, unless that was the last. An idle thread receives it with its next run.
    ///
    /// The call fails for a message that the inbox does not accept, for a thread of another graph, and if the mailbox would exceed
    /// [`INBOX_BYTES`](crate::checkpoint::INBOX_BYTES).
    pub async fn send(&self, to: impl Into<Config>, mail: impl Into<Mail>) -> Result<bool, RunError> {
        let (config, mail) = (to.into(), mail.into());
        let graph = self.inner.plan.graph();
        let saver = self.saver("send to")?;
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

    /// What was sent to a thread and was not taken yet, in the order in which it was sent.
    pub async fn waiting(&self, thread: impl Into<Config>) -> Result<Vec<Delivered>, RunError> {
        let (saver, thread) = (self.saver("read")?, thread.into());
        let graph = || self.inner.plan.graph().to_owned();
        let name = thread.thread_id().ok_or_else(|| RunError::NoThread { graph: graph() })?;
        saver.mail(name).await.map_err(|error| RunError::Saver { graph: graph(), error })
    }

    /// Takes something out of a thread's mailbox that no run can take: a signal whose value is of another type than its task waits for, a
    /// message that the inbox does not take any more. It is found by its id, which the run's error names; false if it is not
    /// there (any more). Sent again with the same id it stays ignored.
    ///
    /// A thread that is being run is left alone ([`SaverError::Busy`](crate::checkpoint::SaverError::Busy)), unless
    /// [`Config::when_running`] says otherwise.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # use hier_core::checkpoint::MemorySaver;
    /// # use hier_core::graph::{Mail, Signal};
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
    /// shop.send("order-7", Signal::new("paid", &17)).await?; // the task waits for a text
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
        let (saver, config) = (self.saver("discard mail of")?, thread.into());
        let graph = || self.inner.plan.graph().to_owned();
        let thread = config.thread_id().ok_or_else(|| RunError::NoThread { graph: graph() })?;
        let discarded = saver.discard(thread, config.claim(WhenRunning::Reject), id).await;
        discarded.map_err(|error| RunError::Saver { graph: graph(), error })
    }
}

/// Puts a letter into the mailbox of a thread, unless the thread is another graph's.
pub(super) async fn post<S: Values, C>(
    program: &Program<S, C>,
    saver: &Saver,
    thread: &str,
    letter: InboxMessage,
) -> Result<bool, RunError> {
    let graph = program.plan.graph();
    let failed = |error| RunError::Saver { graph: graph.to_owned(), error };
    let newest = ListQuery { namespace: Some(String::new()), limit: Some(1), ..ListQuery::thread(thread) };
    let newest = saver.list(newest).await.map_err(failed)?;
    let stored = newest.first().map(|listed| &*listed.checkpoint.schema.graph);
    if let Some(stored) = stored.filter(|stored| !names(program).iter().any(|own| own == stored)) {
        let reason =
            format!("`{thread}` is a thread of graph `{stored}`: send it through that graph, or to another thread");
        return Err(RunError::Send { graph: graph.to_owned(), reason });
    }
    saver.post(thread, graph, letter).await.map(PostOutcome::is_new).map_err(failed)
}
