//! Tools that a request brings: offered only by agents that list them, and answered by the client.

use hier_agents::prelude::*;
use hier_agents::{ClientTools, RequestedCall};
use hier_core::checkpoint::MemorySaver;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use crate::support::{call, calls, offered, prompt};

/// Looks up.
#[tool]
async fn lookup() -> &'static str {
    "found"
}

graph! {
    Open<MessagesState> = Agent {
        tools: [lookup, |context| &context.client_tools],
        asks: [RequestedCall],
    }
}

graph! { Closed<MessagesState> = Agent { tools: [lookup] } }

fn tool(name: &str) -> Value {
    let properties = json!({"text": {"type": "string"}, "times": {"type": "integer"}});
    let parameters = json!({"type": "object", "properties": properties, "required": ["text"]});
    json!({"name": name, "description": "Shows a text.", "parameters": parameters})
}

/// A context whose request brings these tools.
fn context(model: &ScriptedModel, tools: &[&str]) -> BaseContext {
    let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
    let configurable = [("client_tools".to_owned(), json!(tools))].into_iter().collect();
    BaseContext::new(model.clone()).client_tools(ClientTools::of_request(&configurable).unwrap())
}

fn bye() -> Message {
    Message::assistant("Bye.")
}

#[tokio::test]
async fn only_agents_that_list_them_offer_the_tools_of_a_request() {
    let model = ScriptedModel::new([call("show", json!({"text": "Hi"})), bye()]);
    let closed = Closed::compile().checkpointer(MemorySaver::new());
    let out = closed.invoke(Message::user("Greet.")).thread("t").context(context(&model, &["show"])).await.unwrap();
    assert!(out.is_finished() && offered(&model, 0) == ["lookup"], "{out:?}");
    assert!(prompt(&model, 1).iter().any(|text| text.contains("show")), "{:?}", prompt(&model, 1));
}

#[tokio::test]
async fn result_arrives_even_if_the_resuming_request_brings_no_tools() {
    for tools in [&["show"][..], &[]] {
        // The number arrives as a text, and is converted before the client is asked.
        let both = calls([("show", json!({"text": "Hi", "times": "2"})), ("lookup", json!({}))]);
        let model = ScriptedModel::new([both, bye()]);
        let open = Open::compile().checkpointer(MemorySaver::new());
        let asked = open.invoke(Message::user("Greet.")).thread("t").context(context(&model, &["show"])).await.unwrap();
        assert_eq!(offered(&model, 0), ["lookup", "show"]);
        let questions = asked.questions::<OpenQuestion>().unwrap();
        let [OpenQuestion::RequestedCall(show)] = &*questions else { panic!("{asked:?}") };
        assert_eq!((&*show.call.name, &show.call.args), ("show", &json!({"text": "Hi", "times": 2})));
        assert_eq!(show.stored().value["type"], "tool");
        let answer = show.answer(json!({"shown": true}).into());
        let out = open.invoke(answer).thread("t").context(context(&model, tools)).await.unwrap();
        assert_eq!(out.text(), "Bye.");
        assert!(prompt(&model, 1).contains(&r#"{"shown":true}"#.to_owned()), "{:?}", prompt(&model, 1));
        let state = serde_json::to_value(out.state()).unwrap();
        assert_eq!(state["trust_labels"], json!(["untrusted"]), "a client may have written anything");
    }
}

graph! {
    Labelled<MessagesState> = Agent {
        tools: [|context| &context.client_tools { labels: [private, untrusted] }],
    }
}

#[tokio::test]
async fn labels_of_a_result_do_not_depend_on_the_tools_of_the_resuming_request() {
    let model = ScriptedModel::new([call("show", json!({"text": "Hi"})), bye()]);
    let labelled = Labelled::compile().checkpointer(MemorySaver::new());
    let asked = labelled.invoke(Message::user("Greet.")).thread("t").context(context(&model, &["show"])).await.unwrap();
    assert!(!asked.is_finished(), "{asked:?}");
    let resume = Command::resume(json!({"shown": true}));
    let out = labelled.invoke(resume).thread("t").context(context(&model, &[])).await.unwrap();
    let state = serde_json::to_value(out.state()).unwrap();
    let labels = state["trust_labels"].as_array().unwrap();
    assert!(labels.contains(&json!("private")) && labels.contains(&json!("untrusted")), "{labels:?}");
}

#[tokio::test]
async fn arguments_that_do_not_fit_go_back_to_the_model() {
    let model = ScriptedModel::new([call("show", json!({"size": 5})), bye()]);
    let open = Open::compile().checkpointer(MemorySaver::new());
    let out = open.invoke(Message::user("Greet.")).thread("t").context(context(&model, &["show"])).await.unwrap();
    assert!(out.is_finished(), "{out:?}");
    assert!(prompt(&model, 1).iter().any(|text| text.contains("`text` is missing")), "{:?}", prompt(&model, 1));
}

#[tokio::test]
async fn name_of_a_tool_of_the_server_is_refused() {
    let model = ScriptedModel::new([bye()]);
    let open = Open::compile();
    let error =
        open.invoke(Message::user("Greet.")).context(context(&model, &["lookup"])).await.unwrap_err().to_string();
    assert!(
        error.contains("the tool `lookup` of the toolset `client` has the name of the agent's own tool"),
        "{error}"
    );
    assert!(model.requests().is_empty());
}
