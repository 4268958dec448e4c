//! Runs that a server hands to the cluster: a graph that stands for one there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hier_core::checkpoint::{Checkpointer, Inbox, ListQuery, MemorySaver, SaverError};
use hier_core::drive;
use hier_core::graph::{DynGraph, DynInput, DynRun, DynSnapshot, DynUpdates, GraphSchemas};
use hier_core::spec::GraphSpec;
use hier_core::{Config, Outcome, RunError};
use serde_json::Value;
use uuid::Uuid;

use crate::client::{Client, RemoteGraph, settings_of};
use crate::error::{Error, Failure};
use crate::stream::{Hub, RemoteStream, Told};

/// How long to wait before a run that could not be cancelled yet is cancelled again: it may not have begun.
const AGAIN: Duration = Duration::from_millis(200);

/// Hands the runs of a server to the cluster: `Server::runner` of `hier-server` takes one. Workers have to serve the same graphs under
/// the same names ([`Endpoint`](crate::Endpoint)); the server has them too, to check inputs and to tell their types.
///
/// The id of a run's row is its idempotency key on the cluster: if the server dies, whoever claims the row next waits for the run that is
/// going, or is told how it ended. What a request gives as `context` and `configurable` reaches the workers' graphs
/// ([`Endpoint::graph_by`](crate::Endpoint::graph_by)). Threads are kept on the cluster.
#[derive(Clone, Debug)]
pub struct Runner {
    client: Client,
    hub: Hub,
}

impl Runner {
    /// Runs are begun by this client, and what they tell comes to this hub.
    pub fn new(client: Client, hub: Hub) -> Self {
        Self { client, hub }
    }
}

impl hier_core::graph::Runner for Runner {
    fn graph(&self, name: &str, graph: Arc<dyn DynGraph>) -> Arc<dyn DynGraph> {
        Arc::new(Handed { graph, remote: self.client.graph(name), hub: self.hub.clone() })
    }
}

/// A graph whose runs and threads are the cluster's.
struct Handed {
    /// The same graph here, which says what it takes.
    graph: Arc<dyn DynGraph>,
    remote: RemoteGraph,
    hub: Hub,
}

impl Handed {
    /// What went wrong, for the server. What is Restate's is for the next worker to try again.
    fn failed(&self, error: Error) -> RunError {
        let graph = self.graph.spec().name.to_string();
        match error {
            Error::Run(failure) if failure.kind == "Cancelled" => RunError::Cancelled { graph },
            Error::Run(Failure { kind, message, cause, .. }) => {
                let message = if kind == "NodeError" { cause } else { message };
                RunError::Elsewhere { kind, message }
            }
            error @ Error::Input(_) => RunError::Config(error.to_string()),
            error => RunError::Saver { graph, error: SaverError::database("run the graph on the cluster", error) },
        }
    }

    /// The run to its end. What it tells is passed on; once it is to be cancelled, the cluster is told so until it has ended.
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
                    tracing::warn!(thread, %error, "a run on the cluster cannot be cancelled; trying again");
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let hearing = async {
            while let Some(told) = stream.next().await {
                match (told, &run.tell) {
                    (Told::Event(event), Some(tell)) => tell(event),
                    (Told::Lost, _) => tracing::warn!(thread, "events of a run on the cluster are missing"),
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

#[async_trait]
impl DynGraph for Handed {
    fn spec(&self) -> &GraphSpec {
        self.graph.spec()
    }

    fn schemas(&self) -> &GraphSchemas {
        self.graph.schemas()
    }

    fn state_schema(&self, nodes: &[String]) -> Option<Value> {
        self.graph.state_schema(nodes)
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
        let settings = settings_of(&config).map_err(|error| self.failed(error))?;
        self.remote.snapshot(settings).await.map_err(|error| self.failed(error))
    }

    async fn history(
        &self,
        _: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError> {
        let settings = settings_of(&config).map_err(|error| self.failed(error))?;
        self.remote.snapshots(settings, query).await.map_err(|error| self.failed(error))
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
        // Checked, and put into an envelope, as it would be here.
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
