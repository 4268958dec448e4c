//! The providers' own tools: their declarations, and the providers that lack them.

use hier_agents::{ChatRequest, Message, ModelOptions, PromptCache, ToolChoice};
use serde_json::{Value, json};

use super::super::*;
use super::{asking, sent_with};
use crate::provider_tools::{FileSearch, SearchLocation, WebSearch};

fn searching(search: WebSearch) -> ProviderTools {
    ProviderTools { web_search: Some(search), ..ProviderTools::default() }
}

fn computing() -> ProviderTools {
    ProviderTools { code_execution: true, ..ProviderTools::default() }
}

fn reading() -> ProviderTools {
    let file_search = Some(FileSearch::new(["s1"]).max_results(4));
    ProviderTools { file_search, ..ProviderTools::default() }
}

fn hi() -> ChatRequest {
    ChatRequest::new([Message::user("hi")])
}

#[test]
fn own_tools_in_each_dialect() {
    let berlin = SearchLocation::new().city("Berlin").region("BE").country("DE").timezone("Europe/Berlin");
    let place = json!({
        "type": "approximate", "city": "Berlin", "region": "BE", "country": "DE", "timezone": "Europe/Berlin",
    });
    let near = searching(WebSearch::new().allowed_domains(["docs.rs"]).location(berlin));
    let cases: [(&dyn Dialect, ProviderTools, Value); 10] = [
        (
            ANTHROPIC,
            searching(WebSearch::new().max_uses(3)),
            json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 3 }),
        ),
        (
            ANTHROPIC,
            near.clone(),
            json!({
                "type": "web_search_20250305", "name": "web_search", "allowed_domains": ["docs.rs"],
                "user_location": place,
            }),
        ),
        (ANTHROPIC, computing(), json!({ "type": "code_execution_20250825", "name": "code_execution" })),
        (RESPONSES, searching(WebSearch::new()), json!({ "type": "web_search" })),
        (
            RESPONSES,
            near,
            json!({ "type": "web_search", "filters": { "allowed_domains": ["docs.rs"] }, "user_location": place }),
        ),
        (RESPONSES, computing(), json!({ "type": "code_interpreter", "container": { "type": "auto" } })),
        (RESPONSES, reading(), json!({ "type": "file_search", "vector_store_ids": ["s1"], "max_num_results": 4 })),
        (GEMINI, searching(WebSearch::new()), json!({ "googleSearch": {} })),
        (GEMINI, computing(), json!({ "codeExecution": {} })),
        (GEMINI, reading(), json!({ "fileSearch": { "fileSearchStoreNames": ["s1"], "topK": 4 } })),
    ];
    for (wire, tools, expected) in cases {
        let name = wire.info().name;
        let alone = sent_with(&tools, wire, "m", &hi()).unwrap();
        assert_eq!(alone["tools"], json!([expected]), "{name}");
        let plain = sent_with(&ProviderTools::default(), wire, "m", &asking(ModelOptions::new())).unwrap();
        let both = sent_with(&tools, wire, "m", &asking(ModelOptions::new())).unwrap();
        let mut all = plain["tools"].as_array().unwrap().clone();
        all.push(expected);
        assert_eq!(both["tools"], json!(all), "{name}: the tools of the program are still there");
        // The tools of `extra` follow.
        let extra = json!({ "type": "other" });
        let more = asking(ModelOptions::new().extra(json!({ "tools": [extra] })));
        all.push(extra);
        assert_eq!(sent_with(&tools, wire, "m", &more).unwrap()["tools"], json!(all), "{name}");
    }
}

#[test]
fn missing_tools_are_refused() {
    let search = || searching(WebSearch::new());
    let cases: [(&dyn Dialect, ProviderTools, &str); 12] = [
        (
            OPENAI,
            search(),
            "the chat completions API has no tool `web_search`: remove `.web_search(…)` from the model, or use `Model::anthropic`, `Model::responses` or `Model::gemini`",
        ),
        (OPENAI, computing(), "no tool `code_execution`"),
        (OPENAI, reading(), "use `Model::responses` or `Model::gemini`"),
        (AZURE, search(), "no tool `web_search`"),
        (OPENROUTER, reading(), "no tool `file_search`"),
        (OLLAMA, search(), "Ollama's API has no tool `web_search`"),
        (OLLAMA, computing(), "no tool `code_execution`"),
        (ANTHROPIC, reading(), "Anthropic has no tool `file_search`"),
        (
            RESPONSES,
            searching(WebSearch::new().max_uses(1)),
            "OpenAI has no option `max_uses` of `WebSearch`: remove it",
        ),
        (GEMINI, searching(WebSearch::new().max_uses(1)), "Gemini has no option `max_uses`"),
        (GEMINI, searching(WebSearch::new().blocked_domains(["a.example"])), "no option `blocked_domains`"),
        (GEMINI, searching(WebSearch::new().location(SearchLocation::new())), "no option `location`"),
    ];
    for (wire, tools, expected) in cases {
        let refused = sent_with(&tools, wire, "m", &hi()).unwrap_err();
        assert!(refused.contains(expected), "{}: {refused}", wire.info().name);
    }
}

#[test]
fn conflicting_tools_are_refused() {
    let both = searching(WebSearch::new().allowed_domains(["a.example"]).blocked_domains(["b.example"]));
    let refused = sent_with(&both, ANTHROPIC, "m", &hi()).unwrap_err();
    assert!(refused.contains("`allowed_domains` or `blocked_domains`"), "{refused}");
    assert!(sent_with(&both, RESPONSES, "m", &hi()).is_ok());

    let mut searches = asking(ModelOptions::new()).tools.to_vec();
    searches[0].name = "web_search".to_owned();
    let own = hi().tools(searches);
    let search = searching(WebSearch::new());
    let refused = sent_with(&search, ANTHROPIC, "m", &own).unwrap_err();
    assert!(refused.contains("have a tool `web_search`: rename the program's"), "{refused}");
    assert!(sent_with(&computing(), ANTHROPIC, "m", &own).is_ok());

    let asked = asking(ModelOptions::new());
    let refused = sent_with(&search, GEMINI, "gemini-2.5-flash", &asked).unwrap_err();
    assert!(refused.contains("`gemini-2.5-flash` accepts either"), "{refused}");
    assert!(sent_with(&search, GEMINI, "gemini-2.5-flash", &hi()).is_ok());
    let body = sent_with(&search, GEMINI, "gemini-3-flash", &asked).unwrap();
    assert_eq!(body["toolConfig"], json!({ "includeServerSideToolInvocations": true }));
    assert_eq!(sent_with(&search, GEMINI, "gemini-3-flash", &hi()).unwrap().get("toolConfig"), None);
}

/// Vertex AI has no field for the calls of its own tools.
#[test]
fn vertex_gets_no_field_for_its_own_calls() {
    let (vertex, _) = vertex("p", "global", "gemini-3-flash");
    let search = searching(WebSearch::new());
    let body = sent_with(&search, vertex, "gemini-3-flash", &asking(ModelOptions::new())).unwrap();
    assert_eq!(body.get("toolConfig"), None, "{body:#}");
    let none = asking(ModelOptions::new().tool_choice(ToolChoice::None));
    let body = sent_with(&search, vertex, "gemini-3-flash", &none).unwrap();
    assert_eq!(body["toolConfig"], json!({ "functionCallingConfig": { "mode": "NONE" } }));
}

/// The cache mark is on the last tool, so that all tools are cached.
#[test]
fn own_tools_are_cached() {
    let cached = asking(ModelOptions::new().cache(PromptCache::Short));
    let body = sent_with(&computing(), ANTHROPIC, "m", &cached).unwrap();
    assert!(body["tools"][2].get("cache_control").is_some() && body["tools"][1].get("cache_control").is_none());
}

/// A later request, and one after a pause, run code in the same sandbox.
#[test]
fn sandbox_is_kept_until_it_expires() {
    let hi = hi();
    for (expires, expected) in
        [("2999-01-01T00:00:00.5Z", json!("c1")), ("2020-01-01T00:00:00Z", Value::Null), ("x", Value::Null)]
    {
        let container = json!({ "id": "c1", "expires_at": expires });
        let content = json!([{ "type": "text", "text": "One." }]);
        let whole = json!({ "content": content, "stop_reason": "end_turn", "container": container });
        let text =
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "One." } });
        let end = json!({ "type": "message_delta", "delta": { "stop_reason": "pause_turn", "container": container } });
        let read = |is_streamed: bool| {
            let mut draft = AnswerDraft::new(&hi, ANTHROPIC.maker("m", ANTHROPIC.info().url), is_streamed);
            if is_streamed {
                ANTHROPIC.read_event(&mut draft, &text).unwrap();
                ANTHROPIC.read_event(&mut draft, &end).unwrap();
                assert!(draft.is_paused());
                return draft.resume();
            }
            ANTHROPIC.read_answer(&mut draft, &whole).unwrap();
            draft.into_answer().unwrap().message
        };
        for message in [read(false), read(true)] {
            let request = ChatRequest::new([Message::user("hi"), message, Message::user("more")]);
            let body = sent_with(&computing(), ANTHROPIC, "m", &request).unwrap();
            assert_eq!((&body["container"], &body["messages"][1]["content"]), (&expected, &content), "{body:#}");
            assert_eq!(sent_with(&ProviderTools::default(), ANTHROPIC, "m", &request).unwrap().get("container"), None);
        }
    }
}

/// A block of a tool is not a thought: a turn that began without thinking goes on without.
#[test]
fn own_blocks_do_not_count_as_thoughts() {
    let search = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] });
    let call = json!({ "type": "tool_use", "id": "a", "name": "look", "input": {} });
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "c2ln" });
    for (content, thinks) in [(json!([search, found, call]), false), (json!([thought, search, found, call]), true)] {
        let hi = hi();
        let mut draft = AnswerDraft::new(&hi, ANTHROPIC.maker("m", ANTHROPIC.info().url), false);
        ANTHROPIC.read_answer(&mut draft, &json!({ "content": content, "stop_reason": "tool_use" })).unwrap();
        let asked = draft.into_answer().unwrap().message;
        let result = Message::tool(&asked.tool_calls()[0], "seen");
        let options = ModelOptions::new().reasoning(hier_agents::Effort::Low);
        let request = ChatRequest::new([Message::user("hi"), asked, result]).options(options);
        let body = sent_with(&searching(WebSearch::new()), ANTHROPIC, "claude-sonnet-4-5", &request).unwrap();
        assert_eq!(body.get("thinking").is_some(), thinks, "{body:#}");
        assert_eq!(body["messages"][1]["content"], content);
    }
}
