//! Questions of a server between the rounds of a call.

use std::process::Command as Process;

use hier_agents::Approval;
use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::checkpoint::MemorySaver;
use hier_core::message::ToolCall;
use hier_mcp::McpQuestion;
use hier_mcp_tests::agent::{Helper, answers, desk};
use serde_json::{Value, json};

use crate::{Counts, called, peer};

/// One process of a booking.
fn booking(counts: &Counts, answer: Option<&str>) -> std::result::Result<Value, String> {
    let mut process = Process::new(env!("CARGO_BIN_EXE_booking"));
    process.arg(counts.folder().join("threads.db")).arg(env!("CARGO_BIN_EXE_peer")).arg(counts.path()).args(answer);
    let ended = process.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    if !ended.status.success() {
        return Err(said);
    }
    Ok(serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {said}")))
}

#[test]
fn answers_from_other_processes_repeat_no_round() {
    let counts = Counts::new();
    let asked = booking(&counts, None).unwrap();
    assert_eq!(asked["asked"]["type"], "mcp_question");
    assert_eq!((&asked["asked"]["server"], &asked["asked"]["tool"]), (&json!("peer"), &json!("book.trip")));
    assert_eq!(asked["asked"]["message"], "Where to?");
    assert_eq!(asked["schema"]["properties"]["place"]["type"], "string");

    // The second question of the same round; the server hears of nothing.
    let asked = booking(&counts, Some(r#"{"place": "Rome"}"#)).unwrap();
    assert_eq!(asked["asked"]["message"], "How long?");
    let calls = || counts.done().into_iter().filter(|line| line.starts_with("book")).collect::<Vec<_>>();
    assert_eq!(calls(), ["book.trip -"]);

    // A mismatched answer is refused, and the question stays open.
    let refused = booking(&counts, Some(r#"{"nights": "three"}"#)).unwrap_err();
    assert!(refused.contains("`nights` is not an integer"), "{refused}");

    let asked = booking(&counts, Some(r#"{"nights": 3}"#)).unwrap();
    assert_eq!(asked["asked"]["message"], "Rome for 3?");
    let ended = booking(&counts, Some(r#"{"sure": true}"#)).unwrap();
    assert_eq!(ended["answers"], json!(["booked: Rome for 3"]));

    assert_eq!(calls(), ["book.trip -", "book.trip begun", "book.trip Rome for 3", "booked"]);
}

#[tokio::test]
async fn answer_after_a_week_continues_and_null_declines() -> Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    let saver = MemorySaver::new();
    let helper = Helper::compile().checkpointer(saver);
    let thread = || Config::new().thread("t");
    let call = Message::call("book_trip", json!({}));
    let out = helper.invoke(Message::user("Go.")).config(thread()).context(desk(&client, [call])).await?;
    let Outcome::Interrupted(asked) = out else { panic!("no question") };
    let question: McpQuestion = asked.questions[0].parse().unwrap();
    assert_eq!((question.tool.as_deref(), question.message.as_str()), (Some("book.trip"), "Where to?"));
    // The server is gone meanwhile, and the clock has gone on.
    client.close().await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_hours(168)).await;
    tokio::time::resume();
    let context = || desk(&client, [Message::assistant("Done.")]);
    assert!(
        !helper
            .invoke(Command::resume(json!({"place": "Rome"})))
            .config(thread())
            .context(context())
            .await?
            .is_finished()
    );
    assert!(
        !helper.invoke(Command::resume(json!({"nights": 2}))).config(thread()).context(context()).await?.is_finished()
    );
    let out = helper.invoke(Command::resume(Value::Null)).config(thread()).context(context()).await?;
    assert_eq!(answers(&out), ["Error: not booked"]);
    let calls: Vec<String> = counts.done().into_iter().filter(|line| line.starts_with("book")).collect();
    assert_eq!(calls, ["book.trip -", "book.trip begun", "book.trip Rome for 2"]);
    Ok(())
}

#[tokio::test]
async fn two_calls_of_one_answer_ask_separately() -> Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    let helper = Helper::compile().checkpointer(MemorySaver::new());
    let call = |id: &str| ToolCall { name: "book_trip".to_owned(), args: json!({}), id: id.to_owned() };
    let context = desk(&client, [Message::calls("", [call("a"), call("b")])]);
    let out = helper.invoke(Message::user("Go.")).thread("t").context(context).await?;
    let Outcome::Interrupted(asked) = out else { panic!("no question") };
    assert_eq!(asked.questions.len(), 2);
    assert_ne!(asked.questions[0].id, asked.questions[1].id);
    Ok(())
}

#[tokio::test]
async fn approval_comes_before_the_first_round() -> Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).approve_all().build().unwrap();
    let helper = Helper::compile().checkpointer(MemorySaver::new());
    let context = || desk(&client, [Message::call("book_trip", json!({}))]);
    let thread = || Config::new().thread("t");
    assert!(!helper.invoke(Message::user("Go.")).config(thread()).context(context()).await?.is_finished());
    assert!(!counts.done().iter().any(|line| line.starts_with("book")));
    let out = helper.invoke(Command::resume(Approval::Approve)).config(thread()).context(context()).await?;
    let Outcome::Interrupted(asked) = out else { panic!("no question") };
    assert_eq!(asked.questions[0].value["message"], "Where to?");
    Ok(())
}

async fn answer(question: McpQuestion) -> Result<Value> {
    Ok(match question.message.as_str() {
        "Where to?" => json!({"place": "Oslo"}),
        "How long?" => json!({"nights": 1}),
        _ => json!({"sure": true}),
    })
}

#[tokio::test]
async fn without_a_checkpointer_the_client_can_answer_at_once() {
    let counts = Counts::new();
    let client = peer(&counts).answer(answer).max_rounds(3).build().unwrap();
    assert_eq!(called(&client, "book_trip", json!({})).await.unwrap(), "booked: Oslo for 1");
}

#[tokio::test]
async fn call_with_too_many_rounds_fails() {
    let counts = Counts::new();
    let client = peer(&counts).answer(answer).max_rounds(2).build().unwrap();
    let failed = called(&client, "book_trip", json!({})).await.unwrap_err().to_string();
    let says = "`peer` asked for input 2 times during one call of `book.trip`, the limit of `max_rounds`";
    assert!(failed.contains(says), "{failed}");
    assert_eq!(counts.done(), ["start", "book.trip -", "book.trip begun"]);
}
