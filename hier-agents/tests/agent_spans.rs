//! The spans of agents, tools and models, after OpenTelemetry's conventions for generative AI. A separate program:
//! the decision to trace is made once for all threads.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use hier_agents::{ModelPrice, Prices, Usage};

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

graph! {
    Desk<BaseState> = ReactGraph { subagents: [Clerk {}] }
}

graph! {
    Clerk<BaseState> = ReactGraph { tools: [look] }
}

/// Looks.
#[tool]
async fn look() -> String {
    "nothing".to_owned()
}

type Fields = BTreeMap<String, String>;

/// Keeps the `gen_ai` fields of each span, in the order in which the spans began.
struct Spans(Arc<Mutex<Vec<(Id, Fields)>>>);

struct Values<'a>(&'a mut Fields);

impl Visit for Values<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if let Some(name) = field.name().strip_prefix("gen_ai.") {
            self.0.insert(name.to_owned(), format!("{value:?}").replace('"', ""));
        }
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Values(&mut fields));
        self.0.lock().unwrap().push((id.clone(), fields));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        let known = spans.iter_mut().rev().find(|(other, _)| other == id).expect("the span");
        record.record(&mut Values(&mut known.1));
    }
}

#[tokio::test]
async fn agents_tools_and_models_have_spans() {
    let call = |name: &str, args| {
        let calls = [ToolCall { name: name.to_owned(), args, id: format!("call of {name}") }];
        Message::calls("", calls).with_usage(Usage::new(5, 3))
    };
    let model = ScriptedModel::new([
        call("clerk", json!({"task": "x"})),
        call("look", json!({})),
        call("report_to_supervisor", json!({"report": "seen"})),
        call("finish_task", json!({"result": "done"})),
    ]);
    let spans = Arc::new(Mutex::new(Vec::new()));
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(Spans(spans.clone())));
    let prices = Prices::new().model("scripted", ModelPrice::new(100_000.0, 500_000.0));
    let (desk, context) = (Desk::compile_as_root(), BaseContext::new(model).prices(prices));
    assert!(desk.invoke(BaseState::update()).thread("case").context(context).await.unwrap().is_finished());
    drop(guard);
    let spans = spans.lock().unwrap();
    let named: Vec<&Fields> =
        spans.iter().map(|(_, fields)| fields).filter(|fields| fields.contains_key("operation.name")).collect();
    let operations: Vec<&str> = named.iter().map(|fields| &*fields["operation.name"]).collect();
    assert_eq!(operations, ["invoke_agent", "chat", "invoke_agent", "chat", "execute_tool", "chat", "chat"]);
    assert_eq!((&*named[0]["agent.name"], &*named[0]["conversation.id"]), ("desk", "case"));
    assert_eq!((&*named[2]["agent.name"], &*named[2]["conversation.id"]), ("clerk", "case"));
    assert_eq!((&*named[4]["tool.name"], &*named[4]["tool.call.id"]), ("look", "call of look"));
    let chat = named[1];
    assert_eq!(
        (&*chat["request.model"], &*chat["usage.input_tokens"], &*chat["usage.output_tokens"]),
        ("scripted", "5", "3")
    );
    assert_eq!(&*chat["usage.cost"], "2.0", "in US dollars");
}
