//! An agent with a typed answer: with a native schema if the model combines it with tools, otherwise with a tool.

use hier_agents::prelude::*;
use hier_agents::{AgentEnd, ChatModel, OutputSpec};
use hier_models::Model;
use serde_json::{Value, json};

use crate::support::{Reply, Server, quick};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Verdict {
    accepted: bool,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Review {
    #[state(flatten)]
    base: BaseState,
    verdict: Option<Verdict>,
}

graph! {
    Judge<Review> = Agent { tools: [look], answer: verdict }
}

/// Looks.
#[tool]
async fn look() -> String {
    "seen".to_owned()
}

/// A dialect: its model, its text answer, and the position of the schema in its request.
struct Case {
    model: fn(&str) -> Model,
    answer: fn(&str) -> Value,
    schema: &'static str,
}

fn chat(text: &str) -> Value {
    json!({ "choices": [{ "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }] })
}

const CASES: [Case; 4] = [
    Case { model: |url| Model::openai("gpt-5").url(url), answer: chat, schema: "/response_format/json_schema/schema" },
    Case {
        model: |url| Model::responses("gpt-5").url(url),
        answer: |text| {
            let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] });
            json!({ "status": "completed", "output": [message] })
        },
        schema: "/text/format/schema",
    },
    Case {
        model: |url| Model::anthropic("claude-sonnet-4-5").url(url),
        answer: |text| json!({ "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn" }),
        schema: "/output_config/format/schema",
    },
    Case {
        model: |url| Model::gemini("gemini-3-pro").url(url),
        answer: |text| json!({ "candidates": [{ "content": { "parts": [{ "text": text }] }, "finishReason": "STOP" }] }),
        schema: "/generationConfig/responseJsonSchema",
    },
];

#[tokio::test]
async fn models_with_native_output_get_schema_and_tools() {
    for Case { model, answer, schema } in CASES {
        let reply = || Reply::Whole(200, "", answer(r#"{"accepted": true}"#).to_string());
        let server = Server::start([reply(), reply()]).await;
        let model = model(&server.url).key("k").retry(quick());
        let what = model.name().to_owned();
        assert!(model.native_output(&OutputSpec::of_type::<Verdict>("verdict")), "{what}");
        let context = BaseContext::new(model.clone());
        let out = Judge::compile().invoke(Message::user("Is it right?")).context(context).await.unwrap();
        assert_eq!((out.ending(), &out.state().verdict), (Some(&AgentEnd::Answer), &Some(Verdict { accepted: true })));
        let body = &server.asked()[0].body;
        let shape = body.pointer(schema).unwrap_or_else(|| panic!("{what}: no schema in {body:#}"));
        assert_eq!(shape["properties"]["accepted"]["type"], "boolean", "{what}");
        let sent = body.to_string();
        assert!(sent.contains("\"look\"") && !sent.contains("final_answer"), "{what}: {sent}");

        // With native output turned off it gets the tool, and its text is still an answer.
        let context = BaseContext::new(model.with_native_output(false));
        let out = Judge::compile().invoke(Message::user("Is it right?")).context(context).await.unwrap();
        assert_eq!(out.ending(), Some(&AgentEnd::Answer), "{what}");
        let body = &server.asked()[1].body;
        assert!(body.pointer(schema).is_none() && body.to_string().contains("final_answer"), "{what}: {body:#}");
    }
}

/// Servers that accept either tools or a schema get the tool, unless the program knows better.
#[tokio::test]
async fn other_models_get_an_answer_tool() {
    let older: [Model; 6] = [
        Model::openai("gpt-3.5-turbo"),
        Model::anthropic("claude-3-5-haiku-latest"),
        Model::gemini("gemini-2.5-flash"),
        Model::ollama("qwen3"),
        Model::at("http://localhost:8080/v1", "gpt-5"),
        Model::parse("anthropic+http://localhost#claude-sonnet-4-5").unwrap(),
    ];
    for model in older {
        let shape = OutputSpec::of_type::<Verdict>("verdict");
        assert!(!model.native_output(&shape), "{model:?}");
        assert!(model.with_native_output(true).native_output(&shape));
    }
    let server = Server::start([Reply::Whole(200, "", chat(r#"{"accepted": true}"#).to_string())]).await;
    let context = BaseContext::new(Model::at(&server.url, "m"));
    let out = Judge::compile().invoke(Message::user("Is it right?")).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Answer));
    let body = &server.asked()[0].body;
    assert!(body.get("response_format").is_none() && body.to_string().contains("final_answer"), "{body:#}");
}

#[test]
fn models_report_their_context_size() {
    for (model, tokens) in [
        (Model::openai("gpt-4o-mini"), Some(128_000)),
        (Model::responses("gpt-5-mini"), Some(272_000)),
        (Model::openai("gpt-5.4"), Some(922_000)),
        (Model::openai("gpt-5.4-mini"), Some(272_000)),
        (Model::openai("gpt-6-sol"), Some(922_000)),
        (Model::openai("o1-mini"), Some(128_000)),
        (Model::anthropic("claude-sonnet-4-5"), Some(200_000)),
        (Model::anthropic("claude-sonnet-4-6"), Some(1_000_000)),
        (Model::vertex("p", "global", "claude-opus-5-5"), Some(1_000_000)),
        (Model::vertex("p", "global", "claude-haiku-4-5@20251001"), Some(200_000)),
        (Model::gemini("gemini-2.5-flash"), Some(1_048_576)),
        (Model::openai("something-new"), None),
        (Model::ollama("qwen3"), None),
        (Model::at("http://localhost:8080/v1", "gpt-4o"), None),
        (Model::ollama("qwen3").with_context_tokens(32_768), Some(32_768)),
    ] {
        assert_eq!(model.context_tokens(), tokens, "{model:?}");
    }
}

/// Servers that ignore the schema answer with JSON in a block of code, or with text. The agent reads the JSON, and asks
/// again after the text.
#[tokio::test]
async fn answer_that_is_not_plain_json_does_not_fail_the_run() {
    let block = "```json\n{\"accepted\": true}\n```";
    for texts in [vec![block], vec!["I accept it.", block]] {
        let replies = texts.iter().map(|text| Reply::Whole(200, "", chat(text).to_string()));
        let server = Server::start(replies).await;
        let context = BaseContext::new(Model::at(&server.url, "m").with_native_output(true));
        let out = Judge::compile().invoke(Message::user("Is it right?")).context(context).await.unwrap();
        assert_eq!((out.ending(), &out.state().verdict), (Some(&AgentEnd::Answer), &Some(Verdict { accepted: true })));
        assert_eq!(server.asked().len(), texts.len());
    }
}
