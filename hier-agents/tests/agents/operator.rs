//! Questions to the operator at any depth, and their answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::{Approval, OperatorQuestion, ask_operator};

use hier_agents::prelude::*;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, call, calls, finish, prompt, report};

graph! {
    Desk<Filing> = ReactGraph { subagents: [Clerk { merge_fields: [findings] }] }
}

graph! {
    Clerk<Filing> = ReactGraph { system: "You pay.", tools: [pay] }
}

graph! {
    Office<Filing> = ReactGraph { subagents: [Front { merge_fields: [chat_with_operator] }] }
}

graph! {
    Front<Filing> = ReactGraph { subagents: [Back { merge_fields: [chat_with_operator] }] }
}

graph! {
    Back<Filing> = ReactGraph { tools: [ask_operator, pay] }
}

graph! {
    Bank<Filing> = ReactGraph { tools: [transfer] }
}

static TRANSFERS: AtomicUsize = AtomicUsize::new(0);

/// Asks for the recipient, and fails once after the answer.
#[tool(needs_approval, retry = 3)]
async fn transfer(run: &Run<BaseContext>) -> hier_core::Result<String> {
    let to: String = run.interrupt(&"to whom?").await?;
    match TRANSFERS.fetch_add(1, Ordering::Relaxed) {
        0 => Err(NodeError::new("the line is busy")),
        _ => Ok(format!("sent to {to}")),
    }
}

#[tokio::test(start_paused = true)]
async fn retried_tool_does_not_repeat_its_question() {
    let model = ScriptedModel::new([call("transfer", json!({})), finish("done")]);
    let bank = Bank::compile_as_root().checkpointer(MemorySaver::new());
    let (thread, context) = (|| Config::new().thread("t"), || BaseContext::new(model.clone()));
    let asked = bank.invoke(Filing::update()).config(thread()).context(context()).await.unwrap();
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    let asked = bank.invoke(Command::resume(Approval::Approve)).config(thread()).context(context()).await.unwrap();
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    let end = bank.invoke(Command::resume("the office")).config(thread()).context(context()).await.unwrap();
    assert!(matches!(end, Outcome::Finished(_)), "{end:?}");
    assert!(prompt(&model, 1).contains(&"sent to the office".to_owned()), "{:?}", prompt(&model, 1));
}

/// Arguments that are not an object, such as those of a truncated answer, go back to the model. No approval is requested for
/// such a call, and it is not made.
#[tokio::test]
async fn call_with_unreadable_arguments_needs_no_approval() {
    let model = ScriptedModel::new([call("transfer", json!("{\"to\": \"the off")), finish("done")]);
    let bank = Bank::compile_as_root().checkpointer(MemorySaver::new());
    let end = bank.invoke(Filing::update()).thread("t").context(BaseContext::new(model.clone())).await.unwrap();
    assert!(matches!(end, Outcome::Finished(_)), "{end:?}");
    let received = prompt(&model, 1);
    assert!(
        received.iter().any(|text| text.contains("`{\"to\": \"the off`. If your answer was cut off")),
        "{received:?}"
    );
}

/// Pays.
#[tool(needs_approval)]
async fn pay(amount: u32) -> Command<Filing> {
    let paid = Filing::update().findings([format!("paid {amount}")]);
    Command::update(paid.messages(Message::user("paid")))
}

/// The model first fixes a call that cannot be made. Then the person approves the fixed call.
#[tokio::test]
async fn invalid_arguments_are_reported_before_approval() {
    let model = ScriptedModel::new([
        calls([("pay", json!({"amount": "ten"})), ("pay", json!({"sum": 10}))]),
        call("pay", json!({"amount": 10})),
        report("handled"),
    ]);
    let clerk = Clerk::compile_as_root().checkpointer(MemorySaver::new());
    let (thread, context) = (|| Config::new().thread("case"), || BaseContext::new(model.clone()));
    let asked = clerk.invoke(Filing::update()).config(thread()).context(context()).await.unwrap();
    let Outcome::Interrupted(asked) = asked else { panic!("no question") };
    let asked: Vec<_> = asked.questions.iter().map(|question| &question.value["call"]["args"]).collect();
    assert_eq!(asked, [&json!({"amount": 10})]);
    let received = prompt(&model, 1);
    for mistake in ["`amount`: invalid type: string \"ten\", expected u32", "`amount` is missing", "no argument `sum`"]
    {
        assert!(received.iter().any(|text| text.contains(mistake)), "{mistake} in {received:?}");
    }
    let end = clerk.invoke(Command::resume(Approval::Approve)).config(thread()).context(context()).await.unwrap();
    assert_eq!(end.state().findings, ["paid 10"]);
}

/// Edited arguments are checked against the schema.
#[tokio::test]
async fn invalid_arguments_of_the_operator_are_reported() {
    let (end, last) = answered(Approval::Edit { args: json!({"amount": "ten"}) }).await;
    assert!(end.findings.is_empty());
    assert!(last.iter().any(|text| text.contains("`amount`: invalid type")), "{last:?}");
}

async fn answered(answer: Approval) -> (Filing, Vec<String>) {
    let model = ScriptedModel::new([
        call("clerk", json!({"task": "pay"})),
        call("pay", json!({"amount": 10})),
        report("handled"),
        finish("done"),
    ]);
    let desk = Desk::compile_as_root().checkpointer(MemorySaver::new());
    let context = || BaseContext::new(model.clone());
    let config = || Config::new().thread("case");
    let Outcome::Interrupted(asked) = desk.invoke(Filing::update()).config(config()).context(context()).await.unwrap()
    else {
        panic!("no question")
    };
    assert_eq!(asked.questions.len(), 1);
    assert_eq!(asked.questions[0].path, ["clerk", "tool"]);
    assert_eq!(asked.questions[0].value["call"]["args"], json!({"amount": 10}));
    assert_eq!(asked.questions[0].value["agent"], "clerk");
    let out = desk.invoke(Command::resume(answer)).config(config()).context(context()).await.unwrap();
    assert_eq!(model.remaining(), Some(0));
    let last = prompt(&model, 2);
    assert!(last.iter().any(|text| text == "[TASK FROM SUPERVISOR]\npay"), "goes on in the middle of the clerk");
    (out.state().clone(), last)
}

#[tokio::test]
async fn approved_call_is_made_after_a_resume() {
    let (end, last) = answered(Approval::Approve).await;
    assert_eq!(end.findings, ["paid 10"]);
    assert!(last.iter().any(|text| text == "Done."), "{last:?}");
    assert_eq!(end.base.current_agent_report, "done");
    assert_eq!(end.base.subagent_stack.depth(), 0);
}

#[tokio::test]
async fn edited_call_is_made_with_its_edits() {
    let (end, last) = answered(Approval::Edit { args: json!({"amount": 3}) }).await;
    assert_eq!(end.findings, ["paid 3"]);
    // The model has asked for 10.
    let noted = "[The operator changed the arguments of this call to {\"amount\":3}. The result:]\nDone.";
    assert!(last.iter().any(|text| text == noted), "{last:?}");
}

#[tokio::test]
async fn rejected_call_returns_the_reason() {
    let (end, last) = answered(Approval::Reject { reason: "too much".to_owned() }).await;
    assert!(end.findings.is_empty());
    assert!(last.iter().any(|text| text == "Error: the operator did not approve this call: too much"), "{last:?}");
}

/// A client over HTTP sees only JSON. The error of an invalid answer lists the valid forms, and the question stays open.
#[tokio::test]
async fn invalid_approval_lists_the_valid_forms() {
    let model = ScriptedModel::new([call("pay", json!({"amount": 10})), report("handled")]);
    let clerk = Clerk::compile_as_root().checkpointer(MemorySaver::new());
    let answer = async |answer: Command<Filing>| {
        clerk.invoke(answer).thread("case").context(BaseContext::new(model.clone())).await
    };
    let asked = clerk.invoke(Filing::update()).thread("case").context(BaseContext::new(model.clone())).await.unwrap();
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    let forms = r#": an approval must be {"decision": "approve"}, {"decision": "edit", "args": {…}} or {"decision": "reject", "reason": "…"}"#;
    let wrong = [
        (json!("yes"), ""),
        (json!({"decision": "reject"}), ": missing field `reason`"),
        (json!({"decision": "aprove"}), ": unknown variant `aprove`, expected one of `approve`, `edit`, `reject`"),
    ];
    for (given, what) in wrong {
        let refused = answer(Command::resume(given)).await.unwrap_err().to_string();
        assert!(refused.ends_with(&format!("{what}{forms}")), "{refused}");
    }
    assert_eq!(model.requests().len(), 1);
    let _ = answer(Command::resume(json!({"decision": "approve"}))).await;
    assert!(prompt(&model, 1).contains(&"paid".to_owned()), "{:?}", prompt(&model, 1));
}

/// Runs an office whose innermost agent answers with this message, until it asks.
async fn ask(said: Message) -> (CompiledGraph<Filing, BaseContext>, ScriptedModel, hier_core::Interrupted<Filing>) {
    let deep = [call("front", json!({"task": "x"})), call("back", json!({"task": "y"})), said];
    let model = ScriptedModel::new(deep.into_iter().chain([report("known"), report("known"), finish("done")]));
    let office = Office::compile_as_root().checkpointer(MemorySaver::new());
    let first = office.invoke(Filing::update()).thread("case").context(BaseContext::new(model.clone()));
    let out = first.await.unwrap();
    let Outcome::Interrupted(asked) = out else { panic!("no question") };
    (office, model, asked)
}

#[tokio::test]
async fn nested_agent_asks_the_operator() {
    let (office, model, asked) = ask(call("ask_operator", json!({"question": "Which year?"}))).await;
    let [question] = &asked.questions[..] else { panic!("{:?}", asked.questions) };
    assert_eq!(question.path, ["front", "back", "tool"]);
    let value: OperatorQuestion = serde_json::from_value(question.value.clone()).unwrap();
    assert_eq!(value, OperatorQuestion { agent: "back".to_owned(), question: "Which year?".to_owned() });

    let wrong = office.invoke(Command::resume(2025)).thread("case").context(BaseContext::new(model.clone())).await;
    assert!(wrong.unwrap_err().to_string().contains("string"), "an answer of another type is refused");
    let context = BaseContext::new(model.clone());
    let out = office.invoke(Command::resume("2025")).thread("case").context(context).await.unwrap();
    assert_eq!(prompt(&model, 3).last_chunk::<2>().map(|[answer, _]| answer.as_str()), Some("2025"));
    let chat: Vec<_> =
        out.state().base.chat_with_operator.iter().filter_map(|said| Some(said.content()?.text())).collect();
    assert_eq!(chat, ["Which year?", "2025"], "merged through both policies, once");
    assert_eq!(model.remaining(), Some(0));
}

#[tokio::test]
async fn question_without_text_is_an_error_result() {
    let model = ScriptedModel::new([call("ask_operator", json!({"query": 1})), report("done")]);
    let out = Back::compile().invoke(Filing::update()).context(BaseContext::new(model.clone())).await.unwrap();
    assert!(matches!(out, Outcome::Finished(_)));
    let received = prompt(&model, 1);
    assert!(received.iter().any(|text| text.starts_with("Error: ") && text.contains("question")), "{received:?}");
}

#[tokio::test]
async fn one_pending_approval_does_not_block_other_calls() {
    let both = calls([("ask_operator", json!({"question": "Who?"})), ("pay", json!({"amount": 7}))]);
    let (office, model, asked) = ask(both).await;
    assert_eq!(asked.questions.len(), 2);
    let answers = asked.questions.iter().map(|question| {
        let is_call = question.value.get("call").is_some();
        let answer = if is_call { json!({"decision": "approve"}) } else { json!("the owner") };
        (question.id.clone(), answer)
    });
    let context = BaseContext::new(model.clone());
    let out = office.invoke(Command::answers(answers)).thread("case").context(context).await.unwrap();
    assert!(matches!(out, Outcome::Finished(_)), "{out:?}");
    assert!(prompt(&model, 3).contains(&"the owner".to_owned()));
}
