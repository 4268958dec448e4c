//! Declared questions through the public API: a question that is asked with its type is answered with its type, with each saver and
//! after each event between question and answer.

mod kill;

use std::time::{Duration, SystemTime};

use hier_agents::prelude::*;
use hier_agents::{Approval as Verdict, ApprovalRequest, OperatorQuestion, ask_operator};
use hier_core::checkpoint::Checkpointer;
use hier_core::graph::DynGraphInfo;
use hier_core::{Interrupted, OpenQuestion, QuestionAnswer};
use hier_sqlite::Sqlite;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Ledger {
    amounts: Vec<u32>,
    #[reducer(append)]
    log: Vec<String>,
}

/// Asks if an invoice is paid.
#[derive(Question, Debug, Serialize, Deserialize, JsonSchema)]
#[question(answer = Decision)]
struct Pay {
    amount: u32,
    note: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Decision {
    Pay,
    Refuse { reason: String },
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = String, name = "account")]
struct PickAccount;

async fn pay(Sent(amount): Sent<u32>, pay: Ask<Pay>) -> hier_core::Result<LedgerUpdate> {
    let check = |decision: &Decision| match decision {
        Decision::Refuse { reason } if reason.is_empty() => Err("a refusal needs a reason".to_owned()),
        _ => Ok(()),
    };
    let decision = pay.ask(Pay { amount, note: None }).check(check).await?;
    Ok(Ledger::update().log(match decision {
        Decision::Pay => format!("paid {amount}"),
        Decision::Refuse { reason } => format!("refused {amount}: {reason}"),
    }))
}

async fn account(pick: Ask<PickAccount>) -> hier_core::Result<LedgerUpdate> {
    let account = pick.ask(PickAccount).await?;
    Ok(Ledger::update().log(format!("from {account}")))
}

graph! {
    Payments<Ledger> = Graph {
        nodes: [pay],
        edges: [START >> for amount in state.amounts { pay(amount) }, pay >> END],
        asks: [Pay],
    }
}

graph! {
    Desk<Ledger> = Graph {
        nodes: [Payments, account],
        edges: [START >> [Payments, account] >> END],
        asks: [Pay, Account = PickAccount],
    }
}

fn interrupted<S: std::fmt::Debug>(out: Outcome<S>) -> Interrupted<S> {
    match out {
        Outcome::Interrupted(asked) => asked,
        other => panic!("nothing was asked: {other:?}"),
    }
}

/// Answers as the desk does: small amounts are paid.
fn answer(question: &DeskQuestion) -> QuestionAnswer {
    match question {
        DeskQuestion::Pay(pay) if pay.amount <= 100 => pay.answer(Decision::Pay),
        DeskQuestion::Pay(pay) => pay.answer(Decision::Refuse { reason: "too much".to_owned() }),
        DeskQuestion::Account(account) => account.answer("main".to_owned()),
    }
}

async fn asks_and_answers(saver: impl Checkpointer) {
    let desk = Desk::compile().checkpointer(saver);
    let out = desk.invoke(Ledger::update().amounts([50, 500])).thread("t").await.unwrap();
    let asked = interrupted(out);
    let open: Vec<DeskQuestion> = asked.questions().unwrap();
    assert_eq!(open.len(), 3, "two in the subgraph and one beside it: {open:?}");
    let paths: Vec<String> = open.iter().map(|open| open.stored().path.join("/")).collect();
    assert_eq!(paths, ["Payments/pay", "Payments/pay", "account"]);
    assert_eq!(asked.questions[0].value, json!({ "type": "pay", "amount": 50, "note": null }));
    assert_eq!(asked.questions[2].value, json!({ "type": "account" }));
    assert!(asked.questions.iter().all(|question| question.schema.is_some()));

    let other = OpenQuestion::<PickAccount>::read(&asked.questions[0]).unwrap_err().to_string();
    assert!(
        other.contains("node `Payments → pay`") && other.contains("the question `pay` is not a `PickAccount`: check")
    );

    // One answer leaves the others open, and the thread knows them by their types.
    let out = desk.invoke(answer(&open[1])).thread("t").await.unwrap();
    assert_eq!(out.questions::<DeskQuestion>().unwrap().len(), 2);
    let snapshot = desk.state("t").await.unwrap();
    let open: Vec<DeskQuestion> = snapshot.questions().unwrap();
    assert!(matches!(&*open, [DeskQuestion::Pay(pay), DeskQuestion::Account(_)] if pay.amount == 50), "{open:?}");

    let answers: Vec<QuestionAnswer> = open.iter().map(answer).collect();
    let repeated = answers.clone();
    let out = desk.invoke(answers).thread("t").await.unwrap();
    let mut log = out.state().log.clone();
    log.sort();
    assert_eq!(log, ["from main", "paid 50", "refused 500: too much"]);
    assert!(out.questions::<DeskQuestion>().unwrap().is_empty());
    assert!(desk.invoke(repeated).thread("t").await.is_err(), "an answered question cannot be answered again");
}

#[tokio::test]
async fn typed_questions_are_answered_in_memory() {
    asks_and_answers(MemorySaver::new()).await;
}

#[tokio::test]
async fn typed_questions_are_answered_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    asks_and_answers(Sqlite::open(folder.path().join("desk.db")).await.unwrap()).await;
}

#[tokio::test]
async fn refused_answer_leaves_the_question_open() {
    let desk = Payments::compile().checkpointer(MemorySaver::new());
    let asked = interrupted(desk.invoke(Ledger::update().amounts([500])).thread("t").await.unwrap());
    let id = asked.questions[0].id.clone();
    let refusal = serde_json::to_value(Decision::Refuse { reason: String::new() }).unwrap();
    for (wrong, reason) in [(json!("Maybe"), "unknown variant"), (refusal, "a refusal needs a reason")] {
        let error = desk.invoke(Command::answers([(&id, wrong)])).thread("t").await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        let snapshot = desk.state("t").await.unwrap();
        let open: Vec<PaymentsQuestion> = snapshot.questions().unwrap();
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].stored().id, id);
    }
    let snapshot = desk.state("t").await.unwrap();
    let [PaymentsQuestion::Pay(pay)] = &*snapshot.questions().unwrap() else { panic!("one question") };
    let out = desk.invoke(pay.answer(Decision::Pay)).thread("t").await.unwrap();
    assert_eq!(out.state().log, ["paid 500"]);
}

const DAY: Duration = Duration::from_hours(24);

async fn until_tomorrow(pay: Ask<Pay>) -> hier_core::Result<LedgerUpdate> {
    let refused = Decision::Refuse { reason: "no answer".to_owned() };
    let decision = pay.ask(Pay { amount: 1, note: None }).key("pay").until(SystemTime::now() + DAY, refused).await?;
    Ok(Ledger::update().log(format!("{decision:?}")))
}

graph! {
    Patient<Ledger> = Graph { nodes: [until_tomorrow], edges: [START >> until_tomorrow >> END], asks: [Pay] }
}

#[tokio::test]
async fn deadline_gives_the_default_and_ends_the_question() {
    let patient = Patient::compile().checkpointer(MemorySaver::new());
    let out = patient.invoke(Ledger::update()).thread("t").await.unwrap();
    let [PatientQuestion::Pay(pay)] = &*out.questions().unwrap() else { panic!("one question") };
    let due = pay.due().expect("a deadline");
    assert!(due > SystemTime::now() + DAY / 2);
    let sweeper = patient.sweeper(|_| ());
    assert!(sweeper.drive_due(due - DAY / 2).await.unwrap().is_empty());
    let driven = sweeper.drive_due(due + DAY).await.unwrap().pop().expect("it is due").outcome.unwrap();
    assert_eq!(driven.state().log, [r#"Refuse { reason: "no answer" }"#]);
    assert!(patient.invoke(pay.answer(Decision::Pay)).thread("t").await.is_err());
}

/// Settles an invoice.
#[tool]
async fn settle(
    /// The amount.
    amount: u32,
    pay: Ask<Pay>,
) -> hier_core::Result<String> {
    Ok(format!("{:?}", pay.ask(Pay { amount, note: Some("from a tool".to_owned()) }).await?))
}

/// Sends money.
#[tool(needs_approval)]
async fn transfer(amount: u32) -> String {
    format!("sent {amount}")
}

graph! {
    /// Pays invoices.
    Clerk<BaseState> = ReactGraph {
        tools: [settle, transfer, ask_operator],
        asks: [Pay, ApprovalRequest, OperatorQuestion],
    }
}

graph! {
    Office<BaseState> = ReactGraph {
        subagents: [Clerk { merge_fields: [messages] }],
        asks: [Pay, Transfer = ApprovalRequest, Chat = OperatorQuestion],
    }
}

fn calls(calls: &[(&str, Value)]) -> Message {
    let call = |(name, args): &(&str, Value)| hier_core::message::ToolCall::new(*name, args.clone());
    Message::calls("", calls.iter().map(call).collect::<Vec<_>>())
}

#[tokio::test]
async fn tools_approvals_and_operators_ask_with_their_types() {
    let work = [
        ("settle", json!({"amount": 7})),
        ("transfer", json!({"amount": 8})),
        ("ask_operator", json!({"question": "Why?"})),
    ];
    let model = ScriptedModel::new([
        calls(&[("clerk", json!({"task": "pay"}))]),
        calls(&work),
        calls(&[("report_to_supervisor", json!({"report": "done"}))]),
        calls(&[("finish_task", json!({"result": "done"}))]),
    ]);
    let office = Office::compile_as_root().checkpointer(MemorySaver::new());
    let context = || BaseContext::new(model.clone());
    let mut out = office.invoke(BaseState::update()).thread("t").context(context()).await.unwrap();
    let mut seen = Vec::new();
    while let Outcome::Interrupted(asked) = &out {
        let answers = asked.questions::<OfficeQuestion>().unwrap().into_iter().map(|question| match question {
            OfficeQuestion::Pay(pay) => {
                seen.push(format!("pay {} {:?}", pay.amount, pay.note));
                pay.answer(Decision::Pay)
            }
            OfficeQuestion::Transfer(request) => {
                seen.push(format!("approve {}", request.call.name));
                request.answer(Verdict::Edit { args: json!({"amount": 9}) })
            }
            OfficeQuestion::Chat(chat) => {
                seen.push(chat.question.clone());
                chat.answer("Because.".to_owned())
            }
        });
        let answers: Command<BaseState> = answers.collect();
        out = office.invoke(answers).thread("t").context(context()).await.unwrap();
    }
    seen.sort();
    assert_eq!(seen, ["Why?", "approve transfer", r#"pay 7 Some("from a tool")"#]);
    assert_eq!(model.remaining(), Some(0));
}

async fn both(run: &Run, pay: Ask<Pay>) -> hier_core::Result<()> {
    let untyped = run.interrupt::<bool>(&json!({ "type": "pay", "amount": 1 }));
    let typed = pay.ask(Pay { amount: 1, note: None });
    let (untyped, typed) = (untyped.await, typed.await);
    untyped?;
    typed.map(drop)
}

graph! {
    Mixed<Ledger> = Graph { nodes: [both], edges: [START >> both >> END], asks: [Pay] }
}

#[tokio::test]
async fn untyped_question_is_named_and_not_lost() {
    let mixed = Mixed::compile().checkpointer(MemorySaver::new());
    let asked = interrupted(mixed.invoke(Ledger::update()).thread("t").await.unwrap());
    let error = asked.questions::<MixedQuestion>().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("node `both`") && text.contains("is not a declared question"), "{text}");
    // It looks like a declared question, but nothing declared it.
    assert_eq!(error.question.value, json!({ "type": "pay", "amount": 1 }));
    let out = mixed.invoke(Command::answers([(&error.question.id, true)])).thread("t").await.unwrap();
    let [MixedQuestion::Pay(pay)] = &*out.questions().unwrap() else { panic!("one question") };
    assert!(mixed.invoke(pay.answer(Decision::Pay)).thread("t").await.unwrap().is_finished());
}

#[tokio::test]
async fn schemas_and_answers_of_a_graph_without_types() {
    let desk = Desk::compile().erase(|_| Ok(()));
    let schemas = &desk.schemas().questions;
    assert_eq!(schemas.keys().collect::<Vec<_>>(), ["account", "pay"]);
    let pay = &schemas["pay"];
    assert_eq!(pay.question["properties"]["type"], json!({ "type": "string", "const": "pay" }));
    assert_eq!(pay.question["title"], "Pay");
    assert_eq!(pay.question["required"][0], "type");
    assert_eq!(schemas["account"].question["type"], "object");
    assert_eq!(schemas["account"].answer["type"], "string");
    assert!(desk.check_answer("pay", &json!("Pay")).is_ok());
    assert!(desk.check_answer("pay", &json!("Maybe")).unwrap_err().contains("unknown variant"));
    assert!(desk.check_answer("unknown", &json!(1)).is_ok(), "the run checks answers to unknown questions");
}

mod before {
    //! The question as an earlier version of the program declared it.
    use hier_agents::prelude::*;

    use super::Decision;

    #[derive(Question, Serialize, Deserialize, JsonSchema)]
    #[question(answer = Decision)]
    pub(super) struct Pay {
        pub(super) total: String,
    }
}

async fn ask_earlier(pay: Ask<before::Pay>) -> hier_core::Result<()> {
    pay.ask(before::Pay { total: "1 EUR".to_owned() }).key("pay").await.map(drop)
}

async fn ask_later(pay: Ask<Pay>) -> hier_core::Result<()> {
    pay.ask(Pay { amount: 1, note: None }).key("pay").await.map(drop)
}

graph! {
    Earlier<Ledger> = Graph {
        name: "versions",
        nodes: [ask = ask_earlier],
        edges: [START >> ask >> END],
        asks: [before::Pay],
    }
}

graph! {
    Later<Ledger> = Graph { name: "versions", nodes: [ask = ask_later], edges: [START >> ask >> END], asks: [Pay] }
}

#[tokio::test]
async fn question_of_an_earlier_version_is_an_error_that_has_it() {
    let saver = MemorySaver::new();
    let earlier = Earlier::compile().checkpointer(saver.clone());
    let asked = interrupted(earlier.invoke(Ledger::update()).thread("t").await.unwrap());
    assert_eq!(asked.questions::<EarlierQuestion>().unwrap().len(), 1);
    let error = asked.questions::<LaterQuestion>().unwrap_err();
    assert!(error.to_string().contains("is not a `Pay`: missing field `amount`"), "{error}");
    let answer = Command::answers([(&error.question.id, Decision::Pay)]);
    let out = Later::compile().checkpointer(saver).invoke(answer).thread("t").await.unwrap();
    assert!(out.is_finished(), "the key identifies the question, so its answer stays valid");
}
