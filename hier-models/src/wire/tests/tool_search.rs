//! Tools that the provider searches: their declarations, and the parts of conversations that refer to them.

use hier_agents::{ChatRequest, Message, ModelOptions, PromptCache, ToolChoice};
use serde_json::{Value, json};

use super::super::*;
use super::{asking, sent};

const CLAUDE: &str = "claude-sonnet-4-5";
const GPT: &str = "gpt-5.4";

fn deferring() -> ChatRequest {
    asking(ModelOptions::new()).deferred(["look"])
}

#[test]
fn deferred_tools_are_declared_with_the_search() {
    let schema = json!({ "type": "object" });
    let tools = sent(ANTHROPIC, CLAUDE, &deferring()).unwrap()["tools"].clone();
    let tool = |name: &str| json!({ "name": name, "description": "Looks.", "input_schema": schema });
    let mut look = tool("look");
    look["defer_loading"] = json!(true);
    let search = json!({ "type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25" });
    assert_eq!(tools, json!([tool("pay"), look, search]));

    let tools = sent(RESPONSES, GPT, &deferring()).unwrap()["tools"].clone();
    let tool = |name: &str| json!({ "type": "function", "name": name, "description": "Looks.", "parameters": schema, "strict": false });
    let mut look = tool("look");
    look["defer_loading"] = json!(true);
    assert_eq!(tools, json!([tool("pay"), look, { "type": "tool_search" }]));
}

#[test]
fn models_without_a_search_receive_deferred_tools_as_others() {
    let cases = ALL.into_iter().map(|wire| (wire, "m")).chain([(ANTHROPIC, "claude-sonnet-4"), (RESPONSES, "gpt-5.3")]);
    for (wire, model) in cases.chain([(AZURE, GPT), (OPENROUTER, CLAUDE)]) {
        let plain = sent(wire, model, &asking(ModelOptions::new())).unwrap();
        assert_eq!(sent(wire, model, &deferring()).unwrap(), plain, "{} {model}", wire.info().name);
    }
}

/// Anthropic refuses the mark of the cache at a deferred tool.
#[test]
fn last_tool_with_the_mark_of_the_cache_is_not_deferred() {
    let request = asking(ModelOptions::new().cache(PromptCache::Short)).deferred(["pay", "look"]);
    let tools = sent(ANTHROPIC, CLAUDE, &request).unwrap()["tools"].clone();
    let marked: Vec<&Value> =
        tools.as_array().unwrap().iter().filter(|tool| tool.get("cache_control").is_some()).collect();
    assert_eq!(marked.len(), 1, "{tools:#}");
    assert_eq!(marked[0]["name"], "tool_search_tool_bm25");
}

#[test]
fn tool_with_the_name_of_the_search_is_refused() {
    let mut tools = deferring().tools.to_vec();
    tools[0].name = "tool_search_tool_bm25".to_owned();
    let refused = sent(ANTHROPIC, CLAUDE, &deferring().tools(tools)).unwrap_err();
    assert!(refused.contains("rename the program's, or set `.with_tool_search(false)`"), "{refused}");
}

/// Answers in which the provider found `look` and `gone`, and the model calls `look`.
fn searched() -> [(&'static dyn Dialect, &'static str, Value); 2] {
    let search =
        json!({ "type": "server_tool_use", "id": "s1", "name": "tool_search_tool_bm25", "input": { "query": "see" } });
    let names = ["look", "gone"].map(|name| json!({ "type": "tool_reference", "tool_name": name }));
    let found = json!({ "type": "tool_search_tool_search_result", "tool_references": names });
    let found = json!({ "type": "tool_search_tool_result", "tool_use_id": "s1", "content": found });
    let text = json!({ "type": "text", "text": "I search." });
    let call = json!({ "type": "tool_use", "id": "a", "name": "look", "input": {} });
    let anthropic = json!({ "content": [text, search, found, call], "stop_reason": "tool_use" });
    let tool = |name: &str| json!({ "type": "function", "name": name, "defer_loading": true, "parameters": {} });
    let item =
        |kind: &str| json!({ "type": kind, "id": "t", "execution": "server", "call_id": null, "status": "completed" });
    let (mut search, mut found) = (item("tool_search_call"), item("tool_search_output"));
    search["arguments"] = json!({ "paths": ["look"] });
    found["tools"] = json!([tool("look"), tool("gone")]);
    let call =
        json!({ "type": "function_call", "call_id": "a", "name": "look", "namespace": "look", "arguments": "{}" });
    let responses = json!({ "status": "completed", "output": [search, found, call] });
    [(ANTHROPIC, CLAUDE, anthropic), (RESPONSES, GPT, responses)]
}

fn continued(wire: &dyn Dialect, model: &str, answer: &Value) -> ChatRequest {
    let request = deferring();
    let mut draft = AnswerDraft::new(&request, wire.maker(model, wire.info().url), false);
    wire.read_answer(&mut draft, answer).unwrap();
    let asked = draft.into_answer().unwrap().message;
    let result = Message::tool(&asked.tool_calls()[0], "seen");
    let mut continued = request;
    continued.messages = [Message::user("hi"), asked, result].into_iter().collect();
    continued
}

fn own_parts(wire: &dyn Dialect, body: &Value) -> Value {
    match wire.info().name {
        "anthropic" => body["messages"][1]["content"].clone(),
        _ => body["input"].as_array().unwrap()[1..body["input"].as_array().unwrap().len() - 1].to_vec().into(),
    }
}

/// The provider refuses a conversation with a tool that the request no longer has.
#[test]
fn found_tools_go_back_while_they_exist() {
    for (wire, model, answer) in searched() {
        let body = sent(wire, model, &continued(wire, model, &answer)).unwrap();
        let mut expected = answer.clone();
        let (parts, names) = match wire.info().name {
            "anthropic" => ("/content", "/content/2/content/tool_references"),
            _ => ("/output", "/output/1/tools"),
        };
        expected.pointer_mut(names).unwrap().as_array_mut().unwrap().pop();
        assert_eq!(own_parts(wire, &body), *expected.pointer(parts).unwrap(), "{body:#}");
    }
}

/// The request contains no parts of a search if the model has no search, or if the agent defers no tools.
#[test]
fn search_is_left_out_where_it_is_not_declared() {
    for (wire, model, answer) in searched() {
        let continued = continued(wire, model, &answer);
        let few = continued.clone().deferred([""; 0]);
        let older = if wire.info().name == "anthropic" { "claude-sonnet-4" } else { "gpt-5" };
        let forced = ModelOptions::new().tool_choice(ToolChoice::Tool("look".to_owned()));
        for (model, request) in [(model, few.clone().options(forced)), (model, few), (older, continued)] {
            let body = sent(wire, model, &request).unwrap();
            let text = body.to_string();
            assert!(!text.contains("tool_search") && !text.contains("namespace"), "{body:#}");
            assert!(text.contains("seen"), "the call keeps its result: {body:#}");
        }
    }
}

/// A message with nothing but a search, such as one that was cut off, is left out.
#[test]
fn empty_messages_are_left_out() {
    let (wire, model, mut answer) = searched()[0].clone();
    let content = answer["content"].as_array().unwrap()[1..3].to_vec();
    answer["content"] = content.into();
    let request = deferring();
    let mut draft = AnswerDraft::new(&request, wire.maker(model, wire.info().url), false);
    wire.read_answer(&mut draft, &answer).unwrap();
    let messages = [Message::user("hi"), draft.resume(), Message::user("more")];
    let body = sent(wire, "claude-sonnet-4", &ChatRequest::new(messages)).unwrap();
    assert_eq!(body["messages"].as_array().unwrap().len(), 2, "{body:#}");
}
