//! Sends the spans and metrics of a hierarchy to an OTLP endpoint, following OpenTelemetry's conventions for generative AI.
//!
//! ```text
//! cargo run --features telemetry --example telemetry                               to a receiver in this program, which prints them
//! cargo run --features telemetry --example telemetry -- http://localhost:4318      to your collector: Jaeger, Grafana, Langfuse, …
//! ```
//!
//! The library only opens spans, with the crate `tracing`, and records metrics, with the feature `metrics`. Nothing
//! leaves the process unless the program installs exporters, as this one does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use hier::agent::{ModelPrice, Prices, Usage};

use hier::Result;
use hier::message::ToolCall;
use hier::prelude::*;
use hier::testing::ScriptedModel;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

graph! {
    /// Answers questions about taxes.
    Desk<BaseState> = ReactGraph { subagents: [Clerk {}] }
}

graph! {
    /// Looks up rates.
    Clerk<BaseState> = ReactGraph { tools: [lookup_rate] }
}

/// Looks up the tax rate of a year.
#[tool]
async fn lookup_rate(year: u16) -> String {
    format!("{year}: 7 %")
}

/// The scripted answers and their token usage.
fn script() -> ScriptedModel {
    let call = |name: &str, args| {
        let call = ToolCall { name: name.to_owned(), args, id: format!("call of {name}") };
        Message::calls("", [call]).with_usage(Usage::new(120, 20))
    };
    ScriptedModel::new([
        call("clerk", json!({ "task": "the rate of 2025" })),
        call("lookup_rate", json!({ "year": 2025 })),
        call("report_to_supervisor", json!({ "report": "7 %" })),
        call("finish_task", json!({ "result": "The rate of 2025 is 7 %." })),
    ])
}

fn main() -> Result<()> {
    let (endpoint, received) = match std::env::args().nth(1) {
        Some(endpoint) => (endpoint, None),
        None => receiver().map(|(endpoint, received)| (endpoint, Some(received)))?,
    };
    let (tracer, meter) = (install(&endpoint)?, install_metrics(&endpoint)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let answer = runtime.block_on(async {
        let prices = Prices::new().model("scripted", ModelPrice::new(3.0, 15.0));
        let (desk, context) = (Desk::compile_as_root(), BaseContext::new(script()).prices(prices));
        let question = BaseState::update().messages(Message::user("What is the rate of 2025?"));
        desk.invoke(question).thread("case-17").context(context).await
    })?;
    println!("{}", answer.state().current_agent_report);
    // Flushes what is pending.
    tracer.shutdown()?;
    meter.shutdown()?;
    match received {
        Some(received) => {
            let bodies: Vec<Value> =
                received.try_iter().map(|body| serde_json::from_slice(&body).unwrap_or_default()).collect();
            print(&bodies.iter().flat_map(spans).collect::<Vec<_>>());
            bodies.iter().flat_map(metrics).collect::<BTreeSet<_>>().iter().for_each(|metric| println!("{metric}"));
        }
        None => println!("The spans and metrics were sent to {endpoint}."),
    }
    Ok(())
}

/// Sends all later spans of the program to this endpoint.
fn install(endpoint: &str) -> Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .build()?;
    let resource = Resource::builder().with_service_name("tax-desk").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("hier"));
    // The exporter's connections are not part of the run.
    let ours = tracing_subscriber::filter::filter_fn(|metadata| metadata.target().starts_with("hier"));
    tracing_subscriber::registry().with(tracing_subscriber::Layer::with_filter(layer, ours)).try_init()?;
    Ok(provider)
}

/// Sends the metrics of the program to this endpoint, every minute and at the end.
fn install_metrics(endpoint: &str) -> Result<SdkMeterProvider> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{}/v1/metrics", endpoint.trim_end_matches('/')))
        .build()?;
    let resource = Resource::builder().with_service_name("tax-desk").build();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource).build();
    opentelemetry::global::set_meter_provider(provider.clone());
    Ok(provider)
}

/// Starts a receiver on a free port and returns its URL and the received bodies.
fn receiver() -> Result<(String, Receiver<Vec<u8>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let (bodies, received) = channel();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let bodies = bodies.clone();
            std::thread::spawn(move || serve(connection, &bodies));
        }
    });
    Ok((endpoint, received))
}

/// Answers the requests of a connection until it is closed.
fn serve(connection: TcpStream, bodies: &Sender<Vec<u8>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut answers = connection;
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap_or(0);
                }
                None if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if bodies.send(body).is_err() {
            return Ok(());
        }
        answers.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")?;
    }
}

/// A received span.
struct Span {
    id: String,
    parent: String,
    begin: String,
    name: String,
    attributes: Vec<(String, String)>,
}

fn items(value: &Value, name: &str) -> Vec<Value> {
    value[name].as_array().cloned().unwrap_or_default()
}

fn spans(body: &Value) -> Vec<Span> {
    let resources = items(body, "resourceSpans");
    let scopes = resources.iter().flat_map(|resource| items(resource, "scopeSpans"));
    let spans = scopes.flat_map(|scope| items(&scope, "spans"));
    spans.map(|span| Span::of(&span)).collect()
}

/// Returns the names of the metrics with their units.
fn metrics(body: &Value) -> Vec<String> {
    let resources = items(body, "resourceMetrics");
    let scopes = resources.iter().flat_map(|resource| items(resource, "scopeMetrics"));
    let metrics = scopes.flat_map(|scope| items(&scope, "metrics"));
    let text = |metric: &Value, name: &str| metric[name].as_str().unwrap_or_default().to_owned();
    metrics.map(|metric| format!("{} in {}", text(&metric, "name"), text(&metric, "unit"))).collect()
}

impl Span {
    fn of(span: &Value) -> Self {
        let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
        let attributes = span["attributes"].as_array().into_iter().flatten().filter_map(|attribute| {
            let name = attribute["key"].as_str()?;
            let value = attribute["value"].as_object()?.values().next()?;
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some((name.strip_prefix("gen_ai.")?.to_owned(), value))
        });
        let attributes = attributes.collect();
        let (id, parent, begin) = (text("spanId"), text("parentSpanId"), text("startTimeUnixNano"));
        Self { id, parent, begin, name: text("name"), attributes }
    }
}

/// Prints the spans of agents, tools and models as a tree, in the order of their start.
fn print(spans: &[Span]) {
    let mut children: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        children.entry(&span.parent).or_default().push(span);
    }
    for spans in children.values_mut() {
        spans.sort_by(|one, other| one.begin.cmp(&other.begin));
    }
    branch(&children, "", 0);
    println!("{} spans were received.", spans.len());
}

fn branch(children: &BTreeMap<&str, Vec<&Span>>, parent: &str, depth: usize) {
    for span in children.get(parent).into_iter().flatten() {
        if span.attributes.is_empty() {
            // A step or a task.
            branch(children, &span.id, depth);
            continue;
        }
        let attributes: Vec<String> = span.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        println!("{:indent$}{} {}", "", span.name, attributes.join(" "), indent = depth * 2);
        branch(children, &span.id, depth + 1);
    }
}
