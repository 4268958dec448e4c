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

use crate::cache::Cache;
use crate::context::IntoContext;
use crate::error::Error;
use crate::host::{Choose, Describe, Host};
use crate::service::definitions;
use crate::slice::RemoteRule;

/// How long a payload may be unless told otherwise: half of what a Restate server takes unless told otherwise.
const PAYLOAD: usize = 16 << 20;

/// How long the end of a run is kept unless told otherwise.
const ENDS_KEPT: Duration = Duration::from_hours(24);

/// How many threads a worker has in memory unless told otherwise.
const THREADS: usize = 1_000;

/// Which tasks of a step of several are calls to workers of their own, and which run where the thread is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FanOut {
    /// All of them, in a step of at least so many (2 is the least).
    Remote(usize),
    /// Those of these nodes, in a step that has at least two of them.
    Nodes(Vec<String>),
    /// None: a step is one piece of work.
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

/// A worker: it holds graphs, and does what Restate hands to it. Any number of processes of any number of versions can stand behind
/// one Restate.
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
    /// A worker without graphs yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A graph under a name, by which clients and Restate know it, with the context of its runs: a value, of which each piece of a run
    /// gets a clone, or a function of the thread's id. What is costly in it (clients, pools) is made once, and shared.
    ///
    /// A saver that the graph has is not used: [`saver`](Self::saver) says where its threads are kept, if not in Restate.
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

    /// Graphs under one name, chosen by the id of the thread: for tenants with graphs of their own. The same thread has to get
    /// the same graph, or a version of it.
    pub fn graph_by(
        mut self,
        name: impl Into<String>,
        choose: impl Fn(&str) -> Option<Arc<dyn DynGraph>> + Send + Sync + 'static,
    ) -> Self {
        let choose: Arc<Choose> = Arc::new(choose);
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
            threads: Cache::new(0),
            bases: Cache::new(0),
        });
        self
    }

    fn last(mut self, change: impl FnOnce(&mut Host)) -> Self {
        if let Some(host) = self.hosts.last_mut() {
            change(host);
        }
        self
    }

    /// Which tasks of the graph that was added last are calls to workers of their own. Unless told otherwise all of a step of two or
    /// more: each costs some milliseconds, and what runs for less is faster where the thread is ([`FanOut::Local`]).
    pub fn fan_out(self, fan_out: FanOut) -> Self {
        self.last(|host| host.fan_out = fan_out.inner())
    }

    /// Where the threads of the graph that was added last are kept, instead of in Restate: in a database that all workers reach, where
    /// they can be searched, and where programs without Restate find them. Steps of several tasks then run where the thread is.
    pub fn saver(self, saver: impl Checkpointer) -> Self {
        self.last(|host| host.saver = Some(Arc::new(saver)))
    }

    /// How long Restate keeps the end of each run of the graph that was added last, with the whole state: a day unless told otherwise. So
    /// long a client that has lost its connection, or a server in front, can ask for it again. Who runs much and asks soon makes it shorter.
    pub fn ends_kept(self, time: Duration) -> Self {
        self.last(|host| host.ends_kept = time)
    }

    /// New threads of the graph that was added last keep what they need to go on, and forget their history: what Restate keeps of a thread
    /// then is some times its state, however many supersteps it has had. `history` has what came since the log was last shortened.
    /// Unless told otherwise a thread keeps all of it until it is deleted.
    pub fn latest_only(self) -> Self {
        self.last(|host| host.latest_only = true)
    }

    /// The memory across threads of the graph that was added last.
    pub fn store(self, store: impl Store) -> Self {
        self.last(|host| host.store = Some(Arc::new(store)))
    }

    /// The longest payload that Restate is given, in bytes: 16 MiB unless told otherwise. The server's limit
    /// (`worker.invoker.message-size-limit`) has to be greater. What is longer ends the run with the kind `PayloadTooLarge`, and
    /// the thread stays as it was.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// How many supersteps and tasks this process does at once, of all its graphs together (1 is the least): unless told otherwise as
    /// many as it is given. What it is given beyond waits here, and nobody else takes it, so that whatever spreads the requests over
    /// workers should do so request by request.
    pub fn at_once(mut self, pieces: usize) -> Self {
        self.at_once = Some(pieces);
        self
    }

    /// How many threads stay in memory for their next superstep: 1,000 of each graph unless told otherwise. Those that do not are
    /// read from Restate.
    pub fn threads_in_memory(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Says more of errors to clients: [`Failure::details`](crate::Failure).
    pub fn describe(mut self, describe: impl Fn(&RunError) -> Value + Send + Sync + 'static) -> Self {
        self.describe = Some(Arc::new(describe));
        self
    }

    /// Serves at this address until the process is told to end (Ctrl-C, SIGTERM by the process's own handler). Restate has to be told
    /// of it once: [`register`](crate::register), or `restate deployments register`.
    pub async fn serve(self, address: &str) -> Result<(), Error> {
        let failed = |error| Error::Listen { address: address.to_owned(), error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        self.serve_until(listener, std::future::pending::<()>()).await
    }

    /// Serves where this listener listens, until the future ends.
    pub async fn serve_until(self, listener: TcpListener, stop: impl Future) -> Result<(), Error> {
        let mut builder = restate_sdk::endpoint::Endpoint::builder();
        let slots = self.at_once.map(|pieces| Arc::new(Semaphore::new(pieces.clamp(1, Semaphore::MAX_PERMITS))));
        for mut host in self.hosts {
            host.limit = self.limit;
            host.slots.clone_from(&slots);
            host.describe.clone_from(&self.describe);
            (host.threads, host.bases) = (Cache::new(self.threads), Cache::new(self.threads));
            for definition in definitions(&Arc::new(host))? {
                builder = builder.bind(definition);
            }
        }
        // What is accepted inherits it. Without it each entry of a journal waits for the acknowledgement of the one before, 40 ms.
        if let Err(error) = socket2::SockRef::from(&listener).set_tcp_nodelay(true) {
            tracing::warn!(%error, "the worker's connections cannot be told not to wait: supersteps will be slow");
        }
        HttpServer::new(builder.build()).serve_with_cancel(listener, stop).await;
        Ok(())
    }
}

/// A free port of the loopback address, for tests and examples.
pub async fn loopback() -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
