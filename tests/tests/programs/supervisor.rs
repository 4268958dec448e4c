//! A supervisor with two workers, each with its own tools.

use hier_agents::prelude::*;
use hier_testkit::ScriptedModel;
use serde_json::json;

graph! { Supervisor<BaseState> = Agent { system: "Let math and research do the work.", subagents: [Math {}, Research {}] } }
graph! {
    /// Calculates.
    Math<BaseState> = Agent { system: "You calculate, with one tool at a time.", tools: [add] }
}
graph! {
    /// Searches the web.
    Research<BaseState> = Agent { system: "You search, and do no math.", tools: [web_search] }
}

/// Adds two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Searches the web.
#[tool]
async fn web_search(query: String) -> String {
    format!("{query}: Facebook 67317, Amazon 1_608_000")
}

#[tokio::test]
async fn two_workers() -> hier_core::Result<()> {
    let steps = [("research", "task"), ("web_search", "query")]
        .map(|(tool, arg)| Message::call(tool, json!({ arg: "headcounts" })));
    let sum =
        [Message::call("math", json!({"task": "add"})), Message::call("add", json!({"a": 67317, "b": 1_608_000}))];
    let said = |text| [Message::assistant(text)];
    let script = steps.into_iter().chain(said("found")).chain(sum).chain(said("1675317")).chain(said("1675317 people"));
    let out = Supervisor::compile()
        .invoke(Message::user("How many?"))
        .context(BaseContext::new(ScriptedModel::new(script)))
        .await?;
    assert_eq!(out.state().messages.last().map(Message::text).as_deref(), Some("1675317 people"));
    Ok(())
}
