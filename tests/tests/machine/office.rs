//! An agent under layers, its tools, and a model that gives the planned answers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hier_agents::layer::{Fallback, Limit, Redact};
use hier_agents::prelude::*;
use hier_agents::{ChatModel, ChatRequest, ChatResponse, Compact, Messages, ModelError, ToolErrors, Usage};
use hier_core::async_trait;
use hier_core::graph::{CompiledGraph, Retry};
use hier_core::message::ToolCall;
use proptest::prelude::*;
use serde_json::json;

/// The secret of the model and the tools, which must not be shown.
pub(crate) const SECRET: &str = "Q7\"ü\\secretZ";
/// The secret of users, which must not be sent to a model.
pub(crate) const USERS: &str = "Qusers-own/Z";
/// The limits of a run.
pub(crate) const MODEL_CALLS: usize = 6;
pub(crate) const TOOL_CALLS: usize = 5;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Filing {
    #[state(flatten)]
    pub(crate) base: BaseState,
    /// The effects of the tools.
    #[reducer(append)]
    pub(crate) done: Vec<String>,
}

pub(crate) type Desk = CompiledGraph<Filing, Office>;

graph! {
    pub(crate) Inside<Filing, Office> = Agent {
        name: "desk",
        tools: [look, pay, record, breaks],
        tool_errors: ToolErrors::Tell,
        layers: [
            Redact::texts([SECRET, USERS]),
            Limit { model_calls: MODEL_CALLS as u64, tool_calls: TOOL_CALLS as u64 },
            Fallback(|office| &office.other),
            Retry { attempts: 2, interval: 1ms },
            Compact { context_tokens: 900 },
        ],
        inbox: messages,
    }
}

graph! {
    pub(crate) Outside<Filing, Office> = Agent {
        name: "desk",
        tools: [look, pay, record, breaks],
        tool_errors: ToolErrors::Tell,
        layers: [
            Compact { context_tokens: 900 },
            Retry { attempts: 2, interval: 1ms },
            Fallback(|office| &office.other),
            Limit { model_calls: MODEL_CALLS as u64, tool_calls: TOOL_CALLS as u64 },
            Redact::texts([USERS]),
            Redact::texts([SECRET]).mark("***"),
        ],
        inbox: messages,
    }
}

graph! {
    pub(crate) Reporting<Filing, Office> = ReactGraph {
        name: "desk",
        reports_to_supervisor: false,
        tools: [look, pay, record, breaks],
        tool_errors: ToolErrors::Tell,
        layers: [
            Limit { model_calls: MODEL_CALLS as u64, tool_calls: TOOL_CALLS as u64 },
            Redact::texts([SECRET, USERS]),
            Retry { attempts: 2, interval: 1ms },
            Compact { context_tokens: 900 },
            Fallback(|office| &office.other),
        ],
        inbox: messages,
    }
}

graph! {
    pub(crate) Unlimited<Filing, Office> = Agent {
        name: "desk",
        tools: [look, pay, record, breaks],
        layers: [Redact::texts([SECRET, USERS])],
        max_repeats: 20,
        inbox: messages,
    }
}

graph! {
    pub(crate) Unredacted<Filing, Office> = Agent {
        name: "desk",
        tools: [look, pay, record, breaks],
        layers: [Limit { model_calls: MODEL_CALLS as u64, tool_calls: TOOL_CALLS as u64 }],
        inbox: messages,
    }
}

/// The kinds of agents. The last two lack layers: the machine must find that.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Inside,
    Outside,
    Reporting,
    Unlimited,
    Unredacted,
}

/// A call that the model makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    Look,
    Pay,
    Record,
    Breaks,
}

/// The next action of the model.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    Calls(Vec<Tool>),
    Text,
    Busy,
    Refuses,
    /// While it is asked, another writes to the inbox.
    Meanwhile(Post),
}

/// The sender of an inbox message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Post {
    User,
    System,
    Assistant,
}

pub(crate) fn say() -> impl Strategy<Value = Say> {
    let tool =
        prop_oneof![2 => Just(Tool::Look), 2 => Just(Tool::Pay), 1 => Just(Tool::Record), 1 => Just(Tool::Breaks)];
    prop_oneof![
        6 => proptest::collection::vec(tool, 1..4).prop_map(Say::Calls),
        1 => Just(Say::Text),
        1 => Just(Say::Busy),
        1 => Just(Say::Refuses),
        2 => post().prop_map(Say::Meanwhile),
    ]
}

pub(crate) fn post() -> impl Strategy<Value = Post> {
    prop_oneof![2 => Just(Post::User), 1 => Just(Post::System), 1 => Just(Post::Assistant)]
}

/// The context of all runs.
#[derive(Clone)]
pub(crate) struct Office {
    base: BaseContext,
    other: Loose,
    pub(crate) world: World,
}

impl AsRef<BaseContext> for Office {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl Office {
    pub(crate) fn new() -> Self {
        let world = World::default();
        let model = |name| Loose { name, world: world.clone() };
        Self { base: BaseContext::new(model("first")), other: model("other"), world }
    }
}

#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    plan: VecDeque<Say>,
    turn: u32,
    /// The number of calls of tools that the model has made.
    calls: usize,
    sent: usize,
    posts: Vec<String>,
    broken: Option<String>,
    desk: Option<(Desk, String)>,
    approved: BTreeSet<String>,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model has this to say in this turn.
    pub(crate) fn plan(&self, turn: u32, plan: &[Say]) {
        let mut inner = self.lock();
        (inner.turn, inner.plan) = (turn, plan.iter().cloned().collect());
    }

    /// The graph and the thread whose inbox takes messages.
    pub(crate) fn writes_to(&self, desk: Desk, thread: &str) {
        self.lock().desk = Some((desk, thread.to_owned()));
    }

    pub(crate) fn breaks(&self, law: String) {
        self.lock().broken.get_or_insert(law);
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.lock().broken.clone()
    }

    /// A call was approved by a person.
    pub(crate) fn approves(&self, name: String) {
        self.lock().approved.insert(name);
    }

    pub(crate) fn approved(&self) -> BTreeSet<String> {
        self.lock().approved.clone()
    }

    /// The texts of the messages that were sent to the inbox.
    pub(crate) fn posts(&self) -> Vec<String> {
        self.lock().posts.clone()
    }

    /// Sends a message to the inbox. It counts once it was taken: the sender may be killed before.
    pub(crate) async fn post(&self, post: Post) -> Result<(), RunError> {
        let (text, desk) = {
            let mut inner = self.lock();
            inner.sent += 1;
            (format!("post {}.", inner.sent), inner.desk.clone())
        };
        let Some((desk, thread)) = desk else { return Ok(()) };
        let message = match post {
            Post::User => Message::user(format!("{text} {USERS}")),
            Post::System => Message::system(&*text),
            Post::Assistant => Message::assistant(&*text),
        };
        desk.send(&*thread, message).await?;
        self.lock().posts.push(text);
        Ok(())
    }

    /// The next answer of the model.
    fn answer(&self, is_reporting: bool) -> Act {
        let mut inner = self.lock();
        match inner.plan.pop_front() {
            Some(Say::Calls(tools)) => {
                let (turn, first) = (inner.turn, inner.calls);
                inner.calls += tools.len();
                let call = |(place, tool): (usize, Tool)| {
                    let number = first + place;
                    let name = match tool {
                        Tool::Look => "look",
                        Tool::Pay => "pay",
                        Tool::Record => "record",
                        Tool::Breaks => "breaks",
                    };
                    let args = json!({ "what": format!("{turn}.{number}"), "why": SECRET });
                    ToolCall::new(name, args).with_id(format!("call {number}"))
                };
                let text = format!("said: {SECRET} {}", "word ".repeat(40));
                Act::Answer(Message::calls(text, tools.into_iter().enumerate().map(call)))
            }
            Some(Say::Busy) => Act::Busy,
            Some(Say::Refuses) => Act::Refuses,
            Some(Say::Meanwhile(post)) => Act::Meanwhile(post),
            Some(Say::Text) | None if is_reporting => {
                let number = inner.calls;
                inner.calls += 1;
                let call = ToolCall::new("finish_task", json!({ "result": SECRET })).with_id(format!("call {number}"));
                Act::Answer(Message::calls("said: done", [call]))
            }
            Some(Say::Text) | None => Act::Answer(Message::assistant(format!("said: {SECRET}"))),
        }
    }
}

/// An action of the model.
enum Act {
    Answer(Message),
    Busy,
    Refuses,
    Meanwhile(Post),
}

/// A model that gives the planned answers, with secrets in them.
#[derive(Clone)]
pub(crate) struct Loose {
    name: &'static str,
    world: World,
}

#[async_trait]
impl ChatModel for Loose {
    fn name(&self) -> &str {
        self.name
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        if let Some(law) = invalid(&request.messages) {
            self.world.breaks(format!("the request is not a valid conversation: {law}"));
        }
        let sent = serde_json::to_string(&request.messages).unwrap_or_default();
        if let Some(leak) = leaks(&sent, &[SECRET, USERS]) {
            self.world.breaks(format!("a model is sent `{leak}`: {sent}"));
        }
        pauses().await;
        let usage = Usage::new(sent.len() as u64 / 4, 20);
        if request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize")) {
            return Ok(ChatResponse::new(Message::assistant(format!("They talked of {SECRET}.")).with_usage(usage)));
        }
        let is_reporting = request.tools.iter().any(|tool| tool.name == "finish_task");
        loop {
            match self.world.answer(is_reporting) {
                Act::Answer(message) => return Ok(ChatResponse::new(message.with_usage(usage))),
                Act::Meanwhile(post) => {
                    if let Err(error) = self.world.post(post).await {
                        self.world.breaks(format!("the inbox takes no message: {error}"));
                    }
                }
                Act::Refuses => {
                    return Err(ModelError::Refused { model: self.name.to_owned(), reason: SECRET.to_owned() });
                }
                Act::Busy => {
                    let (model, reason) = (self.name.to_owned(), format!("busy with {SECRET}"));
                    return Err(ModelError::Unavailable { model, reason, source: None });
                }
            }
        }
    }
}

/// Places where a run can be killed.
async fn pauses() {
    for _ in 0..2 {
        tokio::task::yield_now().await;
    }
}

/// A secret in a text, as it is or as JSON.
pub(crate) fn leaks(text: &str, secrets: &[&'static str]) -> Option<&'static str> {
    let json = |secret: &str| json!(secret).to_string().trim_matches('"').to_owned();
    let leaks = |secret: &&&'static str| text.contains(**secret) || text.contains(&json(secret));
    secrets.iter().find(leaks).copied()
}

/// Returns the fault of a conversation that is sent.
fn invalid(messages: &Messages) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message.tool_call_id() {
            Some(id) => match open.iter().position(|call| *call == id) {
                Some(place) => _ = open.remove(place),
                None => return Some(format!("a result of `{id}` without a call: {messages:?}")),
            },
            None if open.is_empty() => open = message.tool_calls().iter().map(|call| &*call.id).collect(),
            None => return Some(format!("no result of {open:?}: {messages:?}")),
        }
    }
    (!open.is_empty()).then(|| format!("no result of {open:?} at the end: {messages:?}"))
}

/// Looks something up.
#[tool]
async fn look(what: String, why: String) -> Command<Filing> {
    let _ = why;
    pauses().await;
    Command::update(Filing::update().done([format!("looked {what}")]))
}

/// Pays.
#[tool(needs_approval)]
async fn pay(what: String, why: String, run: &Run<Office>) -> Command<Filing> {
    let _ = why;
    if !run.context().world.approved().contains(&what) {
        run.context().world.breaks(format!("`{what}` is paid without approval"));
    }
    pauses().await;
    Command::update(Filing::update().done([format!("paid {what}")]))
}

/// Records something.
#[tool(step)]
async fn record(what: String, why: String) -> String {
    pauses().await;
    format!("recorded {what}: {why}")
}

/// Fails.
#[tool]
async fn breaks(what: String, why: String) -> hier_core::Result<String> {
    Err(NodeError::new(format!("{what} breaks: {why}")))
}
