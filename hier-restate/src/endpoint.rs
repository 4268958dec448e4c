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

/// The default maximum size of a payload: half of the default of a Restate server.
const PAYLOAD: usize = 16 << 20;

/// The default time for which Restate keeps the result of a run.
const ENDS_KEPT: Duration = Duration::from_hours(24);

/// The default number of threads in memory.
const THREADS: usize = 1_000;

/// A rule that selects tasks of a superstep. Any worker of the cluster can execute the selected tasks. The other tasks
/// run on the worker that executes the superstep.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FanOut {
    /// All tasks of a superstep that has at least this number of tasks. Numbers below 2 count as 2.
    Remote(usize),
    /// The tasks of these nodes, in a superstep that has at least two such tasks.
    Nodes(Vec<String>),
    /// No tasks. The worker that executes the superstep runs all of its tasks.
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

/// A worker, which contains graphs and executes the invocations that Restate sends. A cluster can have any number of
/// worker processes. They can run different versions of a program.
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

    /// Adds a graph under a name, which clients and Restate use. `context` is the context of all runs, or a function
    /// that returns the context for the id of a thread ([`IntoContext`]). The graph ignores the `context` of a request
    /// to a [server](crate::ClusterRunner). To use the context of requests, add the graph with
    /// [`graph_by`](Self::graph_by).
    ///
    /// The worker ignores a saver of the compiled graph. By default, Restate stores the threads. To store them
    /// elsewhere, call [`saver`](Self::saver).
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

    /// Adds several graphs under one name, for example a graph for each tenant. `choose` takes the id of a thread and
    /// returns its graph. If `choose` returns `None`, the run fails with the kind `UnknownGraph`.
    ///
    /// The workers call `choose` for each part of a run. It must therefore return the same graph whenever it gets the
    /// same id. After a deploy, it can return a new version of this graph.
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

    /// For the last added graph, selects the tasks that any worker can execute. Defaults to all tasks of each superstep
    /// with at least two tasks. Restate needs some milliseconds to send a task to a worker, so [`FanOut::Local`] is
    /// faster for very short tasks.
    pub fn fan_out(self, fan_out: FanOut) -> Self {
        self.last(|host| host.fan_out = fan_out.inner())
    }

    /// Stores the threads of the last added graph in a database instead of in Restate. All workers need access to the
    /// database. Programs without Restate can then search and continue the threads. All tasks of a superstep then run
    /// on one worker, and [`fan_out`](Self::fan_out) has no effect.
    pub fn saver(self, saver: impl Checkpointer) -> Self {
        self.last(|host| host.saver = Some(Arc::new(saver)))
    }

    /// Sets the time for which Restate keeps the result of each run of the last added graph. The result contains the
    /// whole state. Defaults to a day.
    ///
    /// During this time, a client that has lost its connection can request the result again, and so can a server that
    /// takes over the run from another server. A shorter time saves space.
    pub fn ends_kept(self, time: Duration) -> Self {
        self.last(|host| host.ends_kept = time)
    }

    /// Limits the stored data of a thread to the data that the thread needs to continue. Applies to threads of the last
    /// added graph that are created with this option. By default, Restate keeps the history of a thread until the
    /// thread is deleted.
    ///
    /// With this option, the stored data is a small multiple of the state and does not grow with the number of
    /// supersteps. [`history`](crate::RemoteGraph::history) returns only the newest checkpoints.
    pub fn latest_only(self) -> Self {
        self.last(|host| host.latest_only = true)
    }

    /// Sets the store of the last added graph. The graph's threads share the store.
    pub fn store(self, store: impl Store) -> Self {
        self.last(|host| host.store = Some(Arc::new(store)))
    }

    /// Sets the maximum size of a payload that the worker sends to Restate, in bytes. A payload contains, for example,
    /// the writes of one superstep or task, or the state of a thread. Defaults to 16 MiB. The Restate server has its own
    /// limit, `worker.invoker.message-size-limit`, which must be greater.
    ///
    /// If a payload is larger, the run or request fails with the kind `PayloadTooLarge`. The thread keeps its last
    /// stored state.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Limits the number of supersteps and tasks that this process executes at the same time, for all graphs together.
    /// The minimum is 1. By default, there is no limit.
    ///
    /// Further invocations wait in this process and do not move to another one. A load balancer must therefore
    /// distribute single requests to the workers, and not connections.
    pub fn at_once(mut self, pieces: usize) -> Self {
        self.at_once = Some(pieces);
        self
    }

    /// Sets the maximum number of threads that the worker keeps in memory per graph. The worker can execute the next
    /// superstep of such a thread without reading the thread from Restate. Defaults to 1,000.
    pub fn threads_in_memory(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets a function that computes details of an error for clients. Clients find the details in
    /// [`RunFailure::details`](crate::RunFailure::details).
    pub fn describe(mut self, describe: impl Fn(&RunError) -> Value + Send + Sync + 'static) -> Self {
        self.describe = Some(Arc::new(describe));
        self
    }

    /// Listens at this address and executes the invocations of Restate until the process ends. Restate sends
    /// invocations only to registered workers, so call [`register`](crate::register) or `restate deployments register`
    /// once.
    pub async fn serve(self, address: &str) -> Result<(), Error> {
        let failed = |error| Error::Listen { address: address.to_owned(), error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        self.serve_until(listener, std::future::pending::<()>()).await
    }

    /// Accepts connections from this listener and executes the invocations of Restate until the future `stop`
    /// completes. Then accepts no more connections, and waits at most 10 seconds for the open ones.
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
        // Accepted connections inherit the option. Without it, each entry of a journal waits 40 ms for the
        // acknowledgement of the previous one.
        if let Err(error) = socket2::SockRef::from(&listener).set_tcp_nodelay(true) {
            tracing::warn!(%error, "cannot set `TCP_NODELAY`: supersteps will be slow");
        }
        HttpServer::new(builder.build()).serve_with_cancel(listener, stop).await;
        Ok(())
    }
}

/// Listens at a free port of the loopback address, for tests and examples. Returns the listener and its address.
pub async fn loopback() -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
