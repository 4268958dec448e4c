//! An agent with a subagent, layers, a compaction and an inbox, run by processes that are killed.
//!
//! The log is the witness: each model request and tool call is recorded before its result exists.

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use hier_agents::layer::{Inherited, Layer, Limit, ModelCall, ModelReply, NextModel};
use hier_agents::prelude::*;
use hier_agents::{Body, ChatModel, ChatRequest, ChatResponse, Compact, ModelError};
use hier_core::checkpoint::WhenRunning;
use hier_core::message::ToolCall;
use hier_core::{Durability, async_trait};
use serde_json::json;

use crate::place::open;
use crate::victim::{DURABILITY, LOG, PLACE, THREAD};

/// The number of turns of the conversation.
pub(crate) const TURNS: usize = 4;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Desk {
    #[state(flatten)]
    pub(crate) base: BaseState,
    /// The messages to the thread.
    #[reducer(append)]
    pub(crate) notes: Vec<String>,
    /// The number of answers of the agent's model, counted by a layer.
    #[reducer(sum)]
    pub(crate) answers: u64,
}

/// The resources of a process.
#[derive(Clone)]
pub(crate) struct Site {
    base: BaseContext,
    witness: Witness,
}

impl AsRef<BaseContext> for Site {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Records the work, if a log is set.
#[derive(Clone)]
struct Witness(Option<PathBuf>);

impl Site {
    pub(crate) fn new(log: Option<PathBuf>) -> Self {
        let witness = Witness(log);
        Self { base: BaseContext::new(Speaker(witness.clone())), witness }
    }
}

impl Witness {
    async fn note(&self, what: &str) {
        let Some(log) = &self.0 else { return };
        // One write of one line: whole in the file or not there.
        let file = OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes())).expect("the log can be written");
        // A kill may come between an effect and its record.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(100..2_000))).await;
    }
}

graph! {
    pub(crate) Clerk<Desk, Site> = Agent {
        system: "You answer.",
        subagents: [Reader {}],
        layers: [Counted, Inherited(Limit { model_calls: 100 }), Compact { at: 0.6, context_tokens: 500 }],
        inbox: notes,
    }
}

graph! {
    /// Reads three pages, two of them at once.
    pub(crate) Reader<BaseState, Site> = Agent { tools: [page] }
}

/// A page.
#[tool]
async fn page(number: usize, run: &Run<Site>) -> String {
    let key = format!("page {number}");
    run.context().witness.note(&key).await;
    format!("{key}: {}", "word ".repeat(80))
}

/// Counts the answers in the state, each with its consequence.
struct Counted;

#[async_trait]
impl Layer<Desk, Site> for Counted {
    async fn model_call(
        &self,
        call: ModelCall<'_, Desk, Site>,
        next: NextModel<'_, Desk, Site>,
    ) -> hier_core::Result<ModelReply<Desk>> {
        Ok(next.call(call).await?.write(Desk::update().answers(1)))
    }
}

/// The model. Its answer follows from the last message.
struct Speaker(Witness);

#[async_trait]
impl ChatModel for Speaker {
    fn name(&self) -> &'static str {
        "speaker"
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let message = answer(&request);
        let key = message.tool_calls().first().map_or_else(|| message.text(), |call| call.id.clone());
        self.0.note(&key).await;
        Ok(ChatResponse::new(message))
    }
}

fn answer(request: &ChatRequest) -> Message {
    let last = request.messages.last().expect("a conversation");
    let text = last.text();
    if request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize")) {
        let mut hash = DefaultHasher::new();
        text.hash(&mut hash);
        return Message::assistant(format!("summary {:x}", hash.finish()));
    }
    let number = text.split([' ', ':']).nth(1).and_then(|number| number.parse::<usize>().ok()).expect("a number");
    let pages = |numbers: &[usize]| {
        let call =
            |number: &usize| ToolCall::new("page", json!({ "number": number })).with_id(format!("call page {number}"));
        Message::calls("", numbers.iter().map(call))
    };
    match (&last.body, number % 10) {
        (Body::User { .. }, _) if text.starts_with("turn ") => {
            let task = json!({"task": format!("read {number}")});
            Message::calls("", [ToolCall::new("reader", task).with_id(format!("call reader {number}"))])
        }
        (Body::User { .. }, _) => pages(&[number * 10, number * 10 + 1]),
        (_, 1) if text.starts_with("page ") => pages(&[number + 1]),
        (_, _) if text.starts_with("page ") => Message::assistant(format!("have {}", number / 10)),
        _ => Message::assistant(format!("done {number}: {}", "so it is. ".repeat(40))),
    }
}

/// Takes the next turn, or continues the interrupted one, until all are done.
#[test]
#[ignore = "a process that other tests start"]
fn child_process() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("`{name}` is not set"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let graph = Clerk::compile().checkpointer(open(&variable(PLACE)).await);
        let durability = if variable(DURABILITY) == "async" { Durability::Async } else { Durability::Sync };
        let config = Config::new().thread(variable(THREAD)).durability(durability).when_running(WhenRunning::TakeOver);
        let site = Site::new(Some(variable(LOG).into()));
        println!("\nready");
        loop {
            let now = graph.state(config.clone()).await.expect("the thread can be read");
            let turns = now.values.base.messages.iter().filter(|message| message.text().starts_with("turn ")).count();
            let out = match (now.is_finished(), turns) {
                (false, _) => graph.invoke(()).config(config.clone()).context(site.clone()).await,
                (true, TURNS) => break,
                (true, turns) => {
                    graph
                        .invoke(Message::user(format!("turn {}", turns + 1)))
                        .config(config.clone())
                        .context(site.clone())
                        .await
                }
            };
            assert!(out.unwrap_or_else(|error| panic!("{error}")).is_finished());
        }
        println!("\nfinished");
    });
}

/// The texts of the conversation at the end.
pub(crate) fn expected() -> Vec<String> {
    let turn = |number: usize| {
        let done = format!("done {number}: {}", "so it is. ".repeat(40));
        [format!("turn {number}"), String::new(), format!("have {number}"), done]
    };
    (1..=TURNS).flat_map(turn).collect()
}

/// Keys of the work of every run. Summaries are additional.
pub(crate) fn keys() -> Vec<String> {
    let turn = |number: usize| {
        let pages = (number * 10)..(number * 10 + 3);
        let done = format!("done {number}: {}", "so it is. ".repeat(40));
        let own = [format!("call reader {number}"), format!("have {number}"), done];
        own.into_iter()
            .chain([0, 2].map(|page| format!("call page {}", number * 10 + page)))
            .chain(pages.map(|page| format!("page {page}")))
    };
    (1..=TURNS).flat_map(turn).collect()
}

/// The graph, kept there.
pub(crate) async fn clerk(place: &str) -> hier_core::graph::CompiledGraph<Desk, Site> {
    Clerk::compile().checkpointer(open(place).await)
}
