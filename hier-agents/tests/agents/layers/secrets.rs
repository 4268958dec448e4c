//! Secrets in any encoding, through any order of layers: none of their letters is sent, streamed, stored, logged or returned.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use hier_agents::layer::{Emails, Fallback, IpAddresses, Layer, Limit, ModelCall, ModelReply, NextModel, Redact};
use hier_agents::prelude::*;
use hier_agents::{
    AgentBuilder, ChatChunk, ChatModel, ChatRequest, ChatResponse, ChatStream, Compact, ModelError, ToolErrors,
    ask_operator,
};
use hier_core::checkpoint::{Checkpointer, ListQuery, MemorySaver};
use hier_core::graph::{CompiledGraph, Retry};
use hier_core::{Event, async_trait};
use hier_testkit::ScriptedModel;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt;

use crate::support::call;

/// The encoding of a secret within a text.
#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    Json,
    Nested,
    Numbers,
}

const FORMS: [Form; 4] = [Form::Plain, Form::Json, Form::Nested, Form::Numbers];

fn json_of(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a text");
    quoted[1..quoted.len() - 1].to_owned()
}

impl Form {
    fn of(self, secret: &str) -> String {
        match self {
            Self::Plain => secret.to_owned(),
            Self::Json => json_of(secret),
            Self::Nested => json_of(&json_of(secret)),
            Self::Numbers => secret.encode_utf16().fold(String::new(), |mut text, unit| {
                let _ = write!(text, "\\u{unit:04x}");
                text
            }),
        }
    }
}

/// The texts of a case.
#[derive(Clone, Debug)]
struct Case {
    secrets: [String; 2],
    forms: [Form; 4],
    /// The size of the pieces in which the model answers, in letters.
    cut: usize,
    /// The layers, by their numbers.
    layers: Vec<u8>,
    fails: bool,
}

impl Case {
    /// Both secrets, in this form.
    fn text(&self, form: usize) -> String {
        let [one, other] = [0, 1].map(|which| self.forms[(form + which) % 4].of(&self.secrets[which]));
        format!(r#"Look: {{"one": "{one}", "list": ["{other}"]}} {one}"#)
    }

    fn leak(&self, text: &str) -> Option<String> {
        let forms = self.secrets.iter().flat_map(|secret| FORMS.map(|form| form.of(secret)));
        forms.into_iter().find(|form| text.contains(&**form))
    }
}

struct Desk {
    base: BaseContext,
    other: Loose,
    case: Arc<Case>,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// A model that streams the next answer in pieces.
#[derive(Clone)]
struct Loose {
    case: Arc<Case>,
    script: Arc<Mutex<VecDeque<Message>>>,
    errors: Arc<Mutex<Vec<ModelError>>>,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
}

impl Loose {
    fn answer(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let is_summary = request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize"));
        self.asked.lock().unwrap().push(request);
        if is_summary {
            return Ok(ChatResponse::new(Message::assistant(self.case.text(2))));
        }
        if let Some(error) = self.errors.lock().unwrap().pop() {
            return Err(error);
        }
        let next = self.script.lock().unwrap().pop_front();
        Ok(ChatResponse::new(next.unwrap_or_else(|| Message::assistant("done"))))
    }
}

#[async_trait]
impl ChatModel for Loose {
    fn name(&self) -> &'static str {
        "loose"
    }

    fn context_tokens(&self) -> Option<u64> {
        Some(700)
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.answer(request)
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let response = self.answer(request)?;
        let letters: Vec<char> = response.text().chars().collect();
        let texts = letters.chunks(self.case.cut).map(|piece| ChatChunk::Text(piece.iter().collect()));
        let calls = response.message.tool_calls().iter().flat_map(|call| {
            let letters: Vec<char> = call.args.to_string().chars().collect();
            let pieces: Vec<String> = letters.chunks(self.case.cut).map(|piece| piece.iter().collect()).collect();
            pieces.into_iter().map(|piece| ChatChunk::call_arguments(call.id.clone(), piece))
        });
        let pieces: Vec<_> = texts.chain(calls).chain([ChatChunk::Done(response.clone())]).map(Ok).collect();
        Ok(Box::pin(futures_util::stream::iter(pieces)))
    }
}

/// Finds something.
#[tool]
async fn find(name: String, run: &Run<Desk>) -> String {
    format!("{name}: {}", run.context().case.text(0))
}

/// Records something.
#[tool(step)]
async fn record(name: String, run: &Run<Desk>) -> Vec<Message> {
    let _ = name;
    vec![Message::user(run.context().case.text(1))]
}

/// Fails.
#[tool(retry = 2)]
async fn fails(run: &Run<Desk>) -> hier_core::Result<String> {
    Err(NodeError::new(run.context().case.text(3)))
}

/// A layer that adds secrets to sent and stored data, and logs its calls.
struct Talks;

#[async_trait]
impl Layer<BaseState, Desk> for Talks {
    async fn model_call(
        &self,
        mut call: ModelCall<'_, BaseState, Desk>,
        next: NextModel<'_, BaseState, Desk>,
    ) -> Result<ModelReply<BaseState>, NodeError> {
        let secret = call.context().case.text(1);
        tracing::info!(request = ?call.request, "asks");
        let more = Message::user(secret.clone());
        call.request.messages = call.request.messages.iter().cloned().chain([more]).collect();
        let reply = next.call(call).await;
        tracing::info!(?reply, "answered");
        Ok(reply?.write(BaseState::update().chat_with_operator(Message::user(secret))))
    }
}

fn agent(case: &Case) -> CompiledGraph<BaseState, Desk> {
    let mut agent = AgentBuilder::<BaseState, Desk>::new("desk").tool_errors(ToolErrors::Tell);
    agent = agent.tool(find::TOOL).tool(record::TOOL).tool(fails::TOOL);
    for layer in &case.layers {
        agent = match layer {
            0 => agent.layer(Redact::texts([case.secrets[0].clone()])),
            1 => agent.layer(Redact::texts([case.secrets[1].clone()]).mark("***")),
            2 => agent.layer(Compact::default()),
            3 => agent.layer(Fallback::<Desk>::new(|desk| &desk.other)),
            4 => agent.layer(Retry::default()),
            5 => agent.layer(Limit::new().model_calls(20)),
            _ => agent.layer(Talks),
        };
    }
    agent.compile().unwrap_or_else(|error| panic!("{error}"))
}

/// Everything that is logged.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<String>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Logs {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        event.record(&mut self.clone());
    }

    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        attributes.record(&mut self.clone());
    }
}

impl Logs {
    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl tracing::field::Visit for Logs {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let mut text = self.0.lock().unwrap();
        let _ = writeln!(text, "{field}: {value:?}");
    }
}

/// Everything that a run exposes.
async fn shown(case: Case) -> Vec<(&'static str, String)> {
    let case = Arc::new(case);
    let arguments = |form: usize| json!({ "name": case.text(form), (case.secrets[0].clone()): [case.text(form + 1)] });
    let script = [
        call("find", json!({ "name": case.text(3) })),
        call("record", json!({ "name": case.text(1) })),
        call("fails", json!({})),
        call("find", arguments(2)),
        Message::assistant(case.text(0)),
    ];
    let broken = std::io::Error::other(case.text(2));
    let model = "loose".to_owned();
    let errors = if case.fails {
        vec![
            ModelError::Refused { model: model.clone(), reason: case.text(1) },
            ModelError::Unavailable { model, reason: "broken".to_owned(), source: Some(Arc::new(broken)) },
        ]
    } else {
        Vec::new()
    };
    let model = Loose {
        case: case.clone(),
        script: Arc::new(Mutex::new(script.into())),
        errors: Arc::new(Mutex::new(errors)),
        asked: Arc::default(),
    };
    let saver = MemorySaver::new();
    let graph = agent(&case).checkpointer(saver.clone());
    let context = Desk { base: BaseContext::new(model.clone()), other: model.clone(), case };
    let all = [StreamMode::Messages, StreamMode::Updates, StreamMode::Values, StreamMode::Tasks];
    let mut events = graph.stream(Message::user("go")).thread("t").context(context).modes(all);
    let mut received = String::new();
    while let Some(event) = events.next().await {
        let _ = match &event {
            Ok(Event::Message(spoken)) => match &spoken.chunk {
                ChatChunk::Text(text) | ChatChunk::Reasoning(text) | ChatChunk::CallArguments { text, .. } => {
                    write!(received, "{text}")
                }
                other => write!(received, "\n{other:?}"),
            },
            Ok(other) => write!(received, "\n{other:?}"),
            Err(error) => write!(received, "\n{error:?} {error}"),
        };
    }
    let outcome = events.outcome().await;
    let mut stored = String::new();
    for listed in saver.list(ListQuery::thread("t")).await.unwrap() {
        let found = saver.get("t", "", Some(listed.checkpoint.id)).await.unwrap().unwrap();
        let values = found.values.iter().flat_map(|(_, chain)| chain.full.iter().chain(&chain.deltas));
        let writes = found.writes.iter().flat_map(|task| &task.writes).map(|write| &write.value);
        for bytes in values.chain(writes) {
            stored.push_str(&String::from_utf8_lossy(bytes));
        }
    }
    let text = |message: &Message| serde_json::to_string(message).unwrap() + &message.text();
    let asked = model.asked.lock().unwrap().clone();
    let requests = asked.iter().flat_map(|request| request.messages.iter()).map(text).collect();
    let (result, error) = match outcome {
        Ok(outcome) => (format!("{:?}", outcome.state()), String::new()),
        Err(error) => (String::new(), format!("{error} {error:?}")),
    };
    vec![("events", received), ("store", stored), ("requests", requests), ("state", result), ("error", error)]
}

fn secret() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        4 => proptest::char::range('a', 'z').prop_map(String::from),
        1 => prop_oneof![Just("\""), Just("\\"), Just("/"), Just("ü"), Just("😀"), Just("\n"), Just("\t")].prop_map(String::from),
    ];
    vec(letter, 4..10).prop_map(|letters| format!("Q{}Z", letters.concat()))
}

fn cases() -> impl Strategy<Value = Case> {
    let form = (0..4_usize).prop_map(|form| FORMS[form]);
    let layers = Just((0..7_u8).collect::<Vec<_>>()).prop_shuffle();
    let forms = [form.clone(), form.clone(), form.clone(), form];
    let secrets = [secret().boxed(), secret().boxed()];
    (secrets, forms, 1..12_usize, layers, 0..5_usize, any::<bool>()).prop_map(
        |(secrets, forms, cut, mut layers, without, fails)| {
            // Some of the other layers are left out.
            layers.retain(|layer| *layer < 2 || usize::from(*layer) != without + 2);
            Case { secrets, forms, cut, layers, fails }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn secrets_appear_nowhere(case in cases()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let logs = Logs::default();
        crate::support::log_on_all_threads();
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(logs.clone()));
        let mut shown = runtime.block_on(shown(case.clone()));
        drop(guard);
        shown.push(("logs", logs.text()));
        // Two layers may find the same secret: the mark is that of one of them.
        let is_marked = |text: &str| text.contains("***") || text.contains("[redacted]");
        prop_assert!(shown.iter().any(|(_, text)| is_marked(text)), "{shown:?}");
        for (place, text) in shown {
            if let Some(leak) = case.leak(&text) {
                prop_assert!(false, "{place}: {leak} in {text}");
            }
        }
    }
}

/// Each kind of secret has a layer, and each layer replaces what the user said.
#[tokio::test]
async fn two_redacting_layers_remove_all_stored_secrets() {
    let model = ScriptedModel::new([Message::assistant("I see.")]);
    let agent = AgentBuilder::<BaseState>::new("desk").layer(Redact::new(Emails)).layer(Redact::new(IpAddresses));
    let desk = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let asked = Message::user("I am joe@example.com at 10.0.0.7");
    let out = desk.invoke(asked).thread("t").context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!(out.state().messages.get(0).unwrap().text(), "I am [redacted] at [redacted]");
    let state = desk.state("t").await.unwrap();
    assert_eq!(state.values.messages.get(0).unwrap().text(), "I am [redacted] at [redacted]");
    assert_eq!(model.requests()[0].messages.last().unwrap().text(), "I am [redacted] at [redacted]");
}

/// The operator's answer is part of two conversations.
#[tokio::test]
async fn operator_answer_is_redacted() {
    let model = ScriptedModel::new([call("ask_operator", json!({"question": "Who?"})), Message::assistant("done")]);
    let agent = AgentBuilder::<BaseState>::new("desk").tool(ask_operator).layer(Redact::new(Emails));
    let desk = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let context = || BaseContext::new(model.clone());
    let _ = desk.invoke(Message::user("go")).thread("t").context(context()).await.unwrap();
    let out = desk.invoke(Command::resume("eva@example.org")).thread("t").context(context()).await.unwrap();
    let state = serde_json::to_string(out.state()).unwrap();
    assert!(!state.contains("example.org"), "{state}");
    assert_eq!(out.state().chat_with_operator.last().unwrap().text(), "[redacted]");
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trial {
    #[state(flatten)]
    base: BaseState,
    verdict: Option<Verdict>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
struct Verdict {
    who: String,
}

graph! {
    Judge<Trial> = Agent { answer: verdict, layers: [Redact::texts(["Müller"])] }
}

/// A text answer is parsed after redaction, even if its letters are escaped.
#[tokio::test]
async fn typed_answer_is_redacted() {
    let model = ScriptedModel::new([Message::assistant(r#"{"who": "M\u00fcller"}"#)]);
    let out = Judge::compile().invoke(Message::user("go")).context(BaseContext::new(model)).await.unwrap();
    assert_eq!(out.state().verdict, Some(Verdict { who: "[redacted]".to_owned() }));
    let state = serde_json::to_string(out.state()).unwrap();
    assert!(!state.contains("M\\u00fcller") && !state.contains("Müller"), "{state}");
}
