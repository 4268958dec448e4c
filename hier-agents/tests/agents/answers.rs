//! Every call of a tool has one answer, right behind it, whatever the tool gives.

use hier_agents::{AgentBuilder, Content, Subagent, SubagentPolicy, ToolCallId};

use hier_agents::prelude::*;
use hier_core::graph::{GraphBuilder, Task};
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, FilingUpdate, call, finish};

graph! {
    Desk<Filing> = ReactGraph { tools: [book, say, hush, reply], subagents: [Looper { max_iterations: 7 }] }
}

graph! {
    Looper<Filing> = Graph { nodes: [turn], edges: [START >> turn >> END] }
}

async fn turn(state: &Filing) -> FilingUpdate {
    Filing::update().current_agent_report(format!("at most {}", state.base.max_iterations))
}

/// Writes, and says nothing.
#[tool]
async fn book() -> Command<Filing> {
    Command::update(Filing::update().findings(["booked".to_owned()]))
}

/// Returns a text that is not an answer.
#[tool]
async fn say() -> Command<Filing> {
    Command::update(Filing::update().messages(Message::user("by the way")))
}

/// Says nothing at all.
#[tool]
async fn hush() -> Vec<Message> {
    Vec::new()
}

/// Answers for itself.
#[tool]
async fn reply(id: ToolCallId) -> Command<Filing> {
    let call = ToolCall { name: "reply".to_owned(), args: json!({}), id: id.to_string() };
    Command::update(Filing::update().messages(Message::tool(&call, "as you wish")))
}

/// Files the form.
#[tool]
async fn file(form: serde_json::Value) -> String {
    format!("filed {form}")
}

/// Lists in lists, of this depth.
fn nested(depth: usize) -> serde_json::Value {
    (1..depth).fold(json!([]), |inner, _| json!([inner]))
}

/// A conversation is stored, and nothing that could not be read again is: a call that would be too deep in it is refused
/// where it comes in, and the run goes on.
#[tokio::test]
async fn too_deeply_nested_arguments_are_refused() {
    for depth in [100, 125, 400] {
        let deep = call("file", json!({ "form": nested(depth) }));
        let received = call("Looper", json!({ "task": "count", "more": nested(depth) }));
        let model = ScriptedModel::new([deep, received, finish("done")]);
        let saver = hier_core::checkpoint::MemorySaver::new();
        let desk = Archive::compile_as_root().checkpointer(saver);
        let context = BaseContext::new(model);
        let end = desk.invoke(Filing::update()).thread("t").context(context).await.unwrap();
        let answers = end.state().base.messages.iter().filter(|message| message.tool_call_id().is_some());
        let answers: Vec<String> = answers.map(|answer| answer.content().unwrap().text()).collect();
        for (answer, name) in answers.iter().zip(["file", "Looper"]) {
            let refused = format!("Error: the arguments of `{name}` are nested more than 100 levels deep");
            assert!(answer.starts_with(&refused), "{depth}: {answer}");
        }
        assert_eq!(answers.len(), 3);
        let stored = desk.state("t").await.unwrap().values;
        assert!(stored.base.messages.iter().flat_map(Message::tool_calls).all(|call| call.args.is_object()));
    }
    let model = ScriptedModel::new([call("file", json!({ "form": nested(99) })), finish("done")]);
    let end = Archive::compile_as_root().invoke(Filing::update()).context(BaseContext::new(model)).await.unwrap();
    let filed = |message: &Message| message.content().is_some_and(|content| content.text().starts_with("filed [["));
    assert!(end.state().base.messages.iter().any(filed), "arguments at the depth limit are accepted");
}

/// Says the time.
#[tool]
async fn clock() -> String {
    "noon".to_owned()
}

graph! { Timer<MessagesState> = Agent { tools: [clock] } }

#[tokio::test]
async fn null_is_an_empty_list_of_arguments() {
    let model = ScriptedModel::new([call("clock", serde_json::Value::Null), Message::assistant("Noon.")]);
    let timer = Timer::compile().checkpointer(hier_core::checkpoint::MemorySaver::new());
    let end = timer.invoke(Message::user("?")).thread("t").context(BaseContext::new(model)).await.unwrap();
    let stored = timer.state("t").await.unwrap().values;
    assert_eq!(stored.messages(), end.state().messages());
    let texts: Vec<String> = stored.messages().iter().map(Message::text).collect();
    assert_eq!(texts, ["?", "", "noon", "Noon."]);
    assert_eq!(stored.messages().get(1).unwrap().tool_calls()[0].args, json!({}));
}

graph! {
    Archive<Filing> = ReactGraph { tools: [file], subagents: [Looper { max_iterations: 7 }] }
}

async fn said(name: &str) -> Vec<String> {
    let model = ScriptedModel::new([call(name, json!({})), finish("done")]);
    let context = BaseContext::new(model);
    let out = Desk::compile_as_root().invoke(Filing::update()).context(context).await.unwrap();
    let messages = &out.state().base.messages;
    let made = messages.iter().position(|message| !message.tool_calls().is_empty()).expect("a call");
    let behind = messages.iter().skip(made + 1).take_while(|message| message.tool_calls().is_empty());
    let id = &messages.iter().nth(made).expect("the call").tool_calls()[0].id;
    let texts = behind.map(|message| {
        let text = message.content().map(Content::text).unwrap_or_default();
        if message.tool_call_id() == Some(id) { format!("answer: {text}") } else { text }
    });
    texts.filter(|text| !text.is_empty()).collect()
}

#[tokio::test]
async fn missing_tool_result_is_added() {
    assert_eq!(said("book").await[0], "answer: Done.");
    assert_eq!(said("say").await[..2], ["answer: Done.", "by the way"]);
    assert_eq!(said("hush").await[0], "answer: Done.");
    assert_eq!(said("reply").await[0], "answer: as you wish");
    for name in ["book", "say", "hush", "reply"] {
        let answers = said(name).await.iter().filter(|text| text.starts_with("answer: ")).count();
        assert_eq!(answers, 1, "{name}");
    }
}

#[tokio::test]
async fn every_graph_sees_its_iteration_limit() {
    let model = ScriptedModel::new([call("looper", json!({"task": "x"})), finish("done")]);
    let context = BaseContext::new(model);
    let out = Desk::compile_as_root().invoke(Filing::update()).context(context).await.unwrap();
    let received: Vec<String> =
        out.state().base.messages.iter().filter_map(|message| Some(message.content()?.text())).collect();
    assert!(received.iter().any(|text| text == "at most 7"), "{received:?}");
    assert_eq!(out.state().base.max_iterations, 50);
}

#[test]
fn parallel_subagents_are_checked_at_run_time() {
    let worker = || Subagent::new(&AgentBuilder::<Filing>::react("worker").compile().expect("an agent"));
    let desk = |subagent| AgentBuilder::<Filing>::react("desk").parallel_subagents(true).subagent(subagent);
    let error = desk(worker()).compile().expect_err("no policy").to_string();
    assert!(error.contains("the subagent `worker` runs in parallel with others but has no policy"), "{error}");
    let plain = SubagentPolicy::new().merge_fields(["draft", "findings"]);
    let error = desk(worker().policy(plain)).compile().expect_err("a plain channel").to_string();
    assert!(error.contains("the channel `draft`, which `worker` merges, has no reducer"), "{error}");
    assert!(!error.contains("findings"), "{error}");
    desk(worker().policy(SubagentPolicy::new().merge_fields(["findings"]))).compile().expect("an agent");
}

#[test]
fn stages_with_a_model_are_refused_at_run_time() {
    let agent = AgentBuilder::<Filing>::react("worker").compile().expect("an agent");
    let mut around = GraphBuilder::<Filing, BaseContext>::new("around");
    around = around.subgraph("worker", &agent).edge(START, "worker").edge("worker", END);
    let around = around.compile().expect("a graph");
    for stage in [Subagent::new(&agent), Subagent::new(&around)] {
        let name = format!("{stage:?}");
        let error = AgentBuilder::<Filing>::react("desk").front(stage).compile().expect_err(&name).to_string();
        assert!(error.contains("asks a model") && error.contains("make it a subagent"), "{error}");
    }
    let mut plain = GraphBuilder::<Filing, BaseContext>::new("plain");
    plain = plain.node("turn", async |_: Task<Filing, BaseContext>| {}).edge(START, "turn").edge("turn", END);
    let plain = Subagent::new(&plain.compile().expect("a graph"));
    AgentBuilder::<Filing>::react("desk").back(plain).compile().expect("an agent");
}
