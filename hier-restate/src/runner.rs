//! The runner with which a server passes its runs to the cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hier_core::checkpoint::{Checkpointer, Inbox, ListQuery, MemorySaver, SaverError};
use hier_core::drive;
use hier_core::graph::{DynGraph, DynGraphInfo, DynInput, DynRun, DynSnapshot, DynUpdates, GraphSchemas};
use hier_core::spec::GraphSpec;
use hier_core::{Config, Outcome, RunError};
use serde_json::Value;
use uuid::Uuid;

use crate::client::{Client, RemoteGraph, settings_of};
use crate::error::{Error, RunFailure};
use crate::incoming::StreamItem;
use crate::stream::{Hub, RemoteStream};

/// The interval between attempts to cancel a run that may not have begun yet.
const AGAIN: Duration = Duration::from_millis(200);

/// A runner that passes the runs of a server to the cluster. Pass the runner to `Server::runner` of `hier-server`.
///
/// The workers ([`Endpoint`](crate::Endpoint)) must serve the same graphs under the same names as the server. The
/// server uses its graphs only to check inputs and to describe types. The cluster stores the threads.
///
/// A run has the same id in the server's database and on the cluster. If the server dies, another server claims the run
/// in the database and waits for its end on the cluster. A graph receives the `context` and `configurable` of a request
/// only if the worker added the graph with [`Endpoint::graph_by`](crate::Endpoint::graph_by).
#[derive(Clone, Debug)]
pub struct ClusterRunner {
    client: Client,
    hub: Hub,
}

impl ClusterRunner {
    /// Creates a runner. The runner starts runs with the client and receives their events with the hub.
    pub fn new(client: Client, hub: Hub) -> Self {
        Self { client, hub }
    }
}

impl hier_core::graph::Runner for ClusterRunner {
    fn graph(&self, name: &str, graph: Arc<dyn DynGraph>) -> Arc<dyn DynGraph> {
        Arc::new(ClusterGraph { graph, remote: self.client.graph(name), hub: self.hub.clone() })
    }
}

/// A graph whose runs and threads belong to the cluster.
struct ClusterGraph {
    /// The local graph, which checks inputs and describes types.
    graph: Arc<dyn DynGraph>,
    remote: RemoteGraph,
    hub: Hub,
}

impl ClusterGraph {
    /// Converts an error for the server. The server retries the run after an error of Restate.
    fn failed(&self, error: Error) -> RunError {
        let graph = self.graph.spec().name.to_string();
        match error {
            Error::Run(failure) if failure.kind == "Cancelled" => RunError::Cancelled { graph },
            Error::Run(RunFailure { kind, message, cause, .. }) => {
                let message = if kind == "NodeError" { cause } else { message };
                RunError::Elsewhere { kind, message }
            }
            error @ Error::Input(_) => RunError::Config(error.to_string()),
            error => {
                RunError::Saver { graph, error: SaverError::database("cannot run the graph on the cluster", error) }
            }
        }
    }

    /// Forwards the events of the run and waits for its end. After a cancellation, repeats the request to cancel the
    /// run on the cluster until the run has ended.
    async fn follow(
        &self,
        run: DynRun,
        (thread, id): (&str, Uuid),
        mut stream: RemoteStream,
    ) -> Result<Outcome<Value>, Error> {
        let cancel = drive::cancellation(&run.config);
        let cancelling = async {
            cancel.cancelled().await;
            loop {
                if let Err(error) = self.remote.cancel_run(thread, id).await {
                    tracing::warn!(thread, %error, "cannot cancel a run on the cluster, retrying");
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let hearing = async {
            while let Some(item) = stream.next().await {
                match (item, &run.event_sink) {
                    (StreamItem::Event(event), Some(sink)) => sink(event),
                    (StreamItem::Lost, _) => tracing::warn!(thread, "lost events of a run on the cluster"),
                    _ => {}
                }
            }
        };
        tokio::select! {
            () = hearing => {}
            () = cancelling => {}
        }
        stream.outcome().await
    }
}

impl DynGraphInfo for ClusterGraph {
    fn spec(&self) -> &GraphSpec {
        self.graph.spec()
    }

    fn schemas(&self) -> &GraphSchemas {
        self.graph.schemas()
    }

    fn state_schema(&self, nodes: &[String]) -> Option<Value> {
        self.graph.state_schema(nodes)
    }

    fn check_answer(&self, question: &str, answer: &Value) -> Result<(), String> {
        self.graph.check_answer(question, answer)
    }

    fn check(&self, input: &DynInput) -> Result<(), RunError> {
        self.graph.check(input)
    }

    fn names(&self) -> Vec<String> {
        self.graph.names()
    }

    fn inbox(&self) -> Option<&str> {
        self.graph.inbox()
    }
}

#[async_trait]
impl DynGraph for ClusterGraph {
    fn runs_elsewhere(&self) -> bool {
        true
    }

    async fn run(&self, run: DynRun) -> Result<Outcome<Value>, RunError> {
        let mut settings = settings_of(&run.config).map_err(|error| self.failed(error))?;
        settings.context.clone_from(&run.context.context);
        settings.configurable.clone_from(&run.context.configurable);
        let (thread, id) = (settings.thread.clone(), settings.run_id().unwrap_or_else(Uuid::new_v4));
        let stream = self.remote.stream_as(id, &self.hub, run.input.clone(), settings, run.modes.clone());
        self.follow(run, (&thread, id), stream).await.map_err(|error| self.failed(error))
    }

    async fn state(&self, _: Arc<dyn Checkpointer>, config: Config) -> Result<DynSnapshot, RunError> {
        self.remote.state(config).await.map_err(|error| self.failed(error))
    }

    async fn history(
        &self,
        _: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError> {
        self.remote.history(config, query).await.map_err(|error| self.failed(error))
    }

    async fn update_state(
        &self,
        _: Arc<dyn Checkpointer>,
        config: Config,
        supersteps: Vec<Vec<DynUpdates>>,
    ) -> Result<Config, RunError> {
        self.remote.bulk_update_state(config, supersteps).await.map_err(|error| self.failed(error))
    }

    async fn send(
        &self,
        _: Arc<dyn Checkpointer>,
        thread: &str,
        id: Uuid,
        signal: Option<&str>,
        value: &Value,
    ) -> Result<bool, RunError> {
        // The input is checked and wrapped as for a local graph.
        let desk = MemorySaver::new();
        self.graph.send(Arc::new(desk.clone()), thread, id, signal, value).await?;
        let refused = |error| RunError::Saver { graph: self.graph.spec().name.to_string(), error };
        let Some(posted) = desk.messages(thread).await.map_err(refused)?.pop() else { return Ok(false) };
        self.remote.deliver(thread, posted.message).await.map_err(|error| self.failed(error))
    }

    async fn forget(&self, thread: &str) -> Result<(), RunError> {
        self.remote.delete(thread).await.map_err(|error| self.failed(error))
    }
}
