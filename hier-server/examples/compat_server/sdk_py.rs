//! `agent`, `tools_agent`, `deep_agent` and `factory_agent`, as `libs/sdk-py/integration/graph` has them.

use hier_agents::prelude::*;
use hier_agents::{ChatRequest, RunModel};
use hier_core::Result;
use hier_core::message::ToolCall;
use hier_server::Server;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

/// Adds the graphs of the suite.
pub(crate) fn graphs(server: Server) -> Server {
    let says_hello = ScriptedModel::reacting(|_| Message::assistant("Hello, world!"));
    server
        .graph("agent", Agent::compile(), BaseContext::new(says_hello))
        .graph("tools_agent", ToolsAgent::compile_as_root(), BaseContext::new(ScriptedModel::reacting(searches)))
        .graph("deep_agent", DeepAgent::compile_as_root(), BaseContext::new(ScriptedModel::reacting(delegates)))
        .graph("factory_agent", Factory::compile(), ())
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AgentState {
    #[reducer(messages)]
    messages: hier_agents::Messages,
    value: String,
    #[reducer(append)]
    items: Vec<String>,
}

graph! {
    /// A message, a tool, a question and a graph within, one after the other.
    pub(crate) Agent<AgentState, BaseContext> = Graph {
        nodes: [stream_message, call_tool, ask_human, run_subgraph = Inner, count_subgraph],
        edges: [START >> stream_message >> call_tool >> ask_human >> run_subgraph >> count_subgraph >> END],
    }
}

fn progress<C>(run: &Run<C>, phase: &str) {
    run.emit(json!({ "name": "progress", "step": run.node(), "phase": phase }));
}

async fn stream_message(run: &Run<BaseContext>) -> Result<AgentStateUpdate> {
    progress(run, "start");
    let answer = run.model()?.ask("Say hello.").await?;
    progress(run, "end");
    Ok(AgentState::update().messages([answer.message]).value("x".to_owned()).items(["streamed".to_owned()]))
}

fn search_call() -> ToolCall {
    ToolCall { name: "search".to_owned(), args: json!({ "query": "v3" }), id: "tc-1".to_owned() }
}

async fn call_tool(run: &Run<BaseContext>) -> AgentStateUpdate {
    progress(run, "start");
    let call = search_call();
    let result = Message::tool(&call, "result for 'v3'");
    progress(run, "end");
    AgentState::update().messages([Message::calls("", [call]), result]).items(["tool".to_owned()])
}

async fn ask_human(run: &Run<BaseContext>) -> Result<AgentStateUpdate> {
    progress(run, "start");
    let answer: Value = run.interrupt(&"Are we good?").await?;
    progress(run, "end");
    let said = Message::assistant(format!("Human said: {answer}"));
    Ok(AgentState::update().messages([said]).items(["asked".to_owned()]))
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct InnerState {
    #[reducer(messages)]
    messages: hier_agents::Messages,
    note: String,
}

graph! {
    /// The graph within.
    pub(crate) Inner<InnerState, BaseContext> = Graph { nodes: [sub], edges: [START >> sub >> END] }
}

async fn sub(run: &Run<BaseContext>) -> InnerStateUpdate {
    progress(run, "start");
    let said = Message::assistant("from subgraph");
    progress(run, "end");
    InnerState::update().messages([said]).note("ran".to_owned())
}

async fn count_subgraph() -> AgentStateUpdate {
    AgentState::update().items(["sub".to_owned()])
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Talk {
    #[state(flatten)]
    base: BaseState,
}

/// Looks up a text in an index.
#[tool]
async fn search(query: String) -> String {
    format!("result for '{query}'")
}

graph! {
    /// Searches, then ends.
    pub(crate) ToolsAgent<Talk> = ReactGraph { tools: [search] }
}

fn calls(name: &str, args: Value, id: &str) -> Message {
    Message::calls("", [ToolCall { name: name.to_owned(), args, id: id.to_owned() }])
}

fn offers(request: &ChatRequest, tool: &str) -> bool {
    request.tools.iter().any(|spec| spec.name == tool)
}

fn has_result(request: &ChatRequest) -> bool {
    request.messages.iter().any(|message| matches!(message.body, hier_agents::Body::Tool { .. }))
}

fn searches(request: &ChatRequest) -> Message {
    if has_result(request) {
        return calls("finish_task", json!({ "result": "done." }), "tc-end");
    }
    Message::calls("", [search_call()])
}

graph! {
    /// Gives its work to another agent.
    pub(crate) DeepAgent<Talk> = ReactGraph { subagents: [Researcher {}] }
}

graph! {
    /// Researches.
    pub(crate) Researcher<Talk> = ReactGraph {}
}

fn delegates(request: &ChatRequest) -> Message {
    match (offers(request, "researcher"), has_result(request)) {
        (true, false) => calls("researcher", json!({ "task": "research v3 streaming" }), "tc-task-1"),
        (true, true) => calls("finish_task", json!({ "result": "Research complete." }), "tc-end"),
        (false, _) => calls("report_to_supervisor", json!({ "report": "v3 streaming is event-typed." }), "tc-report"),
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Echo {
    text: String,
    access_context: String,
    is_for_execution: bool,
}

graph! {
    /// Python's graph is made anew for each run, and says for what: here there is one graph, and it is always for a run.
    pub(crate) Factory<Echo> = Graph { nodes: [echo], edges: [START >> echo >> END] }
}

async fn echo(state: &Echo) -> EchoUpdate {
    let text = format!("{} echoed", state.text);
    Echo::update().text(text).access_context("threads.create_run".to_owned()).is_for_execution(true)
}
