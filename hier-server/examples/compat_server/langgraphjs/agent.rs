//! `agent`, `agent_simple`, `delay` and `error`: what `libs/langgraph-api/tests/graphs` has under these names.

use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{Body, ChatChunk, ChatModel, ChatRequest, ChatResponse, ChatStream, Messages, ModelError};
use hier_core::async_trait;
use hier_core::graph::{CompiledGraph, GraphBuilder, Task};
use hier_core::message::ToolCall;
use hier_core::store::StoreExt as _;
use hier_core::{BuildError, Result};
use hier_server::RunRequest;
use serde_json::{Value, json};

/// Says `begin` and `end` in turn, letter by letter.
struct Letters;

impl Letters {
    fn said(request: &ChatRequest) -> ChatResponse {
        let earlier = request.messages.iter().filter(|message| matches!(message.body, Body::Assistant { .. })).count();
        ChatResponse::new(Message::assistant(if earlier % 2 == 0 { "begin" } else { "end" }))
    }
}

#[async_trait]
impl ChatModel for Letters {
    fn name(&self) -> &'static str {
        "letters"
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        Ok(Self::said(&request))
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let whole = Self::said(&request);
        let letters: Vec<_> = whole.text().chars().map(|letter| Ok(ChatChunk::Text(letter.into()))).collect();
        Ok(Box::pin(futures_util::stream::iter(letters.into_iter().chain([Ok(ChatChunk::Done(whole))]))))
    }
}

/// The model, and who asked.
#[derive(Clone)]
pub(super) struct Desk {
    base: BaseContext,
    user_id: Value,
}

impl Desk {
    pub(super) fn of(request: &RunRequest) -> Self {
        let user_id = request.configurable.get("user_id").cloned().unwrap_or_default();
        Self { base: BaseContext::new(Letters), user_id }
    }
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct AgentState {
    #[reducer(messages)]
    messages: Messages,
    #[state(rename = "sharedStateValue")]
    shared_state_value: Option<String>,
    #[state(rename = "sharedStateFromStoreConfig")]
    shared_state_from_store_config: Option<Value>,
    interrupt: bool,
    #[state(rename = "keyOne")]
    key_one: Option<String>,
    #[state(rename = "keyTwo")]
    key_two: Option<String>,
    sleep: Option<Sleep>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Sleep {
    Seconds(f64),
    Steps { steps: u32, ms: u64 },
}

/// Asks the model, calls a tool, and asks it again.
pub(super) fn agent() -> Result<CompiledGraph<AgentState, Desk>, BuildError> {
    let mut graph = GraphBuilder::new("agent");
    graph = graph.node("agent", think).node("tool", call_tool).node("checkSharedState", check_shared_state);
    graph = graph.edge(START, "agent").edge("tool", "agent").edge("checkSharedState", END);
    let arms = [("tool", vec!["tool".into()]), ("check", vec!["checkSharedState".into()]), ("end", vec![END.into()])];
    graph = graph.route::<_, hier_core::graph::EdgeEnd, _>("agent", "next", arms, next);
    graph.compile()
}

const SHARED: [&str; 2] = ["sharedState", "data"];

async fn think(task: Task<AgentState, Desk>) -> Result<AgentStateUpdate> {
    let (state, run) = (task.state(), task.run());
    if state.interrupt {
        let _: Value = run.interrupt(&"i want to interrupt").await?;
    }
    if state.messages.last().is_some_and(|last| matches!(last.body, Body::User { .. })) {
        match state.sleep {
            Some(Sleep::Seconds(seconds)) => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
            Some(Sleep::Steps { steps, ms }) => {
                for step in 0..steps {
                    run.emit(json!({ "type": "sleep", "step": step }));
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                }
            }
            None => {}
        }
    }
    let answer = run.model()?.ask(&state.messages).await?;
    if state.shared_state_from_store_config.is_none() {
        run.store()?.put(SHARED, "user_id", &json!({ "id": run.context().user_id })).await?;
    }
    Ok(AgentState::update().interrupt(false).messages([answer.message]))
}

fn tool_message(said: &str) -> Message {
    let call = ToolCall { name: "tool".to_owned(), args: json!({}), id: "tool_call_id".to_owned() };
    Message::tool(&call, format!("tool_call__{said}"))
}

async fn call_tool(task: Task<AgentState, Desk>) -> Result<AgentStateUpdate> {
    let shared = task.run().store()?.get(SHARED, "user_id").await?.map(|item| item.value);
    let last = task.state().messages.last().map(Message::text).unwrap_or_default();
    let update = AgentState::update().messages([tool_message(&last)]);
    Ok(update.shared_state_from_store_config(shared.map(Value::from)))
}

async fn check_shared_state(task: Task<AgentState, Desk>) -> Result<AgentStateUpdate> {
    let found = task.run().store()?.get(["inputtedState", "data"], "my_key").await?;
    if found.is_none_or(|item| item.value.get("isTrue") != Some(&json!(true))) {
        return Err(NodeError::permanent("Value is not true"));
    }
    Ok(AgentState::update())
}

fn next(state: &AgentState) -> &'static str {
    let first = state.messages.get(0).map(Message::text).unwrap_or_default();
    let last = state.messages.last().map(Message::text).unwrap_or_default();
    match (&*first, &*last) {
        ("should_end", _) | (_, "end") => "end",
        ("___check_state_value", _) => "check",
        _ => "tool",
    }
}

/// Asks the model, and calls a tool with what it said.
pub(super) fn agent_simple() -> Result<CompiledGraph<AgentState, Desk>, BuildError> {
    let mut graph = GraphBuilder::new("agent_simple");
    // It ends when nothing is sent, which its shape does not say.
    graph = graph.lenient();
    graph = graph.node("agent", async |task: Task<AgentState, Desk>| -> Result<AgentStateUpdate> {
        let run = task.run();
        let said = task.state().messages.last().map(Message::text).unwrap_or_default();
        if run.store()?.get(["ALL"], "key_one").await?.is_none() {
            run.store()?.put(["ALL"], "key_one", &json!({ "text": said })).await?;
        }
        let answer = run.model()?.ask(&task.state().messages).await?;
        Ok(AgentState::update().messages([answer.message]))
    });
    graph = graph.node("tool", async |task: Task<AgentState, Desk>| -> Result<AgentStateUpdate> {
        let said: String = task.sent()?;
        Ok(AgentState::update().messages([tool_message(&said)]))
    });
    graph = graph.edge(START, "agent").edge("tool", "agent");
    graph = graph.each("agent", "calls", "tool", |state: &AgentState| {
        state.messages.last().map(Message::text).filter(|said| !said.starts_with("end"))
    });
    graph.compile()
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Delayed {
    #[reducer(messages)]
    messages: Messages,
    delay: u64,
}

/// Sleeps for this many milliseconds.
pub(super) fn delay() -> Result<CompiledGraph<Delayed>, BuildError> {
    let mut graph = GraphBuilder::new("delay");
    graph = graph.node("long_running", async |task: Task<Delayed>| {
        let delay = task.state().delay;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        Delayed::update().messages([Message::user(format!("finished after {delay}ms"))])
    });
    graph = graph.edge(START, "long_running").edge("long_running", END);
    graph.compile()
}

/// The error of `error`.
#[derive(Debug)]
struct CustomError;

impl std::fmt::Display for CustomError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Boo!")
    }
}

impl std::error::Error for CustomError {}

/// Fails after a second.
pub(super) fn error() -> Result<CompiledGraph<Delayed>, BuildError> {
    let mut graph = GraphBuilder::new("error");
    graph = graph.node("error_node", async |_: Task<Delayed>| -> Result<DelayedUpdate> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Err(CustomError)?
    });
    graph = graph.edge(START, "error_node").edge("error_node", END);
    graph.compile()
}
