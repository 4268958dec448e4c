//! Tests against real servers, which `scripts/peers.sh llm` installs and starts: a mock server with five dialects, and
//! llama.cpp with a small model.

use futures_util::StreamExt;
use hier_agents::{
    ChatChunk, ChatModel, ChatRequest, ChatResponse, Effort, Message, ModelError, ModelOptions, OutputSpec, ToolSpec,
};
use hier_core::store::Embedder;
use hier_models::{Embeddings, Model};
use serde_json::json;

/// Returns a variable that `scripts/peers.sh llm` sets.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("`{name}` is not set: run it with `scripts/peers.sh llm`"))
}

/// Returns the models of the mock server, one per dialect.
fn mocked() -> [Model; 6] {
    let (url, key) = (variable("HIER_TEST_AIMOCK"), variable("HIER_TEST_AIMOCK_KEY"));
    let models = [
        Model::openai("gpt-4o").url(format!("{url}/v1")),
        Model::anthropic("claude-sonnet-4-5").url(format!("{url}/v1")),
        Model::ollama("qwen3").url(&*url),
        Model::gemini("gemini-2.5-flash").url(format!("{url}/v1beta")),
        Model::responses("gpt-5").url(format!("{url}/v1")),
        Model::at(format!("{url}/v1"), "gpt-4o"),
    ];
    models.map(|model| model.key(&*key))
}

/// Returns llama.cpp's small model.
fn small() -> Model {
    Model::at(variable("HIER_TEST_LLAMA"), "smollm2")
}

fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text)])
}

/// Returns the chunks of a streamed answer, and the answer.
async fn streamed(model: &Model, request: ChatRequest) -> (Vec<String>, ChatResponse) {
    let mut stream = model.stream(request).await.unwrap();
    let (mut pieces, mut done) = (Vec::new(), None);
    while let Some(chunk) = stream.next().await {
        assert!(done.is_none(), "the whole answer is the last piece");
        match chunk.unwrap() {
            ChatChunk::Text(text) => pieces.push(text),
            ChatChunk::Done(response) => done = Some(response),
            _ => {}
        }
    }
    (pieces, done.expect("a whole answer"))
}

#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn every_dialect_chats() {
    for model in mocked() {
        let answer = model.chat(ask("Say hello.")).await.unwrap_or_else(|error| panic!("{model:?}: {error}"));
        assert_eq!(answer.text(), "Hello from the mock, in more than one chunk of text.", "{model:?}");
        // This server does not count tokens in Ollama's dialect.
        let counted = answer.message.usage().is_some_and(|usage| usage.output_tokens > 0);
        assert_eq!(counted, model.provider() != "ollama", "{model:?}: {answer:?}");
    }
}

#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn every_dialect_streams() {
    for model in mocked() {
        let (pieces, answer) = streamed(&model, ask("Say hello.")).await;
        assert!(pieces.len() > 1, "{model:?}: {pieces:?}");
        assert_eq!(pieces.concat(), "Hello from the mock, in more than one chunk of text.", "{model:?}");
        assert_eq!(answer.text(), pieces.concat(), "{model:?}");
    }
}

/// Calls two tools, and returns their results.
async fn converse(model: &Model, stream: bool) {
    let tool = ToolSpec {
        name: "lookup_rate".to_owned(),
        description: "Looks up a rate.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": { "year": { "type": "integer" }, "region": { "type": "string" } },
            "required": ["year"],
            "additionalProperties": false,
        }),
    };
    let question = ask("What is the rate of 2026, and that of 2025?");
    let request = question.tools([tool]);
    let answer = if stream {
        let (pieces, answer) = streamed(model, request.clone()).await;
        assert_eq!(pieces.concat(), "I look both up.", "{model:?}: the text only, not the arguments");
        answer
    } else {
        model.chat(request.clone()).await.unwrap()
    };
    assert_eq!(answer.text(), "I look both up.", "{model:?}");
    let calls = answer.message.tool_calls();
    let args: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.args.clone())).collect();
    let expected =
        [("lookup_rate", json!({ "year": 2026, "region": "Süd" })), ("lookup_rate", json!({ "year": 2025 }))];
    assert_eq!(args, expected, "{model:?}");
    assert_ne!(calls[0].id, calls[1].id, "{model:?}");
    let results = [Message::tool(&calls[0], "7 %"), Message::tool(&calls[1], "8 %")];
    let so_far = request.messages.iter().cloned().chain([answer.message.clone()]).chain(results);
    let again = ChatRequest::new(so_far.collect::<Vec<_>>()).tools(request.tools.clone());
    assert_eq!(model.chat(again).await.unwrap().text(), "It fell from 8 % to 7 %.", "{model:?}");
}

#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn every_dialect_calls_tools() {
    for model in mocked() {
        converse(&model, false).await;
    }
}

#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn every_dialect_streams_calls_of_tools() {
    for model in mocked() {
        converse(&model, true).await;
    }
}

/// Thoughts are streamed in pieces, before the text.
#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn thinking_models_stream_their_thoughts() {
    let [_, anthropic, _, gemini, responses, _] = mocked();
    for model in [anthropic, gemini, responses] {
        let request = ask("Think first.").options(ModelOptions::new().reasoning(Effort::Low));
        let whole = model.chat(request.clone()).await.unwrap();
        let mut stream = model.stream(request).await.unwrap();
        let (mut thought, mut text) = (Vec::new(), String::new());
        while let Some(piece) = stream.next().await {
            match piece.unwrap() {
                ChatChunk::Reasoning(piece) => {
                    assert!(text.is_empty(), "{model:?}: it thinks before it speaks");
                    thought.push(piece);
                }
                ChatChunk::Text(piece) => text += &piece,
                _ => {}
            }
        }
        let kept: String = whole.message.reasoning().iter().map(|thought| &*thought.text).collect();
        assert!(thought.len() > 1, "{model:?}: {thought:?}");
        assert_eq!((thought.concat(), kept.as_str()), (kept.clone(), "It is a plain question."), "{model:?}");
        assert_eq!((text.as_str(), whole.text().as_str()), ("Yes.", "Yes."), "{model:?}");
    }
}

#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn server_embeds() {
    let (url, key) = (variable("HIER_TEST_AIMOCK"), variable("HIER_TEST_AIMOCK_KEY"));
    let embeddings = Embeddings::openai("text-embedding-3-small").url(format!("{url}/v1")).key(key);
    let vectors = embeddings.embed(["a cat", "a car"].map(str::to_owned).to_vec()).await.unwrap();
    assert_eq!(vectors, [[0.25, -0.5], [0.25, -0.5]]);
}

#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn every_dialect_returns_structured_output() {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "year": { "type": "integer" } },
        "required": ["name", "year"],
        "additionalProperties": false,
    });
    let output = Some(OutputSpec { name: "form".to_owned(), schema });
    for model in mocked() {
        let answer = model.chat(ask("Fill in the form.").output(output.clone())).await.unwrap();
        let form: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(form, json!({ "name": "Ada", "year": 1843 }), "{model:?}");
        let other = model.chat(ask("Fill in the form badly.").output(output.clone())).await.unwrap();
        assert_eq!(other.text(), "I would rather not.", "{model:?}");
    }
}

#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn every_dialect_reports_refusals() {
    for model in mocked() {
        let error = model.chat(ask("Be wrong.")).await.unwrap_err();
        assert!(error.to_string().contains("the model does not like that"), "{model:?}: {error}");
        let error = model.clone().key("another").chat(ask("Say hello.")).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { .. }), "{model:?}: {error:?}");
    }
}

#[tokio::test]
#[ignore = "needs model servers: run ./scripts/test.sh --all"]
async fn real_model_chats_and_streams() {
    let model = small();
    let options = ModelOptions::new().temperature(0.0).max_tokens(24);
    let request = ask("Write one short sentence about the sea.").options(options);
    let answer = model.chat(request.clone()).await.unwrap();
    assert!(!answer.text().trim().is_empty());
    let usage = answer.message.usage().expect("llama.cpp counts tokens");
    assert!(usage.input_tokens > 5 && (1..=24).contains(&usage.output_tokens), "{usage:?}");
    let (pieces, streamed) = streamed(&model, request).await;
    assert!(pieces.len() > 3, "{pieces:?}");
    assert_eq!(pieces.concat(), streamed.text());
    assert!(streamed.message.usage().is_some_and(|usage| usage.output_tokens > 3), "{streamed:?}");
}
