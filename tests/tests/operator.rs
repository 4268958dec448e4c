//! An operator who answers next week: only a file remains of the run.

use std::path::Path;

use hier_agents::{Approval, ask_operator};
use hier_sqlite::Sqlite;

use hier_agents::prelude::*;
use hier_core::graph::{FullState, GraphInput};
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    #[reducer(append)]
    payments: Vec<u32>,
}

graph! {
    Office<Filing> = ReactGraph { subagents: [Desk { merge_fields: [payments, chat_with_operator] }] }
}

graph! {
    Desk<Filing> = ReactGraph { subagents: [Clerk { merge_fields: [payments, chat_with_operator] }] }
}

graph! {
    Clerk<Filing> = ReactGraph { tools: [ask_operator, pay] }
}

/// Pays.
#[tool(needs_approval)]
async fn pay(amount: u32) -> Command<Filing> {
    Command::update(Filing::update().payments([amount]).messages(Message::user("paid")))
}

fn call(name: &str, args: Value) -> Message {
    Message::calls("", [ToolCall { name: name.to_owned(), args, id: format!("call of {name}") }])
}

/// A life of the program: opens the file, continues with the model's next answer, and closes the file.
async fn live(file: &Path, input: impl GraphInput<Filing, FullState>, said: &[Message]) -> Outcome<Filing> {
    let saver = Sqlite::open(file).await.expect("a file");
    let model = ScriptedModel::new(said.to_vec());
    let office = Office::compile_as_root().checkpointer(saver.clone());
    let out = office.invoke(input).thread("case").context(BaseContext::new(model.clone())).await.expect("a run");
    assert_eq!(model.remaining(), Some(0), "every request is made once");
    drop(office);
    saver.close().await.expect("it closes");
    out
}

/// Returns the path and the value of the question.
fn asked(out: &Outcome<Filing>) -> (&[String], &Value) {
    let Outcome::Interrupted(asked) = out else { panic!("there is no question: {out:?}") };
    let [question] = &asked.questions[..] else { panic!("{:?}", asked.questions) };
    (&question.path, &question.value)
}

#[tokio::test]
async fn nested_questions_and_approvals_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("office.db");
    let down = [
        call("desk", json!({"task": "pay"})),
        call("clerk", json!({"task": "pay"})),
        call("ask_operator", json!({"question": "How much?"})),
    ];
    let out = live(&file, Filing::update(), &down).await;
    assert_eq!(asked(&out).0, ["desk", "clerk", "tool"]);
    assert_eq!(asked(&out).1["question"], "How much?");

    let out = live(&file, Command::resume("ten"), &[call("pay", json!({"amount": 10}))]).await;
    assert_eq!(asked(&out).1["call"]["args"], json!({"amount": 10}));

    let approval = Approval::Edit { args: json!({"amount": 9}) };
    let up = [
        call("report_to_supervisor", json!({"report": "paid"})),
        call("report_to_supervisor", json!({"report": "paid"})),
        call("finish_task", json!({"result": "done"})),
    ];
    let out = live(&file, Command::resume(approval), &up).await;
    let Outcome::Finished(end) = out else { panic!("it is not finished: {out:?}") };
    assert_eq!(end.payments, [9], "as the operator has edited it, once");
    let chat: Vec<_> = end.base.chat_with_operator.iter().filter_map(|said| Some(said.content()?.text())).collect();
    assert_eq!(chat, ["How much?", "ten"]);
    assert_eq!(end.base.current_agent_report, "done");
    assert_eq!(end.base.subagent_stack.depth(), 0);
}
