//! Metrics of a worker, read with the SDK of OpenTelemetry. A separate program, because a process has one meter provider.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hier_core::checkpoint::{Checkpointer, ListQuery, MemorySaver};
use hier_core::graph::{DynGraph, DynGraphInfo, DynInput, DynRun, DynSnapshot, DynUpdates, GraphSchemas};
use hier_core::prelude::*;
use hier_core::runs::{Cancel, MemoryRuns, NewRun, Request, Run as RunRow, RunStatus, RunStore};
use hier_core::spec::GraphSpec;
use hier_core::{CancellationToken, Outcome, Result, RunError};
use hier_worker::Worker;
use opentelemetry::global;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    n: u64,
}

/// Fails at 0, and never ends at 9.
async fn step(count: &Count) -> Result<CountUpdate> {
    match count.n {
        0 => Err(NodeError::permanent("nothing to count")),
        9 => std::future::pending().await,
        n => Ok(Count::update().n(n + 1)),
    }
}

graph! { Counter<Count> = Graph { nodes: [step], edges: [START >> step >> END] } }

/// A graph whose threads are elsewhere, as on a cluster.
struct Elsewhere {
    graph: Arc<dyn DynGraph>,
    saver: MemorySaver,
}

impl DynGraphInfo for Elsewhere {
    fn spec(&self) -> &GraphSpec {
        self.graph.spec()
    }

    fn schemas(&self) -> &GraphSchemas {
        self.graph.schemas()
    }

    fn check(&self, input: &DynInput) -> Result<(), RunError> {
        self.graph.check(input)
    }
}

#[async_trait]
impl DynGraph for Elsewhere {
    fn runs_elsewhere(&self) -> bool {
        true
    }

    async fn run(&self, mut run: DynRun) -> Result<Outcome<Value>, RunError> {
        run.saver = Some(Arc::new(self.saver.clone()));
        self.graph.run(run).await
    }

    async fn state(&self, _: Arc<dyn Checkpointer>, config: Config) -> Result<DynSnapshot, RunError> {
        self.graph.state(Arc::new(self.saver.clone()), config).await
    }

    async fn history(
        &self,
        _: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError> {
        self.graph.history(Arc::new(self.saver.clone()), config, query).await
    }

    async fn update_state(
        &self,
        _: Arc<dyn Checkpointer>,
        config: Config,
        supersteps: Vec<Vec<DynUpdates>>,
    ) -> Result<Config, RunError> {
        self.graph.update_state(Arc::new(self.saver.clone()), config, supersteps).await
    }
}

/// Reads the counts of histograms and the values of sums, by metric and attributes.
fn read(exports: &[ResourceMetrics]) -> BTreeMap<String, i64> {
    let metrics = exports.last().expect("an export").scope_metrics().flat_map(ScopeMetrics::metrics);
    let mut points = BTreeMap::new();
    for metric in metrics {
        let mut add = |attributes: Vec<String>, value| {
            let mut attributes = attributes;
            attributes.sort_unstable();
            points.insert(format!("{} {}", metric.name(), attributes.join(" ")), value);
        };
        match metric.data() {
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                for point in histogram.data_points() {
                    let attributes = point.attributes().map(|it| format!("{}={}", it.key, it.value)).collect();
                    add(attributes, i64::try_from(point.count()).unwrap());
                }
            }
            AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    let attributes = point.attributes().map(|it| format!("{}={}", it.key, it.value)).collect();
                    add(attributes, point.value());
                }
            }
            other => panic!("{}: {other:?}", metric.name()),
        }
    }
    points
}

async fn ended(store: &MemoryRuns, run: &RunRow) {
    let mut changes = store.driver().notifier().thread(&run.thread);
    while store.driver().run(run.id).await.unwrap().is_some_and(|run| run.status.is_live()) {
        let _ = tokio::time::timeout(Duration::from_millis(100), changes.changed()).await;
    }
}

#[tokio::test]
async fn runs_of_a_worker_are_measured() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    global::set_meter_provider(provider.clone());
    let (store, stop) = (Arc::new(MemoryRuns::new()), CancellationToken::new());
    let graph: Arc<dyn DynGraph> = Arc::new(Counter::compile().erase(|_| Ok(())));
    let elsewhere = Elsewhere { graph: graph.clone(), saver: MemorySaver::new() };
    let worker = Worker::new(store.clone()).dyn_graph("counter", graph).dyn_graph("elsewhere", Arc::new(elsewhere));
    let working = tokio::spawn(worker.run_until(stop.clone()));
    let start_on = |graph: &'static str, thread: &'static str, n: u64| {
        let new = NewRun::new(thread, graph, Request::input(json!({ "n": n }))).create_thread();
        let store = store.clone();
        async move { store.driver().create_run(new).await.unwrap() }
    };
    let start = |thread, n| start_on("counter", thread, n);
    for (thread, n) in [("one", 1), ("two", 1), ("failing", 0)] {
        ended(&store, &start(thread, n).await).await;
    }
    let read = || {
        provider.force_flush().unwrap();
        read(&exporter.get_finished_metrics().unwrap())
    };
    let started = async |run: &RunRow| {
        while store.driver().run(run.id).await.unwrap().is_some_and(|run| run.started.is_none()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // A run on a cluster cannot be rolled back, and ends as interrupted.
    let kept = start_on("elsewhere", "kept", 9).await;
    started(&kept).await;
    store.driver().cancel_runs("kept", &[kept.id], Cancel::Rollback).await.unwrap();
    ended(&store, &kept).await;
    assert_eq!(store.driver().run(kept.id).await.unwrap().unwrap().status, RunStatus::Interrupted);
    let hanging = start("hanging", 9).await;
    started(&hanging).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let points = read();
    assert_eq!(points["hier.run.running hier.graph=counter"], 1, "{points:#?}");
    assert_eq!(points["hier.run.wait hier.graph=counter"], 4, "{points:#?}");
    assert_eq!(points["hier.run.duration hier.graph=counter hier.run.status=success"], 2, "{points:#?}");
    assert_eq!(points["hier.run.duration hier.graph=counter hier.run.status=error"], 1, "{points:#?}");
    assert_eq!(points["hier.run.duration hier.graph=elsewhere hier.run.status=interrupted"], 1, "{points:#?}");

    // A worker that stops returns its runs to the queue.
    stop.cancel();
    working.await.unwrap();
    let points = read();
    assert_eq!(points["hier.run.running hier.graph=counter"], 0, "{points:#?}");
    assert_eq!(points["hier.run.duration hier.graph=counter hier.run.status=requeued"], 1, "{points:#?}");
    assert_eq!(points.len(), 8, "{points:#?}");
}
