//! Histograms of requests to models, read with the SDK of OpenTelemetry. A separate program, because a process has one
//! meter provider.

use std::collections::BTreeMap;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError, ModelPrice, Prices, Usage};
use hier_core::async_trait;
use opentelemetry::global;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, HistogramDataPoint, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};

graph! {
    Chat<BaseState> = Agent { system: "You answer." }
}

/// The behavior of the model in the next request.
#[derive(Clone, Copy)]
enum Behavior {
    Answer,
    Refuse,
    Hang,
}

struct Slow(Behavior);

#[async_trait]
impl ChatModel for Slow {
    fn name(&self) -> &'static str {
        "slow-1"
    }

    fn provider(&self) -> &'static str {
        "house"
    }

    async fn chat(&self, _: ChatRequest) -> std::result::Result<ChatResponse, ModelError> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let usage = Usage::new(1_000, 20).with_cached(500);
        match self.0 {
            Behavior::Answer => Ok(ChatResponse::new(Message::assistant("Hello.").with_usage(usage))),
            Behavior::Refuse => Err(ModelError::Refused { model: "slow-1".to_owned(), reason: "no".to_owned() }),
            Behavior::Hang => std::future::pending().await,
        }
    }

    async fn stream(&self, request: ChatRequest) -> std::result::Result<ChatStream, ModelError> {
        let chunks: Vec<_> = self.chat(request).await?.into_chunks().map(Ok).collect();
        Ok(Box::pin(futures_util::stream::iter(chunks)))
    }
}

fn context(behavior: Behavior) -> BaseContext {
    BaseContext::new(Slow(behavior)).prices(Prices::new().model("slow-1", ModelPrice::new(1_000.0, 10_000.0)))
}

/// The unit of each metric, and its points by their attributes: count, sum.
#[derive(Debug, Default)]
struct Read {
    units: BTreeMap<String, String>,
    points: BTreeMap<String, (u64, f64)>,
    bounds: BTreeMap<String, Vec<f64>>,
}

impl Read {
    fn of(all: &[ResourceMetrics]) -> Self {
        let mut read = Self::default();
        // Each export has the sums since the start.
        for metric in all.last().expect("an export").scope_metrics().flat_map(ScopeMetrics::metrics) {
            read.units.insert(metric.name().to_owned(), metric.unit().to_owned());
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                    histogram.data_points().for_each(|point| read.add(metric.name(), point, |sum| sum));
                }
                AggregatedMetrics::U64(MetricData::Histogram(histogram)) => {
                    histogram.data_points().for_each(|point| {
                        read.add(metric.name(), point, |sum| f64::from(u32::try_from(sum).expect("few tokens")));
                    });
                }
                other => panic!("{}: {other:?}", metric.name()),
            }
        }
        read
    }

    fn add<T: Copy>(&mut self, metric: &str, point: &HistogramDataPoint<T>, sum: impl Fn(T) -> f64) {
        let mut attributes: Vec<String> =
            point.attributes().map(|attribute| format!("{}={}", attribute.key, attribute.value)).collect();
        attributes.sort_unstable();
        let key = format!("{metric} {}", attributes.join(" "));
        self.points.insert(key, (point.count(), sum(point.sum())));
        self.bounds.insert(metric.to_owned(), point.bounds().collect());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_measured_by_the_conventions() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    global::set_meter_provider(provider.clone());
    let chat = Chat::compile();
    for _ in 0..2 {
        let _ = chat.invoke(Message::user("?")).context(context(Behavior::Answer)).await.unwrap();
    }
    let mut events = chat.stream(Message::user("?")).context(context(Behavior::Answer)).modes([StreamMode::Messages]);
    while let Some(event) = events.next().await {
        event.unwrap();
    }
    chat.invoke(Message::user("?")).context(context(Behavior::Refuse)).await.unwrap_err();
    let hanging = chat.invoke(Message::user("?")).context(context(Behavior::Hang)).into_future();
    tokio::time::timeout(Duration::from_mins(1), hanging).await.unwrap_err();
    // A dropped run ends its tasks soon.
    tokio::time::sleep(Duration::from_secs(1)).await;

    provider.force_flush().unwrap();
    let read = Read::of(&exporter.get_finished_metrics().unwrap());
    let units: Vec<_> = read.units.iter().map(|(name, unit)| (&**name, &**unit)).collect();
    assert_eq!(
        units,
        [
            ("gen_ai.client.operation.duration", "s"),
            ("gen_ai.client.operation.time_to_first_chunk", "s"),
            ("gen_ai.client.token.usage", "{token}"),
            ("gen_ai.usage.cost", "USD"),
        ]
    );
    let of = "gen_ai.operation.name=chat gen_ai.provider.name=house gen_ai.request.model=slow-1";
    let point = |key: &str| {
        let (count, sum) = *read.points.get(key).unwrap_or_else(|| panic!("no `{key}` in {:#?}", read.points));
        (count, sum.round())
    };
    assert_eq!(point(&format!("gen_ai.client.operation.duration {of}")), (3, 6.0));
    assert_eq!(point(&format!("gen_ai.client.operation.duration error.type=refused {of}")), (1, 2.0));
    let (count, seconds) = point(&format!("gen_ai.client.operation.duration error.type=cancelled {of}"));
    assert!(count == 1 && (60.0..=61.0).contains(&seconds), "{seconds}");
    assert_eq!(point(&format!("gen_ai.client.operation.time_to_first_chunk {of}")), (1, 2.0));
    assert_eq!(point(&format!("gen_ai.client.token.usage {of} gen_ai.token.type=input")), (3, 3_000.0));
    assert_eq!(point(&format!("gen_ai.client.token.usage {of} gen_ai.token.type=output")), (3, 60.0));
    let (answers, dollars) = read.points[&format!("gen_ai.usage.cost {of}")];
    assert!(answers == 3 && (dollars - 3.6).abs() < 1e-9, "{dollars}");
    assert_eq!(read.points.len(), 7, "{:#?}", read.points);
    assert_eq!(read.bounds["gen_ai.client.operation.duration"][..3], [0.01, 0.02, 0.04]);
    assert_eq!(read.bounds["gen_ai.client.token.usage"][..3], [1.0, 4.0, 16.0]);
}
