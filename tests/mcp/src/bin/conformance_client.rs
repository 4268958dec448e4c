//! The client under test in the conformance suite of MCP: `conformance_client URL`. An agent calls the tools of the scenario.

use hier_agents::Toolset;
use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_mcp::{McpAuth, McpClient, McpQuestion};
use hier_mcp_tests::agent::{Helper, answers, desk};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Failure> {
    let url = std::env::args().next_back().unwrap_or_default();
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let accept = async |question: McpQuestion| Ok(example(&question.schema));
    let context: Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    if scenario.starts_with("auth/") {
        return authorized(&url, &scenario, &context).await;
    }
    let client = McpClient::http("conformance", url).answer(accept).build()?;
    let tools = client.tools().await.map_err(|error| error.to_string())?;
    eprintln!("{scenario}: {:?}", tools.iter().map(|tool| &tool.name).collect::<Vec<_>>());
    if let Some(calls) = context["toolCalls"].as_array() {
        for wanted in calls {
            let name = wanted["name"].as_str().unwrap_or_default();
            call(&client, [(name, wanted["arguments"].clone())]).await?;
        }
        return Ok(());
    }
    if scenario == "json-schema-2020-12-preservation" {
        let of = |name: &str| tools.iter().find(|tool| tool.name.contains(name)).ok_or("a tool is missing");
        let (focal, echo) = (of("2020")?, of("echo")?);
        let schema = client.input_schema(&focal.name).await.map_err(|error| error.to_string())?;
        return call(&client, [(&*echo.name, json!({ "schema": schema }))]).await;
    }
    // All tools are called concurrently: data of one call must not appear in another.
    let wanted: Vec<(&str, Value)> = tools.iter().map(|tool| (&*tool.name, example(&tool.parameters))).collect();
    call(&client, wanted).await?;
    if scenario == "http-standard-headers" {
        for resource in client.resources().await? {
            client.read(&resource.uri).await?;
        }
        for prompt in client.prompts().await? {
            client.prompt(&prompt.name, []).await?;
        }
    }
    Ok(())
}

/// Calls each tool, and authorizes the client as often as the server requires it, up to three times.
async fn authorized(url: &str, scenario: &str, given: &Value) -> std::result::Result<(), Failure> {
    let auth = McpAuth::builder(url, "http://localhost:3000/callback");
    let auth = match (given["client_id"].as_str(), given["client_secret"].as_str()) {
        (Some(id), Some(secret)) if scenario == "auth/client-credentials-basic" => McpAuth::machine(url, id, secret),
        (Some(id), Some(secret)) => auth.client_secret(id, secret),
        _ => auth.client_document("https://conformance-test.local/client-metadata.json"),
    };
    let auth = auth.build()?;
    let client = McpClient::http("conformance", url).oauth(&auth).build()?;
    let work = async || {
        client.connect().await?;
        let tools = client.tools().await.map_err(|error| error.to_string())?;
        for tool in &*tools {
            call(&client, [(&*tool.name, example(&tool.parameters))]).await?;
        }
        Ok::<_, Failure>(())
    };
    for _ in 0..3 {
        let Err(error) = work().await else { return Ok(()) };
        let error = error.to_string();
        eprintln!("{error}");
        if !error.contains("needs an authorization") {
            return Err(error.into());
        }
        let visited = browser().get(auth.authorization_url().await?).send().await?;
        let returned = visited.headers().get("location").ok_or("no redirect")?.to_str()?.to_owned();
        auth.finish(&returned).await?;
    }
    work().await
}

/// Returns the browser of a person who agrees to everything.
fn browser() -> reqwest::Client {
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a browser")
}

/// Runs an agent that makes these calls concurrently.
async fn call<'a>(
    client: &McpClient,
    calls: impl IntoIterator<Item = (&'a str, Value)>,
) -> std::result::Result<(), Failure> {
    let calls = calls.into_iter().enumerate().map(|(number, (name, args))| ToolCall {
        name: name.to_owned(),
        args,
        id: format!("call-{number}"),
    });
    let context = desk(client, [Message::calls("", calls.collect::<Vec<_>>()), Message::assistant("Done.")]);
    let out = Helper::compile().invoke(Message::user("Go.")).context(context).await?;
    eprintln!("{:?}", answers(&out));
    Ok(())
}

/// Returns a value that matches the schema, with the schema's defaults where it has any.
fn example(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|choices| choices.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") | None => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields.map(|(name, field)| (name.clone(), example(field))).collect::<serde_json::Map<_, _>>().into()
        }
        Some("integer" | "number") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        _ => json!("Alice"),
    }
}
