//! Drives third-party servers with an agent as the client: `peers everything NODE SCRIPT`, `peers fastmcp PYTHON SCRIPT`. Run by
//! `scripts/peers.sh mcp`.

use hier_agents::Toolset;
use hier_agents::prelude::*;
use hier_core::checkpoint::MemorySaver;
use hier_mcp::{McpClient, Protocol};
use hier_mcp_tests::agent::{Helper, answers, desk};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> std::result::Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["everything", node, script] => everything(node, script).await,
        ["fastmcp", python, script] => fastmcp(python, script).await,
        _ => Err("peers everything NODE SCRIPT, or peers fastmcp PYTHON SCRIPT".into()),
    }
}

async fn call(client: &McpClient, tool: &str, args: Value) -> std::result::Result<String, Failure> {
    let context = desk(client, [Message::call(tool, args), Message::assistant("Done.")]);
    let out = Helper::compile().invoke(Message::user("Go.")).context(context).await?;
    Ok(answers(&out).remove(0))
}

/// Checks MCP's own example server, `everything`, which speaks the protocol versions with `initialize`.
async fn everything(node: &str, script: &str) -> std::result::Result<(), Failure> {
    let build = || McpClient::stdio("everything", node).args([script, "stdio"]);
    let client = build().build()?;
    let names: Vec<String> =
        client.tools().await.map_err(|error| error.to_string())?.iter().map(|tool| tool.name.clone()).collect();
    println!("everything: {}", names.join(", "));
    let said = call(&client, "echo", json!({"message": "hello"})).await?;
    assert!(said.contains("hello"), "{said}");
    let said = call(&client, "get-sum", json!({"a": 2, "b": 3})).await?;
    assert!(said.contains('5'), "{said}");
    let said = call(&client, "get-env", json!({})).await?;
    assert!(!said.contains("CARGO"), "its environment is closed: {said}");
    let resources = client.resources().await?;
    assert!(!resources.is_empty());
    client.read(&resources[0].uri).await?;
    assert!(!client.prompts().await?.is_empty());

    // The server sends a request during the call. The client answers it outside a durable run and refuses it inside one.
    let asking = build().answer(async |question: hier_mcp::McpQuestion| Ok(form(&question.schema))).build()?;
    asking.connect().await?;
    if asking
        .tools()
        .await
        .map_err(|error| error.to_string())?
        .iter()
        .any(|tool| tool.name == "trigger-elicitation-request")
    {
        let said = call(&asking, "trigger-elicitation-request", json!({})).await?;
        assert!(!said.starts_with("Error"), "{said}");
        let durable = Helper::compile().checkpointer(MemorySaver::new());
        let context =
            desk(&asking, [Message::call("trigger-elicitation-request", json!({})), Message::assistant("Done.")]);
        let refused = durable.invoke(Message::user("Go.")).thread("t").context(context).await;
        let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("sent `elicitation/create` in the middle"), "{refused}");
    }
    Ok(())
}

/// Checks a `fastmcp` server, in both protocols that it offers.
async fn fastmcp(python: &str, script: &str) -> std::result::Result<(), Failure> {
    for protocol in [Protocol::Auto, Protocol::Initialize] {
        let client =
            McpClient::stdio("fastmcp", python).arg(script).pass_env(["PATH", "HOME"]).protocol(protocol).build()?;
        let said = call(&client, "add", json!({"a": 2, "b": 3})).await?;
        assert!(said.contains('5'), "{said}");
        let said = call(&client, "fails", json!({})).await?;
        assert!(said.starts_with("Error: ") && said.contains("out of paper"), "{said}");
        let said = call(&client, "add", json!({"a": "x"})).await?;
        assert!(said.starts_with("Error: "), "{said}");
        assert_eq!(client.resources().await?[0].uri, "memo://one");
        println!("fastmcp: {protocol:?} passed");
    }
    Ok(())
}

/// Returns an object that fills the required fields of a form.
fn form(schema: &Value) -> Value {
    let field = |field: &Value| match field["type"].as_str() {
        _ if field.get("default").is_some() => field["default"].clone(),
        Some("integer" | "number") => field.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        _ => match (&field["enum"][0], &field["oneOf"][0]["const"], field["format"].as_str()) {
            (Value::String(choice), ..) | (_, Value::String(choice), _) => json!(choice),
            (_, _, Some("email")) => json!("anna@example.org"),
            (_, _, Some("uri")) => json!("https://example.org"),
            (_, _, Some("date")) => json!("2026-01-01"),
            (_, _, Some("date-time")) => json!("2026-01-01T00:00:00Z"),
            _ => json!("Anna"),
        },
    };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten();
    let filled =
        fields.filter(|(name, _)| required.contains(&name.as_str())).map(|(name, of)| (name.clone(), field(of)));
    Value::Object(filled.collect())
}
