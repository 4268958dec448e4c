//! Servers that speak the protocols that begin with `initialize`.

use hier_agents::Toolset;
use hier_agents::prelude::*;
use hier_core::checkpoint::MemorySaver;
use hier_mcp::{McpClientBuilder, McpQuestion};
use hier_mcp_tests::agent::{Helper, desk};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::{Counts, called, peer};

#[tokio::test]
async fn old_servers_list_their_tools_again_on_notification() -> hier_core::Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).arg("--old").build().unwrap();
    let has_fresh = async || client.tools().await.map(|tools| tools.iter().any(|tool| tool.name == "fresh"));
    assert!(!has_fresh().await?);
    let listed = counts.all().len();
    assert!(!has_fresh().await?);
    assert_eq!(counts.all().len(), listed, "the list of a notifying server is cached");
    assert_eq!(called(&client, "change", json!({})).await.unwrap(), "changed");
    assert!(has_fresh().await?);
    assert_eq!(called(&client, "fresh", json!({"text": "new"})).await.unwrap(), "new");
    Ok(())
}

/// A program that was started again may have other tools.
#[tokio::test]
async fn tools_are_listed_again_over_a_new_connection() -> hier_core::Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).arg("--old").build().unwrap();
    let has_fresh = async || client.tools().await.map(|tools| tools.iter().any(|tool| tool.name == "fresh"));
    called(&client, "change", json!({})).await.unwrap();
    assert!(has_fresh().await?);
    called(&client, "crash", json!({})).await.unwrap_err();
    assert!(!has_fresh().await?);
    Ok(())
}

#[tokio::test]
async fn old_servers_questions_are_answered_during_the_call() {
    let counts = Counts::new();
    let client = peer(&counts)
        .arg("--old")
        .answer(async |question: McpQuestion| {
            assert_eq!((question.message.as_str(), question.tool), ("Really?", None));
            Ok(json!({"sure": true}))
        })
        .build()
        .unwrap();
    let said = called(&client, "live", json!({})).await.unwrap();
    assert!(said.contains("\"action\":\"accept\"") && said.contains("\"sure\":true"), "{said}");
}

#[tokio::test]
async fn old_servers_questions_are_declined_by_default() {
    let counts = Counts::new();
    let client = peer(&counts).arg("--old").build().unwrap();
    let said = called(&client, "live", json!({})).await.unwrap();
    assert!(said.contains("\"action\":\"decline\""), "{said}");
}

#[tokio::test]
async fn old_servers_requests_for_models_and_folders_are_answered() {
    let counts = Counts::new();
    let asking = async |client: McpClientBuilder, method: &str| {
        called(&client.build().unwrap(), "ask", json!({"text": method})).await.unwrap()
    };
    let old = || peer(&counts).arg("--old");
    let model = ScriptedModel::new([Message::assistant("Beer.")]);
    let said = asking(old().sampling(model), "sampling/createMessage").await;
    assert!(said.contains("\"text\":\"Beer.\""), "{said}");
    let said = asking(old().roots(["file:///srv/desk"]), "roots/list").await;
    assert!(said.contains("file:///srv/desk"), "{said}");
    let said = asking(old(), "sampling/createMessage").await;
    assert!(said.contains("the MCP server `peer` requests a model: set one with `.sampling(…)`"), "{said}");
}

#[tokio::test]
async fn old_servers_questions_are_refused_in_durable_runs() {
    let counts = Counts::new();
    let client = peer(&counts).arg("--old").answer(async |_| Ok(json!({"sure": true}))).build().unwrap();
    let helper = Helper::compile().checkpointer(MemorySaver::new());
    let context = desk(&client, [Message::call("live", json!({}))]);
    let failed = helper.invoke(Message::user("Go.")).thread("t").context(context).await.unwrap_err().to_string();
    assert!(failed.contains("sent `elicitation/create` in the middle of `live`"), "{failed}");
    assert!(failed.contains("a durable run cannot answer it"), "{failed}");
}
