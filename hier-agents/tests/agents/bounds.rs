//! Ends of agents that do not end themselves: budgets, iterations, cancellation, a model that gives up.

use std::sync::Arc;

use hier_agents::{AgentStuck, Body, Budget, Spent, Usage};

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, FilingUpdate, call, finish, prompt};

graph! {
    Desk<Filing> = ReactGraph { subagents: [Clerk {}], max_iterations: 100 }
}

graph! {
    Wide<Filing> = ReactGraph { subagents: [Clerk {}], parallel_subagents: true }
}

graph! {
    Shared<Filing> = ReactGraph { subagents: [Clerk] }
}

graph! {
    Clerk<Filing> = ReactGraph { tools: [look, stop], subagents: [Stopper {}] }
}

graph! {
    Stopper<Filing> = SimpleGraph { compute: halt }
}

/// Looks.
#[tool]
async fn look() -> String {
    "nothing".to_owned()
}

/// Stops everything.
#[tool]
async fn stop() -> Command<Filing> {
    Command::update(Filing::update().is_cancelled(true))
}

async fn halt() -> FilingUpdate {
    Filing::update().is_cancelled(true)
}

/// A model that never ends: it calls the clerk, which looks again and again.
fn endless() -> ScriptedModel {
    ScriptedModel::reacting(|request| {
        let name = if request.tools.iter().any(|tool| tool.name == "clerk") { "clerk" } else { "look" };
        call(name, json!({"task": "look"}))
    })
}

async fn run(context: BaseContext) -> Result<Filing, RunError> {
    let out = Desk::compile_as_root().invoke(Filing::update()).context(context).await?;
    Ok(out.state().clone())
}

#[tokio::test]
async fn no_agent_of_the_tree_exceeds_the_budget() {
    let model = endless();
    let budget = Arc::new(Budget::new().model_calls(7));
    let context = BaseContext { budget: Some(budget.clone()), ..BaseContext::new(model.clone()) };
    let end = run(context).await.unwrap();
    assert_eq!(model.call_count(), 7);
    let Spent { model_calls, steps, .. } = budget.spent();
    assert_eq!(model_calls, 7);
    assert!(steps > 14, "{steps}");
    let report = &end.base.current_agent_report;
    assert!(report.contains("the budget of the whole run is used up (model calls: 7)"), "{report}");
    let clerk = end.base.progress.get("clerk");
    assert_eq!(clerk.scheduled, clerk.finished, "every agent has ended in order");
}

/// A model whose desk ends once a clerk has reported, and whose clerks never end.
fn endless_clerks(calls: &'static [&'static str]) -> ScriptedModel {
    ScriptedModel::reacting(move |request| {
        let is_desk = request.tools.iter().any(|tool| tool.name == "clerk");
        let reported = request.messages.iter().any(|message| matches!(message.body, Body::Tool { .. }));
        match (is_desk, reported) {
            (true, true) => finish("as far as it went"),
            (true, false) => Message::calls("", calls.iter().enumerate().map(|(number, name)| call_of(name, number))),
            (false, _) => call("look", json!({})),
        }
    })
}

fn call_of(name: &str, number: usize) -> ToolCall {
    ToolCall { name: name.to_owned(), args: json!({"task": "look"}), id: format!("call {number}") }
}

/// The reports of the clerks to the desk.
fn reports(end: &Filing) -> Vec<String> {
    let answers = end.base.messages.iter().filter(|message| matches!(message.body, Body::Tool { .. }));
    answers.filter_map(|answer| Some(answer.content()?.text())).collect()
}

#[tokio::test]
async fn subagent_leaves_its_supervisor_budget_to_report() {
    let model = endless_clerks(&["clerk"]);
    let end = run(BaseContext::new(model.clone()).budget(Budget::new().model_calls(6))).await.unwrap();
    assert_eq!(model.call_count(), 6);
    assert_eq!(end.base.current_agent_report, "as far as it went");
    let received = "[FORCED EXIT] Agent was ended: the agent's share of the budget is used up (model calls: 4).";
    assert_eq!(reports(&end)[0], received);
}

#[tokio::test]
async fn parallel_subagents_have_equal_shares() {
    let model = endless_clerks(&["clerk", "clerk", "clerk"]);
    let budget = Arc::new(Budget::new().model_calls(15).steps(1_000));
    let context = BaseContext { budget: Some(budget.clone()), ..BaseContext::new(model.clone()) };
    let out = Wide::compile_as_root().invoke(Filing::update()).context(context).await.unwrap();
    let received = "[FORCED EXIT] Agent was ended: the agent's share of the budget is used up (model calls: 4).";
    let end = out.state();
    assert_eq!(reports(end)[..3], [received, received, received]);
    assert_eq!(end.base.current_agent_report, "as far as it went");
    assert_eq!(budget.spent().model_calls, 14, "one for the desk, four for each clerk, one for the desk");
    assert_eq!(model.call_count(), 14);
}

#[tokio::test]
async fn subagent_that_shares_the_state_shares_the_budget() {
    let model = endless_clerks(&["clerk"]);
    let context = BaseContext::new(model.clone()).budget(Budget::new().model_calls(6));
    let out = Shared::compile_as_root().invoke(Filing::update()).context(context).await.unwrap();
    assert_eq!(model.call_count(), 6);
    let report = &out.state().base.current_agent_report;
    assert!(report.contains("the budget of the whole run is used up (model calls: 6)"), "{report}");
}

#[tokio::test]
async fn tokens_and_steps_are_budgets_too() {
    let spoken = |message: Message| message.with_usage(Usage::new(60, 40));
    let model = ScriptedModel::new([spoken(call("clerk", json!({}))), spoken(call("look", json!({})))]);
    let end = run(BaseContext::new(model.clone()).budget(Budget::new().tokens(150))).await.unwrap();
    assert_eq!(model.requests()[0].options.max_tokens, Some(150));
    assert_eq!(model.requests()[1].options.max_tokens, Some(45), "a tenth is the supervisor's");
    assert!(end.base.current_agent_report.contains("(tokens: 150)"));
    let end = run(BaseContext::new(endless()).budget(Budget::new().steps(20))).await.unwrap();
    assert!(end.base.current_agent_report.contains("(steps: 20)"));
}

#[tokio::test]
async fn subagent_leaves_its_supervisor_tokens_to_report() {
    let spoken = |message: Message| message.with_usage(Usage::new(6, 4));
    let looks = (0..90).map(|_| spoken(call("look", json!({}))));
    let script = std::iter::once(spoken(call("clerk", json!({})))).chain(looks).chain([spoken(finish("in time"))]);
    let model = ScriptedModel::new(script);
    let context = BaseContext::new(model.clone()).budget(Budget::new().tokens(1_000));
    let out = Desk::compile_as_root().invoke(Filing::update()).context(context).await.unwrap();
    assert_eq!((model.call_count(), &*out.state().base.current_agent_report), (92, "in time"));
}

/// Providers refuse a number that is greater than what their models can answer with.
#[tokio::test]
async fn answer_length_is_bounded_only_if_few_tokens_are_left() {
    for (tokens, asked) in [(1_000_000, None), (4_096, Some(4_096))] {
        let model = ScriptedModel::new([finish("done")]);
        let _ = run(BaseContext::new(model.clone()).budget(Budget::new().tokens(tokens))).await.unwrap();
        assert_eq!(model.requests()[0].options.max_tokens, asked);
    }
}

#[tokio::test]
async fn agent_that_never_reports_is_ended() {
    let model = endless();
    let out = Clerk::compile().invoke(Filing::update()).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!(model.call_count(), 55, "five more than its iterations");
    let report = &out.state().base.current_agent_report;
    assert_eq!(report, "[FORCED EXIT] Agent exhausted iteration budget (max_iterations=50, iterations_used=55).");
    let last = out.state().base.messages.last().unwrap();
    assert!(last.content().unwrap().text().starts_with("Error: "), "its last call is answered all the same");
}

#[tokio::test]
async fn cancellation_stops_the_whole_hierarchy() {
    for way in ["stop", "stopper"] {
        let model = ScriptedModel::new([call("clerk", json!({"task": "x"})), call(way, json!({})), finish("never")]);
        let end = run(BaseContext::new(model.clone())).await.unwrap();
        assert_eq!(model.remaining(), Some(1), "no request follows {way}");
        assert!(end.base.is_cancelled);
        let report = &end.base.current_agent_report;
        assert!(report.starts_with("[FORCED EXIT] Agent was ended: the run was cancelled."), "{report}");
    }
}

#[tokio::test]
async fn stuck_agent_fails_the_run() {
    let stuck = json!({"reason": "no paper", "subject_agent": "printer"});
    let model = ScriptedModel::new([call("clerk", json!({"task": "x"})), call("raise_exception", stuck)]);
    let error = run(BaseContext::new(model)).await.unwrap_err();
    let stuck = AgentStuck::find_in(&error).expect("an agent is stuck");
    assert_eq!(stuck.to_string(), "Agent raised exception: no paper");
    assert_eq!((&*stuck.reporting_agent, &*stuck.subject_agent), ("clerk", "printer"));
}

#[tokio::test]
async fn unknown_tool_error_lists_known_tools() {
    let model = ScriptedModel::new([call("clark", json!({})), finish("done")]);
    run(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!(prompt(&model, 1)[3], "Error: clark is not a valid tool, try one of [raise_exception, clerk].");
}

#[tokio::test]
async fn misspelled_ending_tool_gets_a_suggestion() {
    for name in ["finish_tusk", "finish"] {
        let model = ScriptedModel::new([call(name, json!({})), finish("done")]);
        run(BaseContext::new(model.clone())).await.unwrap();
        let received = prompt(&model, 1)[3].clone();
        assert!(received.ends_with("try one of [raise_exception, clerk]. Did you mean `finish_task`?"), "{received}");
    }
}

#[tokio::test]
async fn token_counts_saturate() {
    let usage = || Usage::new(u64::MAX, u64::MAX);
    let model = ScriptedModel::new([finish("done").with_usage(usage())]);
    let budget = Arc::new(Budget::new().tokens(1_000));
    let context = BaseContext { budget: Some(budget.clone()), ..BaseContext::new(model) };
    run(context).await.unwrap();
    assert_eq!(budget.spent().tokens, u64::MAX);
}

graph! {
    /// Has a tool and a subagent.
    Mixed<Filing> = Agent { tools: [count], subagents: [Clerk {}], parallel_subagents: true }
}

/// Counts.
#[tool]
async fn count() -> u32 {
    1
}

#[tokio::test]
async fn parallel_tools_do_not_reduce_a_subagents_budget() {
    let clerks =
        crate::support::calls([("count", json!({})), ("count", json!({})), ("clerk", json!({"task": "work"}))]);
    let model = ScriptedModel::reacting(move |request| {
        if !request.tools.iter().any(|tool| tool.name == "count") {
            return Message::assistant("hm");
        }
        if request.messages.len() == 1 { clerks.clone() } else { Message::assistant("done") }
    });
    let budget = Budget::new().model_calls(12);
    let context = BaseContext::new(model.clone()).budget(budget);
    let out = Mixed::compile().invoke(Message::user("go")).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    // One before, ten of eleven by the clerk, one after.
    assert_eq!(model.call_count(), 12);
}

graph! {
    Listed<Filing> = TodoGraph {}
}

#[tokio::test]
async fn unknown_todo_item_is_not_completed() {
    let model = ScriptedModel::new([
        call("todo_write", json!({"items": ["Read the file.", "Reply."]})),
        call("todo_complete", json!({"item": "read the file"})),
        call("todo_complete", json!({"item": "Read the file."})),
        call("todo_complete", json!({"item": "Reply."})),
        finish("done"),
    ]);
    let context = BaseContext::new(model.clone());
    let out = Listed::compile_as_root().invoke(Filing::update()).context(context).await.unwrap();
    assert!(out.state().base.is_finished);
    let received = prompt(&model, 2);
    assert!(
        received.contains(
            &"Error: `read the file` is not on the TODO list: open items: `Read the file.`, `Reply.`".to_owned()
        ),
        "{received:?}"
    );
}

#[test]
fn agents_with_invalid_node_names_are_refused() {
    use hier_agents::AgentBuilder;
    for (name, mistake) in [
        ("", "the name of the graph is empty: give it a name"),
        (" \n", "the name of the graph is empty: give it a name"),
        ("a|b", "the graph name `a|b` is reserved, because `|` separates names: remove `|`"),
        ("a/b", "the graph name `a/b` is reserved, because `/` separates names: remove `/`"),
        ("END", "the node name `END` is reserved, because every graph has START and END: choose another"),
        ("__desk", "the node name `__desk` is reserved: remove the `__` at its start"),
    ] {
        let kinds = [AgentBuilder::<BaseState>::new(name), AgentBuilder::react(name), AgentBuilder::todo(name)];
        for agent in kinds {
            assert_eq!(agent.compile().unwrap_err().mistakes, [mistake], "{name:?}");
        }
        assert_eq!(AgentBuilder::<BaseState>::react(name).compile_as_root().unwrap_err().mistakes, [mistake]);
    }
}

#[test]
fn uncallable_tool_names_are_refused() {
    use hier_agents::{AgentBuilder, Subagent};
    for name in ["my worker", "prüfer", "a.b", &"a".repeat(65)] {
        let worker = AgentBuilder::<BaseState>::new(name).compile().unwrap();
        let error = AgentBuilder::<BaseState>::new("desk").subagent(Subagent::new(&worker)).compile().unwrap_err();
        let expected = "because a name has 1 to 64 ASCII letters, digits, `_` and `-`: rename it";
        assert!(error.mistakes.len() == 1 && error.mistakes[0].ends_with(expected), "{error}");
    }
    let agent = || AgentBuilder::<Filing>::new("desk");
    let mistakes = |builder: AgentBuilder<Filing>| builder.compile().unwrap_err().mistakes;
    assert_eq!(
        mistakes(agent().reasoning("?")),
        [
            "an `Agent` has no option `reasoning`, because it ends when its model replies without a call: use `AgentBuilder::react`"
        ]
    );
    assert_eq!(
        mistakes(agent().attempts(0)),
        ["`attempts` is 0, so the agent could not accept a reply: set it to at least 1"]
    );
    let react = AgentBuilder::<Filing>::react("desk").answer(&Filing::channels().artifact);
    assert!(mistakes(react)[0].starts_with("only an `Agent` has the option `answer`"));
}
