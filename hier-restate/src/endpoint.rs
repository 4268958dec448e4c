//! A worker process.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hier_core::checkpoint::Checkpointer;
use hier_core::graph::{CompiledGraph, DynGraph};
use hier_core::state::Values;
use hier_core::store::Store;
use hier_core::{NodeError, RunError};
use restate_sdk::http_server::HttpServer;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::cache::ThreadCache;
use crate::context::IntoContext;
use crate::error::Error;
use crate::host::{Describe, GraphSelector, Host};
use crate::service::definitions;
use crate::slice::RemoteRule;

/// The default size of a payload: half of a Restate server's default.
const PAYLOAD: usize = 16 << 20;

/// The default time for which the end of a run is kept.
const ENDS_KEPT: Duration = Duration::from_hours(24);

/// The default number of threads in memory.
const THREADS: usize = 1_000;

/// The rule that selects tasks to run as calls to other workers. The other tasks run in the slice of the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FanOut {
    /// All tasks of a step with at least this many. The minimum is 2.
    Remote(usize),
    /// The tasks of these nodes, in a step that has at least two of them.
    Nodes(Vec<String>),
    /// No tasks.
    Local,
}

impl FanOut {
    fn inner(self) -> Option<RemoteRule> {
        match self {
            Self::Remote(from) => Some(RemoteRule { from: from.max(2), nodes: None }),
            Self::Nodes(nodes) => Some(RemoteRule { from: 2, nodes: Some(nodes.into_iter().collect()) }),
            Self::Local => None,
        }
    }
}

/// A worker: it contains graphs and executes the invocations that Restate sends. Any number of processes of any number
/// of versions can serve one Restate cluster.
///
/// ```no_run
/// # use hier_core::prelude::*;
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Filing { accepted: bool }
/// # async fn assess() -> FilingUpdate { Filing::update().accepted(true) }
/// # graph! { Desk<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), hier_restate::Error> {
/// hier_restate::Endpoint::new().graph("desk", Desk::compile(), ()).serve("127.0.0.1:9080").await
/// # }
/// ```
#[must_use = "a worker does nothing until it serves"]
pub struct Endpoint {
    hosts: Vec<Host>,
    limit: usize,
    threads: usize,
    at_once: Option<usize>,
    describe: Option<Arc<Describe>>,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self { hosts: Vec::new(), limit: PAYLOAD, threads: THREADS, at_once: None, describe: None }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.hosts.iter().map(|host| &host.name).collect();
        f.debug_struct("Endpoint").field("graphs", &names).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Creates a worker without graphs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a graph under a name that clients and Restate use, with the context of its runs. The context is a value,
    /// which is cloned for each slice, or a function of the thread's id. Clients and pools in it are created once and
    /// shared.
    ///
    /// A saver of the graph is not used: [`saver`](Self::saver) selects where its threads are stored.
    #[allow(clippy::needless_pass_by_value)] // a graph is a handle, and this is where it goes
    pub fn graph<S, C, I, O, M>(
        self,
        name: impl Into<String>,
        graph: CompiledGraph<S, C, I, O>,
        context: impl IntoContext<C, M>,
    ) -> Self
    where
        S: Values,
        C: Send + Sync + 'static,
        I: 'static,
        O: 'static,
    {
        let graph: Arc<dyn DynGraph> = Arc::new(
            graph.erase(move |run| Ok::<_, NodeError>(context.context(run.thread.as_deref().unwrap_or_default()))),
        );
        self.graph_by(name, move |_| Some(graph.clone()))
    }

    /// Adds graphs under one name, selected by the id of the thread, for tenants with their own graphs. For one
    /// thread, `choose` must always return the same graph or a version of it.
    pub fn graph_by(
        mut self,
        name: impl Into<String>,
        choose: impl Fn(&str) -> Option<Arc<dyn DynGraph>> + Send + Sync + 'static,
    ) -> Self {
        let choose: Arc<GraphSelector> = Arc::new(choose);
        self.hosts.push(Host {
            name: name.into(),
            choose,
            saver: None,
            store: None,
            fan_out: FanOut::Remote(2).inner(),
            ends_kept: ENDS_KEPT,
            latest_only: false,
            describe: None,
            limit: 0,
            slots: None,
            threads: ThreadCache::new(0),
            bases: ThreadCache::new(0),
        });
        self
    }

    fn last(mut self, change: impl FnOnce(&mut Host)) -> Self {
        if let Some(host) = self.hosts.last_mut() {
            change(host);
        }
        self
    }

    /// Sets which tasks of the last added graph run as calls to other workers. Defaults to all tasks of a step with at
    /// least two. Each call costs some milliseconds; shorter tasks are faster with [`FanOut::Local`].
    pub fn fan_out(self, fan_out: FanOut) -> Self {
        self.last(|host| host.fan_out = fan_out.inner())
    }

    /// Stores the threads of the last added graph in a database instead of in Restate. All workers must reach it.
    /// Threads can then be searched, and programs without Restate can use them. All tasks of a step run in the slice of
    /// the thread.
    pub fn saver(self, saver: impl Checkpointer) -> Self {
        self.last(|host| host.saver = Some(Arc::new(saver)))
    }

    /// Sets how long Restate keeps the end of each run of the last added graph, with the whole state. Defaults to a
    /// day.
    ///
    /// A client that has lost its connection, or a server, can request the end again during this time. A shorter time
    /// saves space.
    pub fn ends_kept(self, time: Duration) -> Self {
        self.last(|host| host.ends_kept = time)
    }

    /// Limits new threads of the last added graph to what they need to continue. By default, a thread keeps its history
    /// until it is deleted.
    ///
    /// Restate then stores a small multiple of a thread's state, however many supersteps it had. `history` returns the
    /// checkpoints since the log was last shortened.
    pub fn latest_only(self) -> Self {
        self.last(|host| host.latest_only = true)
    }

    /// Sets the memory across threads of the last added graph.
    pub fn store(self, store: impl Store) -> Self {
        self.last(|host| host.store = Some(Arc::new(store)))
    }

    /// Sets the maximum payload that Restate receives, in bytes. Defaults to 16 MiB. The server's limit
    /// (`worker.invoker.message-size-limit`) must be greater.
    ///
    /// A larger payload ends the run with the kind `PayloadTooLarge`, and leaves the thread unchanged.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Limits the supersteps and tasks that this process executes at once, for all graphs together. The minimum is 1.
    /// Defaults to no limit.
    ///
    /// Further invocations wait in this process and do not move to another. Balance requests rather than connections
    /// across workers.
    pub fn at_once(mut self, pieces: usize) -> Self {
        self.at_once = Some(pieces);
        self
    }

    /// Sets the number of threads of each graph that stay in memory for their next superstep. Defaults to 1,000. Other
    /// threads are read from Restate.
    pub fn threads_in_memory(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets a function that adds details to errors for clients: [`RunFailure::details`](crate::RunFailure).
    pub fn describe(mut self, describe: impl Fn(&RunError) -> Value + Send + Sync + 'static) -> Self {
        self.describe = Some(Arc::new(describe));
        self
    }

    /// Serves at this address until the process ends. Restate must know the worker: call [`register`](crate::register)
    /// or `restate deployments register` once.
    pub async fn serve(self, address: &str) -> Result<(), Error> {
        let failed = |error| Error::Listen { address: address.to_owned(), error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        self.serve_until(listener, std::future::pending::<()>()).await
    }

    /// Serves with this listener until the future ends.
    pub async fn serve_until(self, listener: TcpListener, stop: impl Future) -> Result<(), Error> {
        let mut builder = restate_sdk::endpoint::Endpoint::builder();
        let slots = self.at_once.map(|pieces| Arc::new(Semaphore::new(pieces.clamp(1, Semaphore::MAX_PERMITS))));
        for mut host in self.hosts {
            host.limit = self.limit;
            host.slots.clone_from(&slots);
            host.describe.clone_from(&self.describe);
            (host.threads, host.bases) = (ThreadCache::new(self.threads), ThreadCache::new(self.threads));
            for definition in definitions(&Arc::new(host))? {
                builder = builder.bind(definition);
            }
        }
        // Accepted connections inherit it. Without it, each entry of a journal waits 40 ms for the acknowledgement of
        // the previous one.
        if let Err(error) = socket2::SockRef::from(&listener).set_tcp_nodelay(true) {
            tracing::warn!(%error, "cannot set `TCP_NODELAY`: supersteps will be slow");
        }
        HttpServer::new(builder.build()).serve_with_cancel(listener, stop).await;
        Ok(())
    }
}

/// Binds a free port of the loopback address, for tests and examples.
pub async fn loopback() -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
