//! Servers whose tools no provider would take, or whose lists have no end.

use std::time::Duration;

use hier_agents::Toolset;
use hier_mcp_tests::agent::{answers, desk};
use serde_json::{Value, json};

use hier_agents::prelude::*;
use hier_mcp_tests::agent::Helper;

use crate::{Counts, called, peer};

fn with_tools(counts: &Counts, tools: &Value) -> hier_mcp::McpClient {
    peer(counts).args(["--tools", &tools.to_string()]).build().unwrap()
}

/// Schemas that providers refuse are repaired, and the server gets what it asked for.
#[tokio::test]
async fn tools_of_odd_schemas_can_be_called() {
    let counts = Counts::new();
    let by = |name: &str| json!({"properties": {name: {"type": "string"}}, "required": [name]});
    let client = with_tools(
        &counts,
        &json!([
            {"name": "find", "inputSchema": {"type": "object", "anyOf": [by("id"), by("name")]}},
            {"name": "query", "inputSchema": {"type": "object", "properties": {"$filter": {"type": "string"}}}},
        ]),
    );
    let specs = client.tools().await.unwrap();
    assert!(specs[0].parameters.get("anyOf").is_none() && specs[0].parameters["type"] == "object");
    assert!(specs[1].parameters["properties"].get("_filter").is_some(), "{:#}", specs[1].parameters);
    assert_eq!(called(&client, "find", json!({"value": {"id": "7"}})).await.unwrap(), r#"{"id":"7"}"#);
    assert_eq!(called(&client, "query", json!({"_filter": "a"})).await.unwrap(), r#"{"$filter":"a"}"#);
}

/// A tool that models cannot be offered is left out, and the agent has the others.
#[tokio::test]
async fn one_bad_tool_does_not_stop_the_agent() {
    let counts = Counts::new();
    let plain = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let far = json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}});
    let client = with_tools(
        &counts,
        &json!([
            {"name": "", "inputSchema": plain},
            {"name": "far", "inputSchema": far},
            {"name": "echo", "description": format!("Says\u{1b}[31m {}", "x".repeat(20_000)), "inputSchema": plain},
        ]),
    );
    let specs = client.tools().await.unwrap();
    let [echo] = &specs[..] else { panic!("{specs:?}") };
    assert_eq!(echo.name, "echo");
    assert!(echo.description.starts_with("Says\\u{1b}[31m xxx") && echo.description.len() < 9_000);
    let context = desk(&client, [Message::call("echo", json!({"text": "hi"})), Message::assistant("Done.")]);
    let out = Helper::compile().invoke(Message::user("Go.")).context(context).await.unwrap();
    assert_eq!(answers(&out), [r#"{"text":"hi"}"#]);
}

/// A list without an end is an error, and soon.
#[tokio::test]
async fn endless_lists_are_aborted() {
    for (how, received) in [("anew", "it has more than 100 pages"), ("same", "its pages form a cycle")] {
        let counts = Counts::new();
        let client = peer(&counts).args(["--endless", how]).build().unwrap();
        let failed = tokio::time::timeout(Duration::from_secs(20), client.tools()).await.unwrap().unwrap_err();
        assert!(failed.to_string().contains(received), "{failed}");
        assert!(counts.all().len() <= 102, "{}", counts.all().len());
    }
}

#[tokio::test]
async fn list_with_too_many_tools_is_refused() {
    let counts = Counts::new();
    let most = |most| peer(&counts).max_tools(most).build().unwrap();
    assert_eq!(most(12).tools().await.unwrap().len(), 12);
    let refused = most(11).tools().await.unwrap_err().to_string();
    assert!(refused.contains("it has more than 11 entries, the limit of `max_tools`"), "{refused}");
}

/// Approval holds for tools whose names are shortened for models.
#[tokio::test]
async fn long_name_needs_its_approval() {
    let counts = Counts::new();
    let name = format!("delete_{}", "x".repeat(80));
    let tools = json!([{"name": name, "inputSchema": {"type": "object"}}]).to_string();
    let client = peer(&counts).args(["--tools", &tools]).prefix("crm_").approve([name]).build().unwrap();
    let shown = client.tools().await.unwrap()[0].name.clone();
    assert!(shown.len() == 64 && client.needs_approval(&shown), "{shown}");
}

/// A server that writes its log to its standard output can still be used.
#[tokio::test]
async fn lines_that_are_not_messages_are_skipped() {
    let counts = Counts::new();
    let client = peer(&counts).arg("--chatty").build().unwrap();
    assert_eq!(called(&client, "echo", json!({"text": "hello"})).await.unwrap(), "hello");
}

/// Error texts of a server reach logs and terminals.
#[tokio::test]
async fn errors_have_no_control_characters_of_the_server() {
    let counts = Counts::new();
    let mut errors = Vec::new();
    let client = peer(&counts).build().unwrap();
    for code in [-32_602, -32_000] {
        let refused = json!({"text": "lost \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}\u{202e}", "code": code});
        let error = called(&client, "refuse", refused).await;
        errors.push(error.unwrap_or_else(|error| error.to_string()));
    }
    let says = r"printf 'lost \033[2J\033]0;owned\007\302\233\342\200\256\n' >&2; exit 1";
    let client = hier_mcp::McpClient::stdio("shell", "/bin/sh").args(["-c", says]).build().unwrap();
    errors.push(client.connect().await.unwrap_err().to_string());
    for error in errors {
        assert!(error.contains(r"lost \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}\u{202e}"), "{error:?}");
        assert!(error.chars().all(|letter| letter == '\n' || !letter.is_control()), "{error:?}");
        assert!(!error.contains('\u{202e}'), "{error:?}");
    }
}
