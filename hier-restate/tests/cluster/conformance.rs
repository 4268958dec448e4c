//! The recorded scenarios, on the cluster: graphs and hierarchies, each call with and without a listener.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hier_conformance::{Elsewhere, ElsewhereError, ElsewhereState, describe, run_elsewhere};
use hier_core::checkpoint::ListQuery;
use hier_core::graph::{DynGraph, DynInput, DynSnapshot, DynUpdates};
use hier_core::runs::{NewEvent, StreamMode};
use hier_core::{Config, Outcome, async_trait};
use hier_restate::{Error, FanOut, Hub, RemoteGraph, RunFailure, StreamItem};

use serde_json::Value;

use crate::support::serve;

/// The graphs of all scenarios, behind one name.
#[derive(Default)]
struct Graphs(Mutex<HashMap<String, Arc<dyn DynGraph>>>);

struct Cluster {
    graphs: Arc<Graphs>,
    remote: RemoteGraph,
    hub: Hub,
}

fn error(error: Error) -> ElsewhereError {
    match error {
        Error::Run(RunFailure { kind, message, cause, details, .. }) => {
            ElsewhereError { kind, message, cause, details }
        }
        other => ElsewhereError {
            kind: "Cluster".to_owned(),
            message: other.to_string(),
            cause: other.to_string(),
            details: Value::Null,
        },
    }
}

fn state(snapshot: DynSnapshot) -> ElsewhereState {
    let DynSnapshot { values, next, checkpoint, step, source, questions, .. } = snapshot;
    ElsewhereState { values, next, checkpoint, step, source, questions }
}

#[async_trait]
impl Elsewhere for Cluster {
    async fn put(&self, graph: Arc<dyn DynGraph>) -> String {
        let mut graphs = self.graphs.0.lock().unwrap();
        let prefix = format!("{}/", graphs.len());
        graphs.insert(prefix.clone(), graph);
        prefix
    }

    async fn run(
        &self,
        input: DynInput,
        config: Config,
        listened: bool,
    ) -> (Vec<NewEvent>, Result<Outcome<Value>, ElsewhereError>) {
        if !listened {
            return (Vec::new(), self.remote.invoke(input).config(config).await.map_err(error));
        }
        let mut stream = self
            .remote
            .stream(&self.hub, input)
            .config(config)
            .modes([StreamMode::Values, StreamMode::Updates, StreamMode::Custom])
            .start();
        let mut events = Vec::new();
        while let Some(received) = stream.next().await {
            match received {
                StreamItem::Event(event) => events.push(event),
                received => panic!("no process died here, and yet: {received:?}"),
            }
        }
        (events, stream.outcome().await.map_err(error))
    }

    async fn state(&self, config: Config) -> Result<ElsewhereState, ElsewhereError> {
        self.remote.state(config).await.map(state).map_err(error)
    }

    async fn history(&self, config: Config) -> Result<Vec<ElsewhereState>, ElsewhereError> {
        let history = self.remote.history(config, ListQuery::default()).await.map_err(error)?;
        Ok(history.into_iter().map(state).collect())
    }

    async fn update_state(&self, config: Config, update: DynUpdates) -> Result<(), ElsewhereError> {
        self.remote.update_state(config, update).await.map(|_| ()).map_err(error)
    }
}

async fn agree(fan_out: FanOut) {
    let graphs = Arc::new(Graphs::default());
    let chosen = graphs.clone();
    let choose = move |thread: &str| {
        let prefix = &thread[..=thread.find('/')?];
        chosen.0.lock().unwrap().get(prefix).cloned()
    };
    let remote = serve(|endpoint, name| endpoint.graph_by(name, choose).fan_out(fan_out).describe(describe)).await;
    let hub = Hub::listen("127.0.0.1:0").await.unwrap();
    let place = Cluster { graphs, remote, hub };
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance"));
    let only = std::env::var("HIER_TEST_SCENARIO").ok();
    let paths: Vec<PathBuf> = match &only {
        Some(name) => vec![folder.join(name)],
        None => vec![folder.join("graphs"), folder.join("hierarchies")],
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let totals = run_elsewhere(&paths, &place, &mut out, &mut err).await.unwrap();
    let lines = String::from_utf8(out).unwrap();
    let wrong: Vec<&str> = lines.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(totals.failed == 0 && totals.bad == 0, "{}\n{}", wrong.join("\n"), String::from_utf8_lossy(&err));
    assert!(only.is_some() || totals.passed > 150, "{totals:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn scenarios_agree_with_remote_tasks() {
    agree(FanOut::Remote(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn scenarios_agree_with_local_tasks() {
    agree(FanOut::Local).await;
}
