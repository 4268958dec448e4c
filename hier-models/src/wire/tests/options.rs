//! Options, schemas and cache marks.

use hier_agents::{ChatRequest, Effort, Message, ModelOptions, OutputSpec, PromptCache, ToolChoice};
use serde_json::{Value, json};

use super::super::*;
use super::{asking, sent};

/// The position and value of an option in a request, or the text of the refusal.
type OptionPlace = Result<(&'static str, Value), &'static str>;

fn holds(wire: &dyn Dialect, model: &str, options: &ModelOptions, place: OptionPlace) {
    let body = sent(wire, model, &asking(options.clone()));
    match place {
        Ok((path, expected)) => {
            let body = body.unwrap();
            let found = body.pointer(path).cloned().unwrap_or_default();
            assert_eq!(found, expected, "{} {model} {path}: {body:#}", wire.info().name);
        }
        Err(expected) => {
            let refused = body.unwrap_err();
            assert!(refused.contains(expected), "{}: {refused}", wire.info().name);
        }
    }
}

/// Refused, because the dialect has no such option.
const LACKS: &str = "has no option";

/// Expects the value at all of these positions.
fn each(value: &Value, places: [&'static str; 5]) -> [OptionPlace; 5] {
    places.map(|place| if place == LACKS { Err(LACKS) } else { Ok((place, value.clone())) })
}

/// Lists first the options that have the same value in chat completions, responses, Anthropic, Gemini and Ollama.
#[test]
fn options_in_each_dialect() {
    let one = ModelOptions::new;
    let common = [
        (
            one().temperature(0.5),
            json!(0.5),
            ["/temperature", "/temperature", "/temperature", "/generationConfig/temperature", "/options/temperature"],
        ),
        (one().top_p(0.5), json!(0.5), ["/top_p", "/top_p", "/top_p", "/generationConfig/topP", "/options/top_p"]),
        (
            one().max_tokens(99),
            json!(99),
            [
                "/max_tokens",
                "/max_output_tokens",
                "/max_tokens",
                "/generationConfig/maxOutputTokens",
                "/options/num_predict",
            ],
        ),
        (
            one().stop(["END"]),
            json!(["END"]),
            ["/stop", LACKS, "/stop_sequences", "/generationConfig/stopSequences", "/options/stop"],
        ),
        (one().seed(7), json!(7), ["/seed", LACKS, LACKS, "/generationConfig/seed", "/options/seed"]),
        (one().extra(json!({ "more": { "a": 1 } })), json!(1), ["/more/a"; 5]),
    ];
    let common = common.map(|(options, value, places)| (options, each(&value, places)));
    for (options, places) in common.into_iter().chain(others()) {
        for (wire, place) in [OPENAI, RESPONSES, ANTHROPIC, GEMINI, OLLAMA].into_iter().zip(places) {
            holds(wire, "m", &options, place);
        }
    }
}

fn others() -> [(ModelOptions, [OptionPlace; 5]); 5] {
    let one = ModelOptions::new;
    [
        (
            one().reasoning(Effort::Low),
            [
                Ok(("/reasoning_effort", json!("low"))),
                Ok(("/reasoning/effort", json!("low"))),
                Ok(("/output_config/effort", json!("low"))),
                Ok(("/generationConfig/thinkingConfig", json!({ "thinkingLevel": "low", "includeThoughts": true }))),
                Ok(("/think", json!(true))),
            ],
        ),
        (
            one().tool_choice(ToolChoice::Tool("pay".to_owned())),
            [
                Ok(("/tool_choice", json!({ "type": "function", "function": { "name": "pay" } }))),
                Ok(("/tool_choice", json!({ "type": "function", "name": "pay" }))),
                Ok(("/tool_choice", json!({ "type": "tool", "name": "pay" }))),
                Ok(("/toolConfig/functionCallingConfig", json!({ "mode": "ANY", "allowedFunctionNames": ["pay"] }))),
                Err("no option `tool_choice`"),
            ],
        ),
        (
            one().tool_choice(ToolChoice::None),
            [
                Ok(("/tool_choice", json!("none"))),
                Ok(("/tool_choice", json!("none"))),
                Ok(("/tool_choice", json!({ "type": "none" }))),
                Ok(("/toolConfig/functionCallingConfig", json!({ "mode": "NONE" }))),
                Ok(("/tools", Value::Null)),
            ],
        ),
        (
            one().parallel_calls(false),
            [
                Ok(("/parallel_tool_calls", json!(false))),
                Ok(("/parallel_tool_calls", json!(false))),
                Ok(("/tool_choice", json!({ "type": "auto", "disable_parallel_tool_use": true }))),
                Err("no option `parallel_calls`"),
                Err("no option `parallel_calls`"),
            ],
        ),
        (one().extra(json!([1])), [(); 5].map(|()| Err("must be a JSON object"))),
    ]
}

#[test]
fn unset_options_are_not_sent() {
    for wire in ALL {
        let body = sent(wire, "m", &ChatRequest::new([Message::user("hi")])).unwrap();
        let mut fields: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        let expected: &[&str] = match wire.info().name {
            "responses" => &["input", "model", "store", "stream"],
            "anthropic" => &["max_tokens", "messages", "model", "stream"],
            "gemini" => &["contents"],
            _ => &["messages", "model", "stream"],
        };
        assert_eq!(fields, expected, "{}", wire.info().name);
    }
}

#[test]
fn effort_for_each_model_family() {
    let one = ModelOptions::new;
    let medium = || one().reasoning(Effort::Medium);
    let (none, minimal) = (|| one().reasoning(Effort::None), || one().reasoning(Effort::Minimal));
    let budgets = |tokens: u32, shown: bool| json!({ "thinkingBudget": tokens, "includeThoughts": shown });
    let level = |level: &str, shown: bool| json!({ "thinkingLevel": level, "includeThoughts": shown });
    let budget = |tokens: u32| json!({ "type": "enabled", "budget_tokens": tokens });
    let cases: Vec<(&dyn Dialect, &str, ModelOptions, OptionPlace)> = vec![
        (ANTHROPIC, "claude-sonnet-4-5", medium(), Ok(("/thinking", budget(10_000)))),
        (ANTHROPIC, "claude-sonnet-4-5", medium().max_tokens(2_000), Ok(("/thinking", budget(1_999)))),
        (ANTHROPIC, "claude-sonnet-4-5", medium().max_tokens(1_024), Ok(("/thinking", Value::Null))),
        (ANTHROPIC, "claude-sonnet-4-5", medium().reasoning(Effort::from("6000")), Ok(("/thinking", budget(6_000)))),
        (ANTHROPIC, "claude-sonnet-4-5", medium().reasoning(Effort::from("huge")), Err("unknown effort `huge`")),
        (ANTHROPIC, "claude-opus-4-6", medium(), Ok(("/thinking", json!({ "type": "adaptive" })))),
        (
            ANTHROPIC,
            "claude-opus-4-6",
            medium().reasoning(Effort::from("max")),
            Ok(("/output_config/effort", json!("max"))),
        ),
        // A model that thinks accepts no temperature. An older model that thinks accepts no forced call.
        (ANTHROPIC, "claude-opus-4-6", medium().temperature(0.5), Ok(("/temperature", Value::Null))),
        (ANTHROPIC, "claude-opus-4-5", medium().tool_choice(ToolChoice::Required), Ok(("/thinking", Value::Null))),
        (
            ANTHROPIC,
            "claude-opus-4-6",
            medium().tool_choice(ToolChoice::Required),
            Ok(("/thinking/type", json!("adaptive"))),
        ),
        (ANTHROPIC, "claude-opus-5-5", one().tool_choice(ToolChoice::Required), Err("cannot be forced")),
        // Newer models accept no temperature at all, and show thoughts on request.
        (ANTHROPIC, "claude-opus-4-6", one().temperature(0.5), Ok(("/temperature", json!(0.5)))),
        (ANTHROPIC, "claude-opus-4-8", one().temperature(0.5), Ok(("/temperature", Value::Null))),
        (
            ANTHROPIC,
            "claude-opus-4-8",
            medium(),
            Ok(("/thinking", json!({ "type": "adaptive", "display": "summarized" }))),
        ),
        // The minimum differs between the models.
        (ANTHROPIC, "claude-opus-4-8", none(), Ok(("/thinking", Value::Null))),
        (ANTHROPIC, "claude-opus-5", none(), Ok(("/thinking", json!({ "type": "disabled" })))),
        (ANTHROPIC, "claude-fable-5", none(), Ok(("/thinking/type", json!("adaptive")))),
        (ANTHROPIC, "claude-opus-5-5", none(), Ok(("/output_config/effort", json!("low")))),
        // This kind accepts no other field.
        (ANTHROPIC, "claude-sonnet-5-5", none(), Ok(("/thinking", json!({ "type": "between_tools" })))),
        (ANTHROPIC, "claude-haiku-5-5", none(), Ok(("/thinking", json!({ "type": "disabled" })))),
        (
            ANTHROPIC,
            "claude-haiku-5-5",
            one().tool_choice(ToolChoice::Required),
            Ok(("/tool_choice", json!({ "type": "any" }))),
        ),
        // Thoughts that are bound to another beginning of the conversation are dropped, so that the request does not
        // fail.
        (ANTHROPIC, "claude-opus-5", one(), Ok(("/thinking", Value::Null))),
        (
            ANTHROPIC,
            "claude-opus-5-5",
            one(),
            Ok(("/thinking/block_binding/prefix_mismatch_behavior", json!("drop_block"))),
        ),
        (OPENAI, "gpt-5", medium().temperature(0.5), Ok(("/temperature", Value::Null))),
        (OPENAI, "gpt-5", medium().max_tokens(9), Ok(("/max_completion_tokens", json!(9)))),
        (OPENAI, "gpt-5-mini", none(), Ok(("/reasoning_effort", json!("minimal")))),
        (OPENAI, "gpt-5-mini", minimal(), Ok(("/reasoning_effort", json!("minimal")))),
        (OPENAI, "gpt-5.1", none(), Ok(("/reasoning_effort", json!("none")))),
        (OPENAI, "gpt-5.1", minimal(), Ok(("/reasoning_effort", json!("low")))),
        (OPENAI, "o4-mini", none(), Ok(("/reasoning_effort", json!("low")))),
        (OPENAI, "other", minimal(), Ok(("/reasoning_effort", json!("minimal")))),
        (RESPONSES, "o3", minimal(), Ok(("/reasoning/effort", json!("low")))),
        (RESPONSES, "gpt-6-sol", minimal(), Ok(("/reasoning/effort", json!("low")))),
        (RESPONSES, "gpt-5", none(), Ok(("/reasoning/effort", json!("minimal")))),
        (RESPONSES, "gpt-5-pro", none(), Ok(("/reasoning/effort", json!("high")))),
        (RESPONSES, "gpt-5.3-codex", none(), Ok(("/reasoning/effort", json!("low")))),
        (RESPONSES, "gpt-5", ModelOptions::new(), Ok(("/include", json!(["reasoning.encrypted_content"])))),
        (RESPONSES, "gpt-4o", ModelOptions::new(), Ok(("/include", Value::Null))),
        (
            GEMINI,
            "gemini-2.5-flash",
            medium(),
            Ok(("/generationConfig/thinkingConfig", json!({ "thinkingBudget": 8_192, "includeThoughts": true }))),
        ),
        (
            GEMINI,
            "gemini-3-flash",
            medium().reasoning(Effort::None),
            Ok(("/generationConfig/thinkingConfig", json!({ "thinkingLevel": "minimal", "includeThoughts": false }))),
        ),
        // Pro models and newer Flash models cannot turn off thinking.
        (GEMINI, "gemini-3.7-flash", none(), Ok(("/generationConfig/thinkingConfig", level("low", false)))),
        (GEMINI, "gemini-3.5-flash", minimal(), Ok(("/generationConfig/thinkingConfig", level("minimal", true)))),
        (GEMINI, "gemini-3.8-flash-lite", none(), Ok(("/generationConfig/thinkingConfig", level("minimal", false)))),
        (GEMINI, "gemini-2.5-pro", none(), Ok(("/generationConfig/thinkingConfig", budgets(128, false)))),
        (GEMINI, "gemini-2.5-flash", none(), Ok(("/generationConfig/thinkingConfig", budgets(0, false)))),
        (GEMINI, "gemini-3-pro-preview", none(), Ok(("/generationConfig/thinkingConfig", level("low", false)))),
        (GEMINI, "gemini-3.1-pro", minimal(), Ok(("/generationConfig/thinkingConfig", level("low", true)))),
        (OLLAMA, "gpt-oss:20b", medium(), Ok(("/think", json!("medium")))),
        (OLLAMA, "qwen3", none(), Ok(("/think", json!(false)))),
    ];
    for (wire, model, options, place) in cases {
        holds(wire, model, &options, place);
    }
}

/// The schema of an answer in the provider's own field.
#[test]
fn schemas_in_each_dialect() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let output = OutputSpec { name: "shape".to_owned(), schema: schema.clone() };
    let named = json!({ "name": "shape", "schema": schema, "strict": false });
    let mut format = named.clone();
    format["type"] = json!("json_schema");
    let mut closed = schema.clone();
    closed["additionalProperties"] = json!(false);
    let places = [
        (OPENAI, "/response_format", json!({ "type": "json_schema", "json_schema": named })),
        (RESPONSES, "/text/format", format),
        (ANTHROPIC, "/output_config/format", json!({ "type": "json_schema", "schema": closed })),
        (GEMINI, "/generationConfig/responseJsonSchema", schema.clone()),
        (OLLAMA, "/format", schema),
    ];
    for (wire, path, expected) in places {
        let body = sent(wire, "m", &asking(ModelOptions::new()).output(output.clone())).unwrap();
        assert_eq!(body.pointer(path), Some(&expected), "{}: {body:#}", wire.info().name);
    }
}

/// Anthropic caches only marked parts: tools, system text, and the conversation so far. The other dialects ignore the
/// option.
#[test]
fn cached_parts_are_marked() {
    let marks = |body: &Value| body.to_string().matches("cache_control").count();
    let long = ModelOptions::new().cache(PromptCache::Long);
    let body = sent(ANTHROPIC, "m", &asking(long.clone())).unwrap();
    let mark = json!({ "type": "ephemeral", "ttl": "1h" });
    for path in ["/tools/1", "/system/0", "/messages/0/content/0"] {
        assert_eq!(body.pointer(path).unwrap()["cache_control"], mark, "{body:#}");
    }
    assert_eq!((marks(&body), &body["system"][0]["text"]), (3, &json!("Be kind.")));
    let short = ModelOptions::new().cache(PromptCache::Short);
    let body = sent(ANTHROPIC, "m", &ChatRequest::new([Message::user("hi")]).options(short)).unwrap();
    assert_eq!(body["messages"][0]["content"][0]["cache_control"], json!({ "type": "ephemeral" }));
    for wire in [OPENAI, RESPONSES, GEMINI, OLLAMA] {
        assert_eq!(marks(&sent(wire, "m", &asking(long.clone())).unwrap()), 0, "{}", wire.info().name);
    }
}
