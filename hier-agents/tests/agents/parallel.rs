//! Subagents that run side by side.

use hier_agents::{CallCounts, Progress, ToolErrors};

use hier_agents::prelude::*;
use hier_core::Result;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, FilingUpdate, call, calls, finish, prompt, report};

graph! {
    Desk<Filing> = ReactGraph {
        tools: [fails],
        tool_errors: ToolErrors::Tell,
        parallel_subagents: true,
        subagents: [Counter { merge_fields: [findings, risk] }, Other { merge_fields: [findings] }],
    }
}

graph! {
    Counter<Filing> = SimpleGraph { compute: count, args: Page }
}

graph! {
    Other<Filing> = SimpleGraph { compute: other, on_entry: enter, on_exit: leave }
}

graph! {
    /// One at a time.
    Strict<Filing> = ReactGraph { subagents: [Counter {}] }
}

/// The arguments of a counter.
#[derive(Debug, Deserialize, JsonSchema)]
struct Page {
    /// The number of the page.
    number: u32,
}

async fn count(state: &Filing) -> Result<FilingUpdate> {
    let Page { number } = state.base.args()?;
    Ok(Filing::update()
        .findings([format!("page {number}")])
        .risk(number)
        .artifact(format!("draft {number}"))
        .current_agent_report(format!("counted {number}")))
}

async fn other(state: &Filing) -> FilingUpdate {
    Filing::update().findings([format!("other saw {}", state.draft)]).current_agent_report("other".to_owned())
}

fn enter(state: &Filing) -> FilingUpdate {
    Filing::update().draft(format!("entered with {}", state.findings.len()))
}

async fn leave(state: &Filing) -> FilingUpdate {
    Filing::update().draft(format!("left with {}", state.findings.len()))
}

/// Fails.
#[tool]
async fn fails() -> Result<String> {
    Err(NodeError::new("no paper"))
}

async fn run(model: &ScriptedModel) -> Filing {
    let context = BaseContext::new(model.clone());
    let out = Desk::compile_as_root().invoke(Filing::update()).context(context).await.expect("the run ends");
    out.state().clone()
}

#[tokio::test]
async fn results_of_parallel_subagents_are_merged_by_reducers() {
    let both = calls([("counter", json!({"number": 2})), ("counter", json!({"number": 1})), ("other", json!({}))]);
    let model = ScriptedModel::new([both, finish("done")]);
    let end = run(&model).await;
    assert_eq!(end.findings, ["page 2", "page 1", "other saw entered with 0"]);
    assert_eq!(end.risk, 2);
    assert_eq!(end.artifact, None, "not in the policy");
    assert_eq!(end.draft, "left with 1", "writes of `on_exit` reach the supervisor");
    assert_eq!(prompt(&model, 1)[3..6], ["counted 2", "counted 1", "other"]);
    let calls = end.base.progress.get("counter");
    assert_eq!((calls.scheduled, calls.finished), (2, 2));
    assert_eq!(end.base.current_agent_report, "done");
}

#[tokio::test]
async fn typed_arguments_are_checked() {
    let model = ScriptedModel::new([
        calls([("counter", json!({"number": "two"})), ("counter", json!({"number": 7}))]),
        finish("done"),
    ]);
    let end = run(&model).await;
    assert_eq!(end.findings, ["page 7"]);
    let received = &prompt(&model, 1);
    assert!(received[3].starts_with("Error: ") && received[3].contains("number"), "{received:?}");
    let requests = model.requests();
    let schema = &requests[0].tools.iter().find(|tool| tool.name == "counter").unwrap().parameters;
    assert_eq!(schema["properties"]["number"]["description"], "The number of the page.");
}

#[tokio::test]
async fn tool_failure_is_reported_with_tool_errors_tell() {
    let model = ScriptedModel::new([call("fails", json!({})), finish("done")]);
    run(&model).await;
    assert_eq!(prompt(&model, 1)[3], "Error: no paper");
}

#[tokio::test]
async fn parallel_subagents_need_the_option() {
    let both = calls([("counter", json!({"number": 2})), ("counter", json!({"number": 1}))]);
    let model = ScriptedModel::new([both, report("done")]);
    let context = BaseContext::new(model.clone());
    let out = Strict::compile().invoke(Filing::update()).context(context).await.unwrap();
    assert_eq!(out.state().base.current_agent_report, "done");
    assert!(prompt(&model, 1)[3].starts_with("Error: Parallel tool calls"));
}

graph! {
    Writers<Filing> = Graph { nodes: [ahead, behind], edges: [START >> [ahead, behind] >> END] }
}

fn clerk(scheduled: u64, finished: u64) -> FilingUpdate {
    Filing::update().progress(Progress::from([("clerk", CallCounts { scheduled, finished })]))
}

async fn ahead() -> FilingUpdate {
    clerk(3, 1)
}

async fn behind() -> FilingUpdate {
    clerk(2, 2)
}

#[tokio::test]
async fn parallel_writes_do_not_lower_the_progress() {
    let out = Writers::compile().invoke(Filing::update()).await.expect("the run ends");
    assert_eq!(out.state().base.progress.get("clerk"), CallCounts { scheduled: 3, finished: 2 });
}

/// A call with invalid arguments is rejected, and does not start the subagent.
#[tokio::test]
async fn rejected_calls_do_not_count_as_progress() {
    let both = calls([("counter", json!({"number": "many"})), ("counter", json!({"number": 7}))]);
    let model = ScriptedModel::new([both, finish("done")]);
    let input = Filing::update().messages(Message::user("?"));
    let out = Desk::compile_as_root().invoke(input).context(BaseContext::new(model)).await.unwrap();
    assert_eq!(out.state().findings, ["page 7"]);
    let CallCounts { scheduled, finished } = out.state().base.progress.get("counter");
    assert_eq!((scheduled, finished), (1, 1));
}
