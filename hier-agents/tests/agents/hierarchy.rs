//! A supervisor with subagents and stages: what crosses the boundary between them, and what does not.

use hier_agents::prelude::*;
use hier_draw::Draw;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, FilingUpdate, call, finish, offered, prompt, report};

graph! {
    /// Files a return.
    Desk<Filing> = ReactGraph {
        system: "You run the desk.",
        reasoning: "What next?",
        tools: [rate],
        max_iterations: 12,
        front: [Normalise],
        subagents: [
            Extractor { merge_fields: [artifact, findings] },
            Matcher { merge_fields: [risk], discard_fields: [current_agent_report], clear_messages: false },
            Sum,
        ],
        back: [Package],
    }
}

graph! {
    /// Extracts what matters.
    Extractor<Filing> = ReactGraph {
        system: |state: &Filing| format!("You extract from {}.", state.draft),
        report_into: artifact,
        policy: Policy { max_iterations: 4 },
    }
}

graph! {
    Matcher<Filing> = TodoGraph {
        description: "Matches positions.",
        name: "match_positions",
        todo_refusal: "Not yet.",
    }
}

graph! {
    /// Adds up.
    Sum<Filing> = SimpleGraph { compute: add }
}

graph! {
    Normalise<Filing> = SimpleGraph { compute: normalise }
}

graph! {
    Package<Filing> = SimpleGraph { compute: package }
}

/// The rate of a year.
#[tool]
async fn rate(year: u16) -> String {
    format!("{year}: 7 %")
}

async fn add(state: &Filing) -> FilingUpdate {
    Filing::update().current_agent_report(format!("{} findings", state.findings.len())).risk(3_u32)
}

async fn normalise(state: &Filing) -> FilingUpdate {
    Filing::update().draft(state.draft.trim().to_owned())
}

async fn package(state: &Filing) -> FilingUpdate {
    Filing::update().artifact(format!("package({})", state.base.current_agent_report))
}

async fn run(model: &ScriptedModel) -> Filing {
    let input = Filing::update().draft("  w2 ").findings(["first".to_owned()]);
    let context = BaseContext::new(model.clone());
    let out = Desk::compile_as_root().invoke(input).context(context).await.expect("the run ends");
    assert_eq!(model.remaining(), Some(0), "the script is used up");
    match out {
        Outcome::Finished(state) => state,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn model_receives_the_result_of_its_tool_call() {
    let model = ScriptedModel::new([call("rate", json!({"year": 2025})), finish("done")]);
    let end = run(&model).await;
    assert_eq!(prompt(&model, 0), ["You run the desk.", "What next?\n\n[Iteration 1 of 12 — 11 iterations left]"]);
    assert_eq!(prompt(&model, 1)[3], "2025: 7 %");
    let tools = ["raise_exception", "finish_task", "rate", "extractor", "match_positions", "sum"];
    assert_eq!(offered(&model, 0), tools);
    assert_eq!(end.base.current_agent_report, "done");
    assert_eq!(end.artifact.as_deref(), Some("package(done)"), "the back stage saw the report");
    assert_eq!(end.draft, "w2", "the front stage ran");
    assert!(end.base.is_finished);
}

#[tokio::test]
async fn invalid_arguments_are_reported_to_the_model() {
    let model = ScriptedModel::new([call("rate", json!({"year": "last"})), finish("done")]);
    run(&model).await;
    let received = &prompt(&model, 1)[3];
    assert!(received.starts_with("Error: ") && received.contains("year"), "{received}");
}

#[tokio::test]
async fn policy_merges_only_its_fields() {
    let task = json!({"task": "read the w2", "task_scope": "page 1"});
    let model = ScriptedModel::new([call("extractor", task), report("three wages"), finish("done")]);
    let end = run(&model).await;
    let inner = prompt(&model, 1);
    assert_eq!(inner[0], "You extract from w2.", "inherits what was not cleared");
    assert_eq!(inner[1], "[TASK FROM SUPERVISOR]\nread the w2");
    assert!(inner[2].contains("Your scope is LIMITED TO: page 1"));
    assert!(inner[3].ends_with("[Iteration 1 of 4 — 3 iterations left — WRAP UP NOW]"), "capped by its policy");
    assert_eq!(inner.len(), 4, "starts with an empty conversation");
    let outer = prompt(&model, 2);
    assert_eq!(outer[3], "three wages", "the report answers the call");
    assert!(outer[4].contains("[Iteration 2 of 12"), "the supervisor's own count goes on");
    assert_eq!(end.findings, ["first"], "nothing is merged twice");
    assert_eq!(end.base.subagent_stack.depth(), 0);
    let calls = end.base.progress.get("extractor");
    assert_eq!((calls.scheduled, calls.finished), (1, 1));
}

#[tokio::test]
async fn todo_graph_reports_after_its_list_is_done() {
    let model = ScriptedModel::new([
        call("match_positions", json!({"task": "all"})),
        report("too early"),
        call("todo_write", json!({"items": ["p1"]})),
        call("todo_complete", json!({"item": "p1"})),
        report("matched"),
        finish("done"),
    ]);
    let end = run(&model).await;
    assert!(prompt(&model, 1).iter().any(|text| text == "You run the desk."), "sees the history of its supervisor");
    assert_eq!(prompt(&model, 2).iter().filter(|text| *text == "Error: Not yet.").count(), 1);
    assert!(end.base.todo_list.is_empty(), "the list was its own");
    assert_eq!(prompt(&model, 5).iter().rev().nth(1).map(String::as_str), Some("matched"));
}

#[tokio::test]
async fn subagent_without_policy_shares_the_state() {
    let model = ScriptedModel::new([call("sum", json!({"task": "x"})), finish("done")]);
    let end = run(&model).await;
    assert_eq!(prompt(&model, 1)[3], "1 findings");
    assert_eq!(end.risk, 3);
}

#[tokio::test]
async fn every_member_runs_by_itself() {
    let model = ScriptedModel::new([report("alone")]);
    let input = Filing::update().draft("a page");
    let out = Extractor::compile().invoke(input).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!(out.state().artifact.as_deref(), Some("alone"));
    assert_eq!(offered(&model, 0), ["report_to_supervisor", "raise_exception"]);
    let out = Sum::compile().invoke(Filing::update()).await.unwrap();
    assert_eq!(out.state().base.current_agent_report, "0 findings");
}

#[test]
fn drawing_shows_the_hierarchy() {
    let drawn = Desk::SPEC.mermaid();
    for name in ["normalise", "extractor", "match_positions", "sum", "package"] {
        assert!(drawn.contains(name), "{name} in {drawn}");
    }
}

/// A state that collects the notes of its nodes.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Search {
    #[state(flatten)]
    base: BaseState,
    #[reducer(append)]
    notes: Vec<String>,
}

/// A state that keeps the last notes.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Board {
    #[state(flatten)]
    base: BaseState,
    notes: Vec<String>,
}

graph! {
    /// Searches.
    Scout<Search> = SimpleGraph { compute: scout, on_exit: conclude }
}

graph! {
    Lead<Board> = ReactGraph { subagents: [Scout { discard_fields: [notes] }] }
}

async fn scout() -> SearchUpdate {
    Search::update().notes(["private".to_owned()]).current_agent_report("nothing".to_owned())
}

async fn conclude() -> SearchUpdate {
    Search::update().notes(["searched".to_owned()])
}

#[tokio::test]
async fn exit_writes_do_not_return_discarded_fields() {
    let model = ScriptedModel::new([call("scout", json!({})), finish("done")]);
    let context = BaseContext::new(model.clone());
    let out = Lead::compile_as_root().invoke(Board::update()).context(context).await.expect("the run ends");
    assert_eq!(out.state().notes, ["searched"]);
}
