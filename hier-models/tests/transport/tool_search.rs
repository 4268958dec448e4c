//! Agents with many tools, whose provider searches them.

use std::sync::Arc;

use hier_agents::prelude::*;
use hier_agents::{ChatModel, ToolAnswer, ToolSpec, Toolset};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::Retry;
use hier_core::message::ToolCall;
use hier_core::store::StoreOptions;
use hier_core::{Result, async_trait};
use hier_models::{Embeddings, Model};
use hier_sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use crate::support::{Reply, Server, quick};

struct Shop;

#[async_trait]
impl Toolset for Shop {
    fn name(&self) -> &'static str {
        "shop"
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>> {
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: format!("Does {name}."),
            parameters: json!({ "type": "object" }),
        };
        Ok(["refund", "ship"].map(spec).into())
    }

    async fn call(&self, call: &ToolCall, _: &Run) -> Result<ToolAnswer> {
        Ok(ToolAnswer::Content(format!("{}: done", call.name).into()))
    }
}

struct Desk {
    base: BaseContext,
    shop: Shop,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    Clerk<BaseState, Desk> = Agent { tools: [|desk| &desk.shop], search: ToolSearch { above: 1 } }
}

/// A provider whose model searches for `ship`, calls it, and then answers.
struct Provider {
    model: fn(&str) -> Model,
    /// The two answers, complete and streamed.
    answers: [(Value, String); 2],
    /// The position of the items that go back in the next request.
    path: &'static str,
    back: Value,
}

fn events(values: &[Value]) -> String {
    let events = values.iter().map(|value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap()));
    events.collect::<Vec<_>>().concat()
}

fn anthropic() -> Provider {
    let search = json!({
        "type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": { "query": "parcel" },
    });
    let found = json!({ "type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{ "type": "tool_reference", "tool_name": "ship" }],
    } });
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "ship", "input": {} });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let start =
        |index: u8, block: &Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta = |index: u8, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let stop = |index: u8| json!({ "type": "content_block_stop", "index": index });
    let head = json!({ "type": "message_start", "message": { "model": "m", "usage": { "input_tokens": 9 } } });
    let end = |reason: &str| {
        let delta =
            json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 5 } });
        [delta, json!({ "type": "message_stop" })]
    };
    let mut begun = search.clone();
    begun["input"] = json!({});
    let calling = [
        head.clone(),
        start(0, &begun),
        delta(0, json!({ "type": "input_json_delta", "partial_json": "{\"query\": \"par" })),
        delta(0, json!({ "type": "input_json_delta", "partial_json": "cel\"}" })),
        stop(0),
        start(1, &found),
        stop(1),
        start(2, &call),
        stop(2),
    ];
    let saying = [head, start(0, &text("")), delta(0, json!({ "type": "text_delta", "text": "Sent." })), stop(0)];
    let content = json!([search, found, call]);
    Provider {
        model: |url| Model::anthropic("claude-sonnet-4-5").url(url).key("k").retry(quick()),
        answers: [
            (
                json!({ "content": content, "stop_reason": "tool_use" }),
                events(&[&calling[..], &end("tool_use")].concat()),
            ),
            (
                json!({ "content": [text("Sent.")], "stop_reason": "end_turn" }),
                events(&[&saying[..], &end("end_turn")].concat()),
            ),
        ],
        path: "/messages/1/content",
        back: content,
    }
}

fn responses() -> Provider {
    let item = |kind: &str, field: &str, value: Value| json!({ "type": kind, "id": field, "execution": "server", "call_id": null, "status": "completed", field: value });
    let search = item("tool_search_call", "arguments", json!({ "paths": ["ship"] }));
    let ship = json!({ "type": "function", "name": "ship", "defer_loading": true, "parameters": { "type": "object" } });
    let found = item("tool_search_output", "tools", json!([ship]));
    let call =
        json!({ "type": "function_call", "call_id": "call_1", "name": "ship", "namespace": "ship", "arguments": "{}" });
    let message =
        json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Sent." }] });
    let whole = |output: Value| json!({ "model": "m", "status": "completed", "output": output });
    let added =
        |index: u8, item: &Value| json!({ "type": "response.output_item.added", "output_index": index, "item": item });
    let done =
        |index: u8, item: &Value| json!({ "type": "response.output_item.done", "output_index": index, "item": item });
    let end = |whole: &Value| json!({ "type": "response.completed", "response": whole });
    let calling = whole(json!([search, found, call]));
    let saying = whole(json!([message]));
    let mut begun = call.clone();
    begun["arguments"] = json!("");
    let call_events = events(&[
        added(0, &search),
        done(0, &search),
        added(1, &found),
        done(1, &found),
        added(2, &begun),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}" }),
        done(2, &call),
        end(&calling),
    ]);
    let text_events = events(&[
        json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "Sent." }),
        done(0, &message),
        end(&saying),
    ]);
    Provider {
        model: |url| Model::responses("gpt-5.4").url(url).key("k").retry(quick()),
        answers: [(calling, call_events), (saying, text_events)],
        path: "/input",
        back: json!([search, found, call]),
    }
}

impl Provider {
    async fn server(&self, is_streamed: bool) -> Server {
        let reply = |(whole, events): &(Value, String)| {
            if is_streamed { Reply::Events(events.clone()) } else { Reply::Whole(200, "", whole.to_string()) }
        };
        Server::start(self.answers.iter().map(reply)).await
    }

    /// Returns the items of the model in a request, without those of the user.
    fn sent_back(&self, body: &Value) -> Value {
        let items = body.pointer(self.path).and_then(Value::as_array).cloned().unwrap_or_default();
        let is_own = |item: &Value| item["role"] != "user" && item["type"] != "function_call_output";
        items.into_iter().filter(is_own).collect()
    }
}

async fn ask(saver: &MemorySaver, model: impl ChatModel, is_streamed: bool) -> BaseState {
    let desk = Desk { base: BaseContext::new(model), shop: Shop };
    let clerk = Clerk::compile().checkpointer(saver.clone());
    if !is_streamed {
        return clerk.invoke(Message::user("Ship it.")).thread("t").context(desk).await.unwrap().state().clone();
    }
    let mut events = clerk.stream(Message::user("Ship it.")).thread("t").context(desk).modes([StreamMode::Messages]);
    while let Some(event) = events.next().await {
        event.unwrap();
    }
    events.outcome().await.unwrap().state().clone()
}

fn names(tools: &Value) -> Vec<&str> {
    let tools = tools.as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().or(tool["function"]["name"].as_str()).unwrap_or("")).collect()
}

#[tokio::test]
async fn provider_searches_the_tools_of_an_agent() {
    for provider in [anthropic(), responses()] {
        for is_streamed in [false, true] {
            let server = provider.server(is_streamed).await;
            let state = ask(&MemorySaver::new(), (provider.model)(&server.url), is_streamed).await;
            assert_eq!(state.messages.last().unwrap().text(), "Sent.");
            assert_eq!(state.found_tools.names().collect::<Vec<_>>(), ["ship"]);
            let asked = server.asked();
            for request in &asked {
                let tools = &request.body["tools"];
                assert_eq!(names(tools)[..2], ["refund", "ship"], "{tools:#}");
                assert_eq!((&tools[0]["defer_loading"], tools[2].get("defer_loading")), (&json!(true), None));
                assert!(tools[2]["type"].as_str().unwrap().starts_with("tool_search"), "{tools:#}");
            }
            assert_eq!(provider.sent_back(&asked[1].body), provider.back, "{:#}", asked[1].body);
            assert!(asked[1].body.to_string().contains("ship: done"));
        }
    }
}

/// The other provider receives no block of the first, and a model without a search the names and what was found.
#[tokio::test]
async fn other_models_continue_the_conversation() {
    for (provider, other) in [(anthropic(), responses()), (responses(), anthropic())] {
        let saver = MemorySaver::new();
        let server = provider.server(false).await;
        ask(&saver, (provider.model)(&server.url), false).await;
        let second = other.server(false).await;
        ask(&saver, (other.model)(&second.url), false).await;
        for word in ["srvtoolu_1", "tool_search_call", "tool_search_output", "tool_reference", "namespace"] {
            let body = &second.asked()[0].body;
            assert!(!body.to_string().contains(word), "{word}: {body:#}");
        }
        let said = json!({ "choices": [{ "message": { "content": "Sent." }, "finish_reason": "stop" }] });
        let third = Server::start([Reply::Whole(200, "", said.to_string())]).await;
        ask(&saver, Model::at(&third.url, "m"), false).await;
        let body = &third.asked()[0].body;
        assert_eq!(names(&body["tools"]), ["search_tools", "ship"], "{body:#}");
        assert!(!body.to_string().contains("srvtoolu_1"), "{body:#}");
        // Back at the first provider, its own blocks are still valid.
        let again = provider.server(false).await;
        ask(&saver, (provider.model)(&again.url), false).await;
        assert!(again.asked()[0].body.to_string().contains("tool_search"));
    }
}

#[test]
fn models_report_whether_their_provider_searches() {
    let cases = [
        (Model::anthropic("claude-opus-4-6"), true),
        (Model::anthropic("claude-sonnet-4"), false),
        (Model::anthropic("claude-opus-4-6").with_tool_search(false), false),
        (Model::responses("gpt-5.4"), true),
        (Model::responses("gpt-5"), false),
        (Model::parse("responses+https://desk.openai.azure.com/openai/v1#gpt-5.5").unwrap(), false),
        (
            Model::parse("responses+https://desk.openai.azure.com/openai/v1#gpt-5.5").unwrap().with_tool_search(true),
            true,
        ),
        (Model::vertex("p", "global", "claude-opus-4-6"), false),
        (Model::vertex("p", "global", "claude-opus-4-6").with_tool_search(true), true),
        (Model::openai("gpt-5.4"), false),
        // The API has no search to turn on.
        (Model::openai("gpt-5.4").with_tool_search(true), false),
        (Model::gemini("gemini-3-pro"), false),
    ];
    for (model, expected) in cases {
        assert_eq!(model.searches_tools(), expected, "{model:?}");
    }
}

/// Returns vectors in which a courier is near to `ship`.
fn embedded(body: &Value) -> std::result::Result<Value, String> {
    let texts = body["input"].as_array().ok_or("no texts")?.iter().filter_map(Value::as_str);
    let has = |text: &str, words: [&str; 2]| f64::from(u8::from(words.iter().any(|word| text.contains(word))));
    let vector = |text: &str| json!([has(text, ["ship", "courier"]), has(text, ["refund", "money"]), 0.1]);
    let vectors = texts.enumerate().map(|(index, text)| json!({ "index": index, "embedding": vector(text) }));
    Ok(json!({ "data": vectors.collect::<Vec<_>>() }))
}

/// The vectors of the tools are in a file, which the next process opens. Without the embeddings' server, words decide.
#[tokio::test]
async fn tools_are_found_by_embeddings_that_outlast_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let embeddings = Server::start([(); 4].map(|()| Reply::Judged(embedded))).await;
    for (query, found) in
        [("a courier", &["ship", "refund"][..]), ("give money", &["refund", "ship"]), ("refund", &["refund"])]
    {
        let arguments = json!({ "query": query }).to_string();
        let call = json!({ "id": "c", "function": { "name": "search_tools", "arguments": arguments } });
        let said = |message: Value| json!({ "choices": [{ "message": message, "finish_reason": "stop" }] }).to_string();
        let answers = [json!({ "content": "", "tool_calls": [call] }), json!({ "content": "Sent." })];
        let server = Server::start(answers.map(|answer| Reply::Whole(200, "", said(answer)))).await;
        let options = StoreOptions::default().index(
            Embeddings::openai("m").url(&embeddings.url).key("k").retry(Retry { attempts: 1, ..quick() }),
            ["text"],
        );
        let store = SqliteStore::open_with(folder.path().join("t.db"), SqliteOptions::default(), options.unwrap());
        let clerk = Clerk::compile().store(store.await.unwrap());
        let desk = Desk { base: BaseContext::new(Model::at(&server.url, "m")), shop: Shop };
        let out = clerk.invoke(Message::user("Go.")).context(desk).await.unwrap();
        assert_eq!(out.state().found_tools.names().collect::<Vec<_>>(), found, "{query}");
    }
    let sent: Vec<Value> = embeddings.asked().into_iter().map(|asked| asked.body["input"].clone()).collect();
    let texts = json!(["refund: Does refund.", "ship: Does ship."]);
    let courier = json!(["a courier"]);
    assert_eq!(sent[..4], [courier.clone(), texts, courier, json!(["give money"])]);
}
