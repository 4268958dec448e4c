//! What an operator is asked, at any depth, and how the run goes on with the answer.

use hier_core::agent::{Approval, ScriptedModel};
use hier_core::checkpoint::MemorySaver;
use hier_core::prelude::*;
use serde_json::json;

use crate::support::{Filing, call, finish, prompt, report};

graph! {
    Desk<Filing> = ReactGraph { subagents: [Clerk { merge_fields: [findings] }] }
}

graph! {
    Clerk<Filing> = ReactGraph { system: "You pay.", tools: [pay] }
}

/// Pays.
#[tool(needs_approval)]
async fn pay(amount: u32) -> Command<Filing> {
    let paid = Filing::update().findings([format!("paid {amount}")]);
    Command::update(paid.messages(Message::user("paid")))
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
    let config = || Config::thread("case");
    let Outcome::Interrupted(asked) = desk.invoke(Filing::update(), config(), context()).await.unwrap() else {
        panic!("nobody was asked")
    };
    assert_eq!(asked.questions.len(), 1);
    assert_eq!(asked.questions[0].path, ["clerk", "tool"]);
    assert_eq!(asked.questions[0].value["call"]["args"], json!({"amount": 10}));
    assert_eq!(asked.questions[0].value["agent"], "clerk");
    let out = desk.invoke(Command::resume(answer), config(), context()).await.unwrap();
    assert_eq!(model.remaining(), Some(0));
    let last = prompt(&model, 2);
    assert!(last.iter().any(|text| text == "[TASK FROM SUPERVISOR]\npay"), "goes on in the middle of the clerk");
    (out.state().clone(), last)
}

#[tokio::test]
async fn an_approved_call_is_made_after_the_run_was_taken_up_again() {
    let (end, _) = answered(Approval::Approve).await;
    assert_eq!(end.findings, ["paid 10"]);
    assert_eq!(end.base.current_agent_report, "done");
    assert_eq!(end.base.subagent_stack.depth(), 0);
}

#[tokio::test]
async fn an_edited_call_is_made_as_edited() {
    let (end, _) = answered(Approval::Edit { args: json!({"amount": 3}) }).await;
    assert_eq!(end.findings, ["paid 3"]);
}

#[tokio::test]
async fn a_rejected_call_is_not_made_and_the_model_is_told_why() {
    let (end, last) = answered(Approval::Reject { reason: "too much".to_owned() }).await;
    assert!(end.findings.is_empty());
    assert!(last.iter().any(|text| text == "Error: the operator did not approve this call: too much"), "{last:?}");
}
