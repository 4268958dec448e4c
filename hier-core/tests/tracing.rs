//! The spans that a run makes: run, step, task.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use hier_core::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Log {
    #[reducer(append)]
    log: Vec<String>,
}

async fn one() -> LogUpdate {
    Log::update().log(["one".to_owned()])
}

async fn two() {}

async fn three() {}

graph! {
    Traced<Log> = Graph { nodes: [one, two, three], edges: [START >> one >> [two, three] >> END] }
}

/// Keeps each new span as its path of names, with its node or step.
struct Spans(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Label(String);

impl Visit for Label {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if ["graph", "step", "node"].contains(&field.name()) && self.0.is_empty() {
            self.0 = format!("{value:?}").replace('"', "");
        }
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut label = Label::default();
        attributes.record(&mut label);
        let path: Vec<_> = context.span_scope(id).expect("the span").from_root().map(|span| span.name()).collect();
        self.0.lock().expect("the spans").push(format!("{} {}", path.join("/"), label.0));
    }
}

#[tokio::test]
async fn run_has_spans_of_steps_and_tasks() {
    let spans = Arc::new(Mutex::new(Vec::new()));
    let subscriber = tracing_subscriber::registry().with(Spans(spans.clone()));
    let guard = tracing::subscriber::set_default(subscriber);
    let outcome = Traced::compile().invoke(Log::default()).await.expect("it runs");
    drop(guard);
    assert!(outcome.is_finished());
    let spans = spans.lock().expect("the spans").clone();
    let expected =
        ["run traced", "run/step 1", "run/step/task one", "run/step 2", "run/step/task three", "run/step/task two"];
    assert_eq!(spans, expected);
}
