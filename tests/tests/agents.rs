//! Agents as programs have them: the examples at a terminal, and threads that outlive the process.

use std::io::Write;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use hier_agents::prelude::*;
use hier_agents::{AgentLimit, Approval};
use hier_core::message::ToolCall;
use hier_sqlite::Sqlite;
use hier_testkit::ScriptedModel;
use serde_json::json;

/// Returns the output of an example with these arguments and this input.
fn example(name: &str, words: &[&str], input: &str) -> String {
    let mut program = Process::new(hier_tests::example(name));
    program.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = program.spawn().expect("the example");
    running.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads");
    let output = running.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn chat_answers_calls_tools_and_remembers() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = format!("sqlite:{}", folder.path().join("chat.db").display());
    let first = example("chat", &["--db", &db], "Hi\nWhat is the weather in Rome?\n");
    assert_eq!(first, "Hello! That was your message number 1.\n[weather {\"city\":\"Rome\"}] It is cloudy in Rome.\n");
    assert_eq!(example("chat", &["--db", &db], "Still there?\n"), "Hello! That was your message number 3.\n");
}

#[test]
fn mailbox_stops_an_email_that_asks_for_the_customer_list() {
    let stopped = example("mailbox", &[], "no\n");
    assert!(stopped.starts_with("after untrusted text, mailbox wants send_mail {\"text\":\"Ada"), "{stopped}");
    assert!(stopped.ends_with("send_mail: Error: the operator did not approve this call: no\n"), "{stopped}");
    assert!(!stopped.contains("sent to"), "{stopped}");
    assert!(example("mailbox", &[], "yes\n").contains("sent to eve@example.org: Ada"));
}

#[test]
fn answer_comes_from_the_nearest_page() {
    let returned = example("rag", &[], "");
    assert!(returned.starts_with("Whatever you do not like you can return within thirty days; lamps"), "{returned}");
    assert!(returned.ends_with("(from the page `returns`)\n"), "{returned}");
    let cash = example("rag", &["Can I pay cash on account?"], "");
    assert!(cash.contains("(from the page `payment`)"), "{cash}");
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Verdict {
    accepted: bool,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Claim {
    #[state(flatten)]
    base: BaseState,
    verdict: Option<Verdict>,
}

graph! {
    Judge<Claim> = Agent { system: "You decide.", tools: [pay], answer: verdict, max_iterations: 4 }
}

/// Pays.
#[tool(needs_approval)]
async fn pay(eur: u32) -> String {
    format!("paid {eur}")
}

/// A life of the program: opens the file, continues with the model's next answer, and closes the file.
async fn live(
    file: &Path,
    input: impl hier_core::graph::GraphInput<Claim, hier_core::graph::FullState>,
    said: &[Message],
) -> (Outcome<Claim>, ScriptedModel) {
    let saver = Sqlite::open(file).await.expect("a file");
    let model = ScriptedModel::new(said.to_vec());
    let judge = Judge::compile().checkpointer(saver.clone());
    let out = judge.invoke(input).thread("claim").context(BaseContext::new(model.clone())).await.expect("a run");
    assert_eq!(model.remaining(), Some(0), "every request is made once");
    drop(judge);
    saver.close().await.expect("it closes");
    (out, model)
}

#[tokio::test]
async fn each_turn_is_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("claims.db");
    let both = Message::calls(
        "",
        [1, 2].map(|eur| ToolCall { name: "pay".into(), args: json!({"eur": eur}), id: format!("p{eur}") }),
    );
    let (out, _) = live(&file, Message::user("Claim 17"), &[both]).await;
    assert_eq!(out.ending(), None);
    let Outcome::Interrupted(asked) = out else { panic!("there is no question: {out:?}") };
    assert_eq!(asked.questions.len(), 2);

    let first = [(asked.questions[0].id.clone(), Approval::Approve)];
    let (out, model) = live(&file, Command::answers(first), &[]).await;
    assert!(matches!(out, Outcome::Interrupted(_)) && model.call_count() == 0);

    let second = [(asked.questions[1].id.clone(), Approval::Reject { reason: "no".to_owned() })];
    let misfit = Message::call("final_answer", json!({"accepted": 1}));
    let fits = Message::call("final_answer", json!({"accepted": true}));
    let (out, model) = live(&file, Command::answers(second), &[misfit, fits]).await;
    assert_eq!((out.ending(), &out.state().verdict), (Some(&AgentEnd::Answer), &Some(Verdict { accepted: true })));
    assert!(model.requests()[1].messages.last().expect("one").text().contains("`accepted`: invalid type"));

    let words = [Message::call("nothing", json!({})), Message::call("nothing", json!({}))];
    let (out, _) = live(&file, Message::user("Claim 18"), &[words.clone(), words].concat()).await;
    assert_eq!(out.ending(), Some(&AgentEnd::Limit(AgentLimit::Iterations(4))));
    assert_eq!(out.state().verdict, None);

    let text = Message::assistant(json!({"accepted": false}).to_string());
    let (out, model) = live(&file, Message::user("Claim 19"), &[text]).await;
    assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Answer), 1));
    assert_eq!(out.state().verdict, Some(Verdict { accepted: false }));
}
