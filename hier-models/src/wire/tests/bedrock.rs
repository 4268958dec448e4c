//! Requests of Bedrock's Converse API, in its published form.

use hier_agents::{
    ChatRequest, Content, Effort, Message, ModelOptions, OutputSpec, Part, PromptCache, Reasoning, ToolCall, ToolChoice,
};
use serde_json::{Value, json};

use super::super::*;
use super::{asking, sent};

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const NEWER: &str = "global.anthropic.claude-opus-4-6-v1";
const NOVA: &str = "amazon.nova-pro-v1:0";
const LLAMA: &str = "us.meta.llama4-maverick-17b-instruct-v1:0";
const PROFILE: &str = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123";

fn call(id: &str) -> ToolCall {
    ToolCall { name: "look".to_owned(), args: json!({ "q": "ü" }), id: id.to_owned() }
}

fn with_tools(messages: impl IntoIterator<Item = Message>) -> ChatRequest {
    let messages: Vec<Message> = messages.into_iter().collect();
    ChatRequest::new(messages).tools(asking(ModelOptions::new()).tools)
}

#[test]
fn ids_and_arns_are_one_segment_of_the_path() {
    let path = |model: &str, streamed| BEDROCK.path(model, streamed);
    assert_eq!(path(CLAUDE, false), "model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse");
    let encoded = "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc123";
    assert_eq!(path(PROFILE, true), format!("model/{encoded}/converse-stream"));
    assert_eq!(path("a?b#c%2f ü", false), "model/a%3Fb%23c%252f%20%C3%BC/converse");
}

#[test]
fn request_has_the_form_of_converse() {
    let options = ModelOptions::new().temperature(0.5).top_p(0.9).max_tokens(99).stop(["END"]);
    let body = sent(BEDROCK, NOVA, &asking(options.tool_choice(ToolChoice::Tool("pay".to_owned())))).unwrap();
    let tool = |name: &str| json!({ "toolSpec": { "name": name, "description": "Looks.", "inputSchema": { "json": { "type": "object" } } } });
    let expected = json!({
        "system": [{ "text": "Be kind." }],
        "messages": [{ "role": "user", "content": [{ "text": "hi" }] }],
        "inferenceConfig": { "maxTokens": 99, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"] },
        "toolConfig": { "tools": [tool("pay"), tool("look")], "toolChoice": { "tool": { "name": "pay" } } },
    });
    assert_eq!(body, expected, "{body:#}");
    let plain = sent(BEDROCK, NOVA, &ChatRequest::new([Message::user("hi")])).unwrap();
    assert_eq!(plain, json!({ "messages": [{ "role": "user", "content": [{ "text": "hi" }] }] }));
    let required = sent(BEDROCK, NOVA, &asking(ModelOptions::new().tool_choice(ToolChoice::Required))).unwrap();
    assert_eq!(required["toolConfig"]["toolChoice"], json!({ "any": {} }));
    let auto = sent(BEDROCK, NOVA, &asking(ModelOptions::new().tool_choice(ToolChoice::Auto))).unwrap();
    assert_eq!(auto["toolConfig"].get("toolChoice"), None, "some models refuse the field");
}

#[test]
fn calls_and_results_alternate_with_texts() {
    let failed = Message::tool_error(&call("b"), "");
    let body = sent(
        BEDROCK,
        CLAUDE,
        &with_tools([
            Message::assistant("I begin."),
            Message::calls("Both.", [call("a"), call("b")]),
            Message::tool(&call("a"), "found"),
            failed,
            Message::user("and?"),
            Message::user("now"),
        ]),
    )
    .unwrap();
    let tool_use = |id: &str| json!({ "toolUse": { "toolUseId": id, "name": "look", "input": { "q": "ü" } } });
    let result = |id: &str, text: &str| json!({ "toolUseId": id, "content": [{ "text": text }] });
    let mut second = result("b", "The result is empty.");
    second["status"] = json!("error");
    let expected = json!([
        { "role": "user", "content": [{ "text": "Begin." }] },
        { "role": "assistant", "content": [{ "text": "I begin." }, { "text": "Both." }, tool_use("a"), tool_use("b")] },
        { "role": "user", "content": [
            { "toolResult": result("a", "found") }, { "toolResult": second }, { "text": "and?" }, { "text": "now" },
        ] },
    ]);
    assert_eq!(body["messages"], expected, "{:#}", body["messages"]);
}

/// Llama refuses a text next to a result, and Claude a document.
#[test]
fn results_stand_apart_from_what_the_model_refuses() {
    let roles = |model: &str, next: Content| {
        let messages =
            [Message::user("hi"), Message::calls("", [call("a")]), Message::tool(&call("a"), "x"), Message::user(next)];
        let body = sent(BEDROCK, model, &with_tools(messages)).unwrap();
        let role = |message: &Value| message["role"].as_str().unwrap().to_owned();
        body["messages"].as_array().unwrap().iter().map(role).collect::<Vec<_>>()
    };
    let text = || Content::Text("go on".to_owned());
    let document = || Content::parts([Part::text("see"), Part::file_data("application/pdf", "aGk=")]);
    assert_eq!(roles(CLAUDE, text()), ["user", "assistant", "user"]);
    assert_eq!(roles(CLAUDE, document()), ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(roles(LLAMA, text()), ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(roles(NOVA, document()), ["user", "assistant", "user"]);
}

/// Bedrock refuses blocks of calls without a declaration of tools.
#[test]
fn calls_are_text_if_no_tool_is_declared() {
    let messages =
        || [Message::user("hi"), Message::calls("", [call("a")]), Message::tool(&call("a"), "42"), Message::user("?")];
    let expected = json!([
        { "role": "user", "content": [{ "text": "hi" }] },
        { "role": "assistant", "content": [{ "text": "I called the tool `look` with {\"q\":\"ü\"}." }] },
        { "role": "user", "content": [{ "text": "The result of the tool `look`:" }, { "text": "42" }, { "text": "?" }] },
    ]);
    let none = || ModelOptions::new().tool_choice(ToolChoice::None);
    for (model, request) in [(CLAUDE, ChatRequest::new(messages())), (NOVA, with_tools(messages()).options(none()))] {
        let body = sent(BEDROCK, model, &request).unwrap();
        assert_eq!((&body["messages"], body.get("toolConfig")), (&expected, None), "{body:#}");
    }
    // Claude has a field for the choice `none`, so the blocks of calls stay.
    let body = sent(BEDROCK, CLAUDE, &with_tools(messages()).options(none())).unwrap();
    assert_eq!(body["additionalModelRequestFields"]["tool_choice"], json!({ "type": "none" }));
    assert!(
        body["toolConfig"].get("toolChoice").is_none() && body["messages"][1]["content"][0].get("toolUse").is_some()
    );
}

#[test]
fn options_of_claude_are_in_its_own_terms() {
    let one = ModelOptions::new;
    let fields = |model: &str, options: ModelOptions| sent(BEDROCK, model, &asking(options));
    let body = fields(CLAUDE, one().reasoning(Effort::Medium).temperature(0.5)).unwrap();
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 10_000 } });
    assert_eq!(body["additionalModelRequestFields"], thinking, "{body:#}");
    assert_eq!(body["inferenceConfig"], json!({ "maxTokens": 32_000 }), "a thinking model refuses a temperature");
    let body = fields(NEWER, one().reasoning(Effort::High)).unwrap();
    let adaptive = json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": "high" } });
    assert_eq!(body["additionalModelRequestFields"], adaptive);
    let body = fields("anthropic.claude-fable-5-1", one()).unwrap();
    let bound = json!({
        "anthropic_beta": ["thinking-binding-controls-2026-08-01"],
        "thinking": { "type": "adaptive", "block_binding": { "prefix_mismatch_behavior": "drop_block" } },
    });
    assert_eq!(body["additionalModelRequestFields"], bound);
    let body = fields("anthropic.claude-sonnet-5-5", one().reasoning(Effort::None)).unwrap();
    assert_eq!(body["additionalModelRequestFields"], json!({ "thinking": { "type": "between_tools" } }));
    let body = fields(CLAUDE, one().parallel_calls(false).tool_choice(ToolChoice::Required)).unwrap();
    let choice = json!({ "tool_choice": { "type": "any", "disable_parallel_tool_use": true } });
    assert_eq!(body["additionalModelRequestFields"], choice);
    assert_eq!(body["toolConfig"].get("toolChoice"), None, "Bedrock refuses both");
    let extra = json!({ "additionalModelRequestFields": { "top_k": 5 }, "serviceTier": { "type": "flex" } });
    let body = fields(NEWER, one().reasoning(Effort::Low).extra(extra)).unwrap();
    assert_eq!(body["additionalModelRequestFields"]["top_k"], 5);
    assert_eq!(body["additionalModelRequestFields"]["thinking"], json!({ "type": "adaptive" }));
    assert_eq!(body["serviceTier"]["type"], "flex");
}

#[test]
fn missing_options_are_refused() {
    let one = ModelOptions::new;
    for (model, options, option) in [
        (CLAUDE, one().seed(1), "Amazon Bedrock has no option `seed`"),
        (NOVA, one().reasoning(Effort::Low), "the model `amazon.nova-pro-v1:0` has no option `reasoning`"),
        (LLAMA, one().parallel_calls(false), "has no option `parallel_calls`"),
    ] {
        let reason = sent(BEDROCK, model, &asking(options)).unwrap_err();
        assert!(reason.contains(option) && reason.contains("`extra`"), "{reason}");
    }
    let tools = ProviderTools { code_execution: true, ..ProviderTools::default() };
    let reason = super::sent_with(&tools, BEDROCK, CLAUDE, &asking(one())).unwrap_err();
    assert!(reason.contains("Amazon Bedrock has no tool `code_execution`: remove `.code_execution(…)`"), "{reason}");
}

#[test]
fn schema_is_sent_to_models_that_obey_it() {
    let schema =
        json!({ "type": "object", "properties": { "a": { "type": "integer", "minimum": 1 } }, "required": ["a"] });
    let output = || OutputSpec { name: "shape".to_owned(), schema: schema.clone() };
    let request = || ChatRequest::new([Message::user("hi")]).output(output());
    let body = sent(BEDROCK, CLAUDE, &request()).unwrap();
    let format = &body["outputConfig"]["textFormat"];
    assert_eq!(format["type"], "json_schema");
    let sent_schema = &format["structure"]["jsonSchema"];
    let fitted: Value = serde_json::from_str(sent_schema["schema"].as_str().unwrap()).unwrap();
    assert_eq!((&sent_schema["name"], &fitted["additionalProperties"]), (&json!("shape"), &json!(false)), "{fitted:#}");
    for model in [NOVA, PROFILE, "anthropic.claude-fable-5-1", "anthropic.claude-3-5-haiku-20241022-v1:0"] {
        let body = sent(BEDROCK, model, &request()).unwrap();
        assert!(body.get("outputConfig").is_none(), "{body:#}");
        assert!(body["system"][0]["text"].as_str().unwrap().contains(&schema.to_string()), "{body:#}");
    }
    let own = WireRequest {
        model: PROFILE,
        maker: "m",
        request: &request(),
        tools: &ProviderTools::default(),
        native_output: Some(true),
        searches_tools: false,
        streamed: false,
    };
    let body = super::super::request(BEDROCK, &own).map_err(|failure| failure.reason).unwrap();
    assert!(body.get("outputConfig").is_some(), "the program says so: {body:#}");
}

#[test]
fn cache_points_stand_behind_the_prefix() {
    let cached = |model: &str, cache, last: Content| {
        let messages = [Message::system("Be kind."), Message::user(last)];
        sent(BEDROCK, model, &ChatRequest::new(messages).options(ModelOptions::new().cache(cache))).unwrap()
    };
    let text = || Content::Text("hi".to_owned());
    let point = json!({ "cachePoint": { "type": "default" } });
    let long = json!({ "cachePoint": { "type": "default", "ttl": "1h" } });
    for (model, cache, expected) in [
        (CLAUDE, PromptCache::Short, &point),
        (CLAUDE, PromptCache::Long, &long),
        (NOVA, PromptCache::Long, &point),
        (PROFILE, PromptCache::Short, &point),
    ] {
        let body = cached(model, cache, text());
        assert_eq!(body["system"], json!([{ "text": "Be kind." }, expected]), "{model}");
        assert_eq!(body["messages"][0]["content"], json!([{ "text": "hi" }, expected]), "{model}");
    }
    assert!(!cached(LLAMA, PromptCache::Short, text()).to_string().contains("cachePoint"));
    // The cache point stands before a document.
    let parts = Content::parts([Part::text("see"), Part::file_data("text/csv", "aGk=")]);
    let content = cached(CLAUDE, PromptCache::Short, parts)["messages"][0]["content"].clone();
    assert_eq!(content[1], point, "{content:#}");
}

#[test]
fn files_are_blocks_of_their_formats() {
    let content = |part: Part| {
        let body = sent(BEDROCK, CLAUDE, &ChatRequest::new([Message::user(Content::parts([part]))])).unwrap();
        body["messages"][0]["content"].clone()
    };
    let image = json!([{ "image": { "format": "jpeg", "source": { "bytes": "aGk=" } } }]);
    assert_eq!(content(Part::image_data("image/jpeg", "aGk=")), image);
    let stored = json!([{ "image": { "format": "png", "source": { "s3Location": { "uri": "s3://b/x.PNG" } } } }]);
    assert_eq!(content(Part::Image { url: "s3://b/x.PNG".to_owned() }), stored);
    let document = json!([
        { "document": { "format": "pdf", "name": "w2 2026", "source": { "bytes": "aGk=" } } },
        { "text": "Read the attached documents." },
    ]);
    assert_eq!(content(Part::file_data("application/pdf", "aGk=").named("w2_2026.pdf")), document);
    let video = json!([{ "video": { "format": "mp4", "source": { "bytes": "aGk=" } } }]);
    assert_eq!(content(Part::file_data("video/mp4", "aGk=")), video);
    for (part, why) in [
        (Part::Image { url: "https://a.example/x.png".to_owned() }, "inside the request"),
        (Part::image_data("image/tiff", "aGk="), "accepts PNG, JPEG, GIF and WebP"),
        (Part::file_data("application/zip", "aGk="), "does not accept this type"),
    ] {
        let note = content(part);
        assert!(note[0]["text"].as_str().unwrap().contains(why), "{note}");
    }
}

/// Bedrock refuses two documents with one name in a request, also in results and in capitals.
#[test]
fn names_of_documents_are_unique_and_plain() {
    let file = |name: &str| Part::file_data("text/csv", "aGk=").named(name);
    let messages = [
        Message::user(Content::parts([file("a.csv"), file("A.csv"), file("ü/../x  (1).csv"), file("…")])),
        Message::calls("", [call("a")]),
        Message::tool(&call("a"), Content::parts([file("a.txt"), Part::file_data("text/csv", "aGk=")])),
    ];
    let text = sent(BEDROCK, CLAUDE, &with_tools(messages)).unwrap().to_string();
    for name in ["a", "A (2)", "x (1)", "document", "a (3)", "document (2)"] {
        assert_eq!(text.matches(&format!("\"name\":\"{name}\"")).count(), 1, "{name}: {text}");
    }
}

/// Signed thoughts go back only to the model that made them. Claude's thoughts go back to Claude on any host.
#[test]
fn thoughts_go_back_to_their_maker() {
    assert_eq!(BEDROCK.maker(CLAUDE, "https://a.example"), ANTHROPIC.maker("m", "https://b.example"));
    assert_eq!(BEDROCK.maker(NOVA, "https://a.example"), "bedrock/amazon.nova-pro-v1:0");
    let thoughts = |maker: &str| {
        vec![
            Reasoning::new(maker, "hm").with_data(json!({ "signature": "c2ln" })),
            Reasoning::new(maker, "").with_data(json!({ "redacted": "secret" })),
            Reasoning::new(maker, "unsigned"),
        ]
    };
    let request = |maker: &str| {
        ChatRequest::new([Message::user("hi"), Message::assistant("yes").with_reasoning(thoughts(maker))])
    };
    let body = sent(BEDROCK, CLAUDE, &request("anthropic")).unwrap();
    let expected = json!([
        { "reasoningContent": { "reasoningText": { "text": "hm", "signature": "c2ln" } } },
        { "reasoningContent": { "redactedContent": "c2VjcmV0" } },
        { "text": "yes" },
    ]);
    assert_eq!(body["messages"][1]["content"], expected, "{body:#}");
    let other = sent(BEDROCK, NOVA, &request("anthropic")).unwrap();
    assert_eq!(other["messages"][1]["content"], json!([{ "text": "yes" }]));
}

#[test]
fn features_depend_on_the_model() {
    assert!(BEDROCK.obeys_schemas(CLAUDE) && BEDROCK.obeys_schemas(NEWER));
    for model in [
        NOVA,
        PROFILE,
        "anthropic.claude-fable-5",
        "anthropic.claude-opus-4-1-20250805-v1:0",
        "us.anthropic.claude-opus-4-7",
        "global.anthropic.claude-sonnet-5",
        "anthropic.claude-haiku-5-5",
    ] {
        assert!(!BEDROCK.obeys_schemas(model), "{model}");
    }
    assert_eq!((BEDROCK.context_tokens(CLAUDE), BEDROCK.context_tokens(NOVA)), (Some(200_000), None));
    assert_eq!(BEDROCK.context_tokens(NEWER), Some(1_000_000));
}
