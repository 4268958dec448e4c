//! Tools that an agent with a search sends although the model has not found them, and the end of its requests.

use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, ModelOptions, ToolChoice, ToolSearch};
use hier_core::Result;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use crate::searching::{Desk, SHOP, answers, desk, search};
use crate::support::{call, offered};

/// A provider refuses a request that forces a tool which it does not have.
#[tokio::test]
async fn forced_tool_is_always_sent() -> Result<()> {
    let model = ScriptedModel::new([call("ship", json!({})), Message::assistant("Done.")]);
    let agent = AgentBuilder::<BaseState, Desk>::new("support").toolset(|desk| &desk.crm);
    let options = ModelOptions::new().tool_choice(ToolChoice::Tool("ship".to_owned()));
    let agent = agent.search(ToolSearch::new().above(0)).options(options).compile()?;
    let out = agent.invoke(Message::user("Go.")).context(desk(&model, &SHOP)).await?;
    assert_eq!(offered(&model, 0), ["search_tools", "ship"]);
    assert_eq!(answers(out.state()), ["ship: done"]);
    Ok(())
}

#[tokio::test]
async fn typed_answers_and_the_last_request_keep_their_tools() -> Result<()> {
    let model = ScriptedModel::new([search("refund"), call("refund", json!({})), Message::assistant("Late.")]);
    let agent = AgentBuilder::<BaseState, Desk>::new("support").toolset(|desk| &desk.crm);
    let agent = agent.search(ToolSearch::new().above(0)).max_iterations(2).compile()?;
    let out = agent.invoke(Message::user("Go.")).context(desk(&model, &SHOP)).await?;
    assert_eq!(offered(&model, 1), ["search_tools", "refund"]);
    assert!(answers(out.state())[1].contains("the limit of iterations is reached"));
    let value: Value = serde_json::to_value(out.state()).unwrap();
    assert_eq!(value["found_tools"], json!(["refund"]));
    Ok(())
}
