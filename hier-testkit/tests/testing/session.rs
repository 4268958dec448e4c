//! Sessions: operators, clocks and traces.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{Usage, ask_operator};
use hier_core::Result;
use hier_testkit::{Clock, FakeOperator, ScriptedModel, Session, Trace};
use serde_json::json;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Case {
    amount: u32,
    #[reducer(append)]
    log: Vec<String>,
}

const DAY: Duration = Duration::from_hours(24);

graph! {
    Review<Case> = Graph {
        nodes: [weigh, sign, pay],
        edges: [START >> weigh >> if is_large { sign } else { pay }, sign >> pay >> END],
    }
}

async fn weigh() {}

fn is_large(case: &Case) -> bool {
    case.amount > 100
}

async fn sign(case: &Case, run: &Run) -> Result<CaseUpdate> {
    let by: String = run.interrupt(&json!({ "pay": case.amount })).await?;
    Ok(Case::update().log([format!("signed by {by}")]))
}

async fn pay() -> CaseUpdate {
    Case::update().log(["paid".to_owned()])
}

graph! {
    Reminder<Case> = Graph { nodes: [remind], edges: [START >> remind >> END] }
}

async fn remind(run: &Run) -> Result<CaseUpdate> {
    run.sleep(7 * DAY).await?;
    let by: String = run.interrupt(&"Who?").until(std::time::SystemTime::now() + 9 * DAY, "nobody".to_owned()).await?;
    Ok(Case::update().log([by]))
}

graph! {
    Nagging<Case> = Graph { nodes: [nag], edges: [START >> nag >> if is_open { nag } else { END }] }
}

fn is_open(case: &Case) -> bool {
    case.log.is_empty()
}

async fn nag(run: &Run) -> Result<()> {
    let _: bool = run.interrupt(&"Now?").await?;
    Ok(())
}

graph! {
    /// Answers customers.
    Desk<BaseState> = Agent { tools: [refund, ask_operator], subagents: [Clerk {}] }
}

graph! {
    /// Looks things up.
    Clerk<BaseState> = Agent { tools: [look] }
}

/// Pays back.
#[tool(needs_approval)]
async fn refund(order: u32) -> String {
    format!("order {order} is paid back")
}

/// Looks up.
#[tool]
async fn look(order: u32) -> String {
    format!("order {order} is broken")
}

fn desk(
    replies: impl IntoIterator<Item = Message>,
) -> Session<BaseState, BaseContext, hier_core::graph::FullState, BaseState> {
    let model = ScriptedModel::new(replies);
    Session::new(&Desk::compile(), move || BaseContext::new(model.clone()))
}

/// The messages of failed assertions.
fn said<O>(run: &Trace<O>, check: impl FnOnce(&Trace<O>)) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| check(run))).expect_err("the assertion fails");
    *panic.downcast::<String>().expect("a text")
}

#[tokio::test]
async fn question_without_an_operator_ends_the_run() {
    let mut session = Session::new(&Review::compile(), || ());
    let run = session.run(Case::update().amount(500)).await;
    run.assert_waits_for(1).assert_nodes(["weigh"]).assert_did_not_run("sign");
    assert_eq!(run.questions, [(run.questions[0].0.clone(), None)]);

    let run = session.run(Command::resume("Ada")).await;
    run.assert_nodes(["sign", "pay"]);
    assert_eq!(run.assert_finished().log, ["signed by Ada", "paid"]);
}

#[tokio::test]
async fn first_matching_rule_answers() {
    let operator = FakeOperator::new()
        .rule(|question| (question.value["pay"] == 500).then(|| json!("Ada")))
        .answer_node("nobody", "Eve")
        .answer("Bob");
    for (amount, by) in [(500, "Ada"), (600, "Bob")] {
        let mut session = Session::new(&Review::compile(), || ()).operator(operator.clone());
        let run = session.run(Case::update().amount(amount)).await;
        run.assert_nodes(["weigh", "sign", "pay"]);
        assert_eq!(run.assert_finished().log, [format!("signed by {by}"), "paid".to_owned()]);
        assert_eq!(run.questions[0].1, Some(json!(by)));
    }
}

#[tokio::test]
async fn operator_approves_edits_rejects_and_answers() {
    let script = || {
        [
            Message::call("ask_operator", json!({ "question": "Which order is it?" })),
            Message::call("refund", json!({ "order": 17 })),
            Message::assistant("Done."),
        ]
    };
    let person = || FakeOperator::new().answer_text("Which order", "17");
    let edited =
        "[The operator changed the arguments of this call to {\"order\":18}. The result:]\norder 18 is paid back";
    for (operator, result) in [
        (person().approve("refund"), "order 17 is paid back"),
        (person().edit("refund", json!({ "order": 18 })), edited),
    ] {
        let run = desk(script()).operator(operator).say("It is broken.").await;
        run.assert_finished();
        run.assert_calls(["ask_operator", "refund"]).assert_order(["ask_operator", "refund"]).assert_model_calls(3..=3);
        assert_eq!(run.calls()[0].result.as_deref(), Some("17"));
        assert_eq!(run.calls()[1].result.as_deref(), Some(result));
    }
    let run = desk(script()).operator(person().reject("refund", "too old")).say("It is broken.").await;
    assert!(run.calls()[1].result.as_deref().is_some_and(|received| received.contains("too old")), "{run}");
    let run = desk(script()).operator(person()).say("It is broken.").await;
    run.assert_waits_for(1);
}

#[tokio::test]
async fn trace_includes_subagents() {
    let replies = [
        Message::call("clerk", json!({ "task": "look" })).with_usage(Usage::new(10, 1)),
        Message::call("look", json!({ "order": 3, })).with_usage(Usage::new(20, 2)),
        Message::assistant("It is broken.").with_usage(Usage::new(30, 3)),
        Message::assistant("Sorry for that.").with_usage(Usage::new(40, 4)),
    ];
    let mut session = desk(replies.clone());
    let run = session.say("What about order 3?").await;
    run.assert_finished();
    run.assert_called("look", &json!({ "order": 3 })).assert_not_called("refund").assert_tokens(110..=110);
    assert_eq!(run.answers.iter().map(|answer| &*answer.agent).collect::<Vec<_>>(), ["desk", "clerk", "clerk", "desk"]);
    assert!(run.tasks.iter().any(|task| !task.path.is_empty() && task.is_done()), "{run}");
}

#[tokio::test]
async fn second_run_is_the_next_turn() {
    let mut session = desk([Message::assistant("Hello!"), Message::assistant("Bye!")]);
    session.say("Hello?").await.assert_finished();
    let run = session.say("Bye.").await;
    assert_eq!(run.assert_finished().messages.len(), 4);
    assert_eq!(session.graph().state("test").await.unwrap().values.messages.len(), 4);
}

#[tokio::test]
async fn moving_the_clock_resumes_sleeps() {
    let clock = Clock::new();
    let mut session = Session::new(&Reminder::compile(), || ()).clock(&clock);
    session.run(Case::update()).await.assert_waits_for(0);
    clock.advance(6 * DAY);
    session.run(()).await.assert_waits_for(0);
    clock.advance(DAY);
    session.run(()).await.assert_waits_for(1);
    clock.advance(2 * DAY);
    let run = session.run(()).await;
    assert_eq!(run.assert_finished().log, ["nobody"]);
}

#[tokio::test]
async fn session_advances_time_up_to_its_limit() {
    let run = Session::new(&Reminder::compile(), || ()).let_time_pass(30 * DAY).run(Case::update()).await;
    assert_eq!(run.assert_finished().log, ["nobody"]);
    let run = Session::new(&Reminder::compile(), || ()).let_time_pass(DAY).run(Case::update()).await;
    run.assert_waits_for(0).assert_did_not_run("remind");
    let answered =
        Session::new(&Reminder::compile(), || ()).let_time_pass(30 * DAY).operator(FakeOperator::new().answer("Ada"));
    assert_eq!({ answered }.run(Case::update()).await.assert_finished().log, ["Ada"]);
}

#[tokio::test]
async fn endless_questions_end_the_session() {
    let mut session = Session::new(&Nagging::compile(), || ()).operator(FakeOperator::new().answer(true));
    let run = session.run(Case::update()).await;
    run.assert_waits_for(1);
    assert_eq!(run.questions.len(), 1_000);
}

#[tokio::test]
async fn assertion_that_fails_shows_the_run() {
    let mut session = Session::new(&Review::compile(), || ());
    let run = session.run(Case::update().amount(500)).await;
    let shown = |said: String, what: &str| {
        assert!(said.contains(what) && said.contains("weigh") && said.contains("waits for 1 answers"), "{said}");
    };
    shown(said(&run, |run| _ = run.assert_finished()), "the run has not finished");
    shown(said(&run, |run| _ = run.assert_waits_for(2)), "the run waits for 1 answers instead of 2");
    shown(said(&run, |run| _ = run.assert_nodes(["pay"])), r#"["weigh"] ran instead of ["pay"]"#);
    shown(said(&run, |run| _ = run.assert_ran("pay")), "`pay` did not run");
    shown(said(&run, |run| _ = run.assert_did_not_run("weigh")), "`weigh` ran");
    shown(said(&run, |run| _ = run.assert_failed("x")), "the run has not failed with `x`");
    shown(said(&run, |run| _ = run.assert_model_calls(1..)), "models were called 0 times, not 1..");

    let run = desk([Message::assistant("Hello!").with_usage(Usage::new(5, 5))]).say("Hello?").await;
    for (check, message) in [
        (said(&run, |run| _ = run.assert_called("refund", &json!({}))), "no call of `refund` has {}"),
        (said(&run, |run| _ = run.assert_calls(["refund"])), r#"[] were called instead of ["refund"]"#),
        (said(&run, |run| _ = run.assert_order(["refund"])), r#"[] were called, not ["refund"]"#),
        (said(&run, |run| _ = run.assert_tokens(..5)), "the models used 10 tokens, not ..5"),
    ] {
        assert!(check.contains(message) && check.contains("\"Hello!\""), "{check}");
    }
    desk([]).say("Hello?").await.assert_failed("the script of the model `scripted` has no reply");
}
