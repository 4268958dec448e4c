//! Tools that the provider runs: their blocks go back unchanged, and their sources are citations.

use futures_util::StreamExt;
use hier_agents::prelude::*;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, ChatResponse, Citation, Messages, ModelError};
use hier_core::checkpoint::codec;
use hier_models::{FileSearch, Model, WebSearch};
use hier_sqlite::Sqlite;
use serde_json::{Value, json};

use crate::support::{Reply, Server, ask, quick};

graph! {
    Researcher<BaseState> = Agent { system: "You research." }
}

/// A provider with the answer of a model that searched.
struct Searching {
    /// Creates the model at this URL, with its web search.
    model: fn(&str) -> Model,
    /// The answer, complete and streamed. Its text is [`SAID`].
    whole: Value,
    events: String,
    /// The position of the items that go back in the next request.
    path: &'static str,
    back: Value,
    /// Words that no other provider may receive.
    own: [&'static str; 2],
}

const SAID: &str = "I search. It snows.";
const PAGE: &str = "https://weather.example/zürich";

fn events(values: &[Value]) -> String {
    let event = |value: &Value| match value["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {value}\n\n"),
        None => format!("data: {value}\n\n"),
    };
    values.iter().map(event).collect()
}

fn all() -> [Searching; 3] {
    [anthropic(), responses(), gemini()]
}

fn anthropic() -> Searching {
    let source = json!({
        "type": "web_search_result_location", "url": PAGE, "title": "Weather", "encrypted_index": "Eo8B",
        "cited_text": "Snow.",
    });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let search =
        json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": "zürich" } });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        { "type": "web_search_result", "url": PAGE, "title": "Weather", "encrypted_content": "EqgfC", "page_age": null },
    ] });
    let mut cited = text("It snows.");
    cited["citations"] = json!([source]);
    let content = json!([text("I search. "), search, found, cited]);
    let start =
        |index: u8, block: &Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta = |index: u8, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let stop = |index: u8| json!({ "type": "content_block_stop", "index": index });
    let begun = json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} });
    let events = events(&[
        json!({ "type": "message_start", "message": { "model": "m", "usage": { "input_tokens": 9 } } }),
        start(0, &text("")),
        delta(0, json!({ "type": "text_delta", "text": "I search. " })),
        stop(0),
        start(1, &begun),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "{\"query\":\"z" })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "ürich\"}" })),
        stop(1),
        start(2, &found),
        stop(2),
        start(3, &text("")),
        delta(3, json!({ "type": "citations_delta", "citation": source })),
        delta(3, json!({ "type": "text_delta", "text": "It snows." })),
        stop(3),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ]);
    Searching {
        model: |url| Model::anthropic("claude-sonnet-4-5").web_search(WebSearch::new().max_uses(3)).url(url).key("k"),
        whole: json!({ "content": content, "stop_reason": "end_turn" }),
        events,
        path: "/messages/1/content",
        back: content,
        own: ["srvtoolu_1", "EqgfC"],
    }
}

fn responses() -> Searching {
    let source = json!({ "type": "url_citation", "start_index": 10, "end_index": 19, "url": PAGE, "title": "Weather" });
    let search = json!({
        "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search", "query": "zürich" },
    });
    let message = |annotations: Value| {
        let part = json!({ "type": "output_text", "text": SAID, "annotations": annotations });
        json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [part] })
    };
    let output = json!([search, message(json!([source]))]);
    let whole = json!({ "model": "m", "status": "completed", "output": output });
    let events = events(&[
        json!({ "type": "response.output_item.added", "output_index": 0, "item": search }),
        json!({ "type": "response.web_search_call.completed", "output_index": 0, "item_id": "ws_1" }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": search }),
        json!({ "type": "response.output_item.added", "output_index": 1, "item": { "type": "message", "content": [] } }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "delta": SAID }),
        json!({ "type": "response.output_item.done", "output_index": 1, "item": message(json!([source])) }),
        json!({ "type": "response.completed", "response": whole }),
    ]);
    let said = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": SAID }] });
    Searching {
        model: |url| Model::responses("gpt-5").web_search(WebSearch::new()).url(url).key("k"),
        whole,
        events,
        path: "/input",
        back: json!([search, said]),
        own: ["ws_1", "web_search_call"],
    }
}

/// Gemini 3 shows its searches as parts with signatures.
fn gemini() -> Searching {
    let search = json!({
        "toolCall": { "id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": { "queries": ["zürich"] } },
        "thoughtSignature": "c2ln",
    });
    let found = json!({ "toolResponse": { "id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {} }, "thoughtSignature": "c2l2" });
    let metadata = json!({
        "groundingChunks": [{ "web": { "uri": PAGE, "title": "Weather" } }],
        "groundingSupports": [
            { "segment": { "startIndex": 10, "endIndex": 19, "text": "It snows." }, "groundingChunkIndices": [0] },
        ],
    });
    let answer = |parts: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
    let parts = json!([{ "text": "I search. " }, search, found, { "text": "It snows." }]);
    let end = |mut answer: Value| {
        answer["candidates"][0]["finishReason"] = json!("STOP");
        answer["candidates"][0]["groundingMetadata"] = metadata.clone();
        answer
    };
    let events = events(&[
        answer(json!([{ "text": "I search. " }])),
        answer(json!([search])),
        answer(json!([found])),
        answer(json!([{ "text": "It " }])),
        end(answer(json!([{ "text": "snows." }]))),
    ]);
    Searching {
        model: |url| Model::gemini("gemini-3-pro").web_search(WebSearch::new()).url(url).key("k"),
        whole: end(answer(parts.clone())),
        events,
        path: "/contents/1/parts",
        back: parts,
        own: ["toolCall", "c2ln"],
    }
}

async fn answer(provider: &Searching, is_streamed: bool, url: &str) -> ChatResponse {
    let model = (provider.model)(url).retry(quick());
    if !is_streamed {
        return model.chat(ask("Does it snow?")).await.unwrap();
    }
    let chunks: Vec<_> = model.stream(ask("Does it snow?")).await.unwrap().map(Result::unwrap).collect().await;
    let said: String = chunks
        .iter()
        .filter_map(|chunk| if let ChatChunk::Text(text) = chunk { Some(&**text) } else { None })
        .collect();
    assert_eq!(said, SAID);
    let Some(ChatChunk::Done(answer)) = chunks.last() else { panic!("it ends: {chunks:?}") };
    answer.clone()
}

/// Returns the items of the model in a request, without the users'.
fn sent_back(body: &Value, path: &str) -> Value {
    let items = body.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    items.into_iter().filter(|item| item["role"] != "user").collect()
}

fn check_citation(message: &Message) {
    let [citation] = message.citations() else { panic!("one citation: {message:#?}") };
    assert_eq!((citation.url.as_deref(), citation.title.as_deref()), (Some(PAGE), Some("Weather")));
    assert_eq!(citation.passage(&message.text()), Some("It snows."));
}

/// Also if the conversation was stored and shortened in between.
#[tokio::test]
async fn blocks_go_back_unchanged() {
    for provider in all() {
        for is_streamed in [false, true] {
            let first = if is_streamed {
                Reply::Events(provider.events.clone())
            } else {
                Reply::Whole(200, "", provider.whole.to_string())
            };
            let server = Server::start([first, Reply::Whole(200, "", provider.whole.to_string())]).await;
            let answer = answer(&provider, is_streamed, &server.url).await;
            check_citation(&answer.message);
            let old = [Message::user("Hello."), Message::assistant("Hello.")];
            let talk = [Message::user("Does it snow?"), answer.message, Message::user("And tomorrow?")];
            let talk: Messages = old.into_iter().chain(talk).collect::<Messages>().last_messages(3);
            let talk: Messages = codec::decode(&codec::encode(&talk).unwrap()).unwrap();
            let talk: Messages = serde_json::from_value(serde_json::to_value(&talk).unwrap()).unwrap();
            check_citation(talk.get(1).unwrap());
            (provider.model)(&server.url).chat(ChatRequest::new(talk)).await.unwrap();
            let body = &server.asked()[1].body;
            assert_eq!(sent_back(body, provider.path), provider.back, "{body:#}");
        }
    }
}

#[tokio::test]
async fn other_providers_get_the_text_only() {
    for provider in all() {
        let server = Server::start([Reply::Whole(200, "", provider.whole.to_string())]).await;
        let answer = answer(&provider, false, &server.url).await;
        for other in all().into_iter().filter(|other| other.path != provider.path) {
            let server = Server::start([Reply::Whole(200, "", other.whole.to_string())]).await;
            let talk = [Message::user("Does it snow?"), answer.message.clone(), Message::user("And tomorrow?")];
            (other.model)(&server.url).chat(ChatRequest::new(talk)).await.unwrap();
            let text = server.asked()[0].body.to_string();
            assert!(text.contains(SAID) && !text.contains(PAGE), "{text}");
            assert!(provider.own.iter().all(|own| !text.contains(own)), "{text}");
        }
    }
}

/// An agent searches in one process, and is asked again in another.
#[tokio::test]
async fn agents_keep_blocks_and_citations() {
    for provider in all() {
        let folder = tempfile::tempdir().unwrap();
        let whole = || Reply::Whole(200, "", provider.whole.to_string());
        let server = Server::start([whole(), whole()]).await;
        for question in ["Does it snow?", "And tomorrow?"] {
            let saver = Sqlite::open(folder.path().join("t.db")).await.unwrap();
            let graph = Researcher::compile().checkpointer(saver);
            let context = BaseContext::new((provider.model)(&server.url));
            let run = graph.invoke(Message::user(question)).config(Config::new().thread("t")).context(context);
            check_citation(run.await.unwrap().state().messages.last().unwrap());
        }
        let body = &server.asked()[1].body;
        assert_eq!(sent_back(body, provider.path), provider.back, "{body:#}");
    }
}

/// Nothing is sent to a provider that lacks the tool.
#[tokio::test]
async fn missing_tool_is_refused_before_the_request() {
    let server = Server::start([]).await;
    let search = || WebSearch::new();
    let models = [
        Model::at(&server.url, "m").web_search(search()),
        Model::ollama("m").url(&server.url).code_execution(),
        Model::azure(&server.url, "m").key("k").file_search(FileSearch::new(["s"])),
        Model::gemini("gemini-2.5-flash").url(&server.url).key("k").web_search(search().max_uses(1)),
    ];
    for model in models {
        let error = model.chat(ask("hi")).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("remove"), "{error}");
        assert!(matches!(model.stream(ask("hi")).await, Err(ModelError::Refused { .. })));
    }
    assert_eq!(server.asked().len(), 0);
}

/// A program can cite sources, too.
#[test]
fn citations_need_no_provider() {
    let message = Message::assistant("Yes.").with_citations([Citation::new(0..4).with_url(PAGE)]);
    assert!(Message::user("Yes.").with_citations(message.citations().to_vec()).citations().is_empty());
}
