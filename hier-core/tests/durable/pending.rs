//! Pending data is migrated or refused like other data: writes of tasks, inputs, updates of commands and writes that
//! subgraphs return.

use hier_core::checkpoint::{Checkpointer, Claim, MemorySaver, PendingWrite, WriteRecord};
use hier_core::prelude::*;
use hier_core::{Result, StateUpdate};
use serde_json::{Map, Value};

use super::kit::questions;
use super::versions::refused;

/// A program that counts in euros or in cents, and calls its notes like this. A step pays, asks, and asks something else.
macro_rules! program {
    ($module:ident, $notes:ident, $(#[$version:meta])?) => {
        mod $module {
            use super::*;

            #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
            $(#[$version])?
            pub(crate) struct Case {
                pub(crate) amount: u64,
                #[reducer(sum)]
                pub(crate) total: u64,
                #[reducer(append)]
                pub(crate) $notes: Vec<String>,
                pub(crate) currency: String,
                #[channel(ephemeral)]
                pub(crate) hint: Option<String>,
            }

            graph! {
                pub(crate) Desk<Case> = Graph {
                    name: "review",
                    nodes: [pay, first, second, end],
                    edges: [START >> [pay, first, second] >> end >> END],
                }
            }

            graph! {
                pub(crate) Nested<Case> = Graph { name: "review", nodes: [Inner], edges: [START >> Inner >> END] }
            }

            graph! {
                pub(crate) Sending<Case> = Graph {
                    name: "review",
                    nodes: [seed = first, Inner],
                    edges: [START >> seed >> for case in cases { Inner(case) }, Inner >> END],
                }
            }

            graph! {
                pub(crate) Inner<Case> = Graph { name: "inside", nodes: [pay, first], edges: [START >> pay >> first >> END] }
            }

            graph! {
                pub(crate) Hinting<Case> = Graph {
                    name: "review",
                    nodes: [give, first, see],
                    edges: [START >> give >> first >> see >> END],
                }
            }

            fn cases(state: &Case) -> Vec<Case> {
                vec![state.clone()]
            }

            async fn pay() -> CaseUpdate {
                Case::update().amount(12_u64).total(12).$notes(["paid 12".to_owned()])
            }

            async fn first(run: &Run) -> Result<CaseUpdate> {
                Ok(Case::update().$notes([run.interrupt::<String>(&"first?").await?]))
            }

            async fn second(run: &Run) -> Result<CaseUpdate> {
                Ok(Case::update().total(run.interrupt::<u64>(&"second?").await?))
            }

            async fn end() -> CaseUpdate {
                Case::update().$notes(["end".to_owned()])
            }

            async fn give() -> CaseUpdate {
                Case::update().hint("look".to_owned())
            }

            async fn see(state: &Case) -> CaseUpdate {
                Case::update().$notes([format!("{:?}", state.hint)])
            }
        }
    };
}

program!(euros, notes,);
program!(cents, log, #[state(version = 2, migrate = euros_to_cents)]);
program!(strict, notes, #[state(version = 2, migrate = small_amounts)]);

#[allow(clippy::unnecessary_wraps)] // the form of a migration
fn euros_to_cents(stored: &mut Map<String, Value>) -> Result<()> {
    for name in ["amount", "total"] {
        if let Some(amount) = stored.get_mut(name) {
            *amount = (amount.as_u64().unwrap_or_default() * 100).into();
        }
    }
    let notes = stored.remove("notes").unwrap_or_else(|| Value::Array(Vec::new()));
    stored.insert("log".to_owned(), notes);
    stored.insert("currency".to_owned(), "EUR".into());
    Ok(())
}

fn small_amounts(stored: &mut Map<String, Value>) -> Result<()> {
    match stored.get("amount").and_then(Value::as_u64) {
        Some(amount) if amount > 10 => Err(NodeError::permanent("there are only small amounts now")),
        _ => Ok(()),
    }
}

fn thread() -> Config {
    Config::new().thread("t")
}

/// The id of the question with this text.
fn id(asked: &[hier_core::Question], text: &str) -> String {
    asked.iter().find(|question| question.value == text).expect("it is asked").id.clone()
}

/// A task that was done under version 1, one under version 2, and one that is done last: each counts once, in cents.
#[tokio::test]
async fn snapshot_shows_pending_writes() {
    let saver = MemorySaver::new();
    let before = euros::Desk::compile().checkpointer(saver.clone());
    let asked = questions(before.invoke(euros::Case::update()).config(thread()).await.unwrap());
    let after = cents::Desk::compile().checkpointer(saver);
    let open = after.state(thread()).await.unwrap().values;
    assert_eq!((open.amount, open.total, open.log), (1200, 1200, vec!["paid 12".to_owned()]), "the live view");
    let answer = Command::answers([(id(&asked, "second?"), 1)]);
    let asked = questions(after.invoke(answer).config(thread()).await.unwrap());
    let open = after.state(thread()).await.unwrap().values;
    assert_eq!((open.amount, open.total), (1200, 1201), "writes of version 2 are in cents");
    let answer = Command::answers([(id(&asked, "first?"), "yes")]);
    let end = after.invoke(answer).config(thread()).await.unwrap().into_state();
    assert_eq!((end.amount, end.total, &*end.currency), (1200, 1201, "EUR"));
    assert_eq!(end.log, ["yes", "paid 12", "end"]);
    assert_eq!(after.state(thread()).await.unwrap().values.total, 1201, "and so it is stored");
}

#[tokio::test]
async fn snapshot_shows_an_unapplied_input() {
    let saver = MemorySaver::new();
    let before = euros::Desk::compile().checkpointer(saver.clone());
    let input = StateUpdate::input(euros::Case::update().total(5).notes(["in".to_owned()]));
    before.update_state(thread(), input).await.unwrap();
    let after = cents::Desk::compile().checkpointer(saver);
    let asked = questions(after.invoke(()).config(thread()).await.unwrap());
    assert_eq!(asked.len(), 2);
    let open = after.state(thread()).await.unwrap().values;
    assert_eq!((open.amount, open.total), (12, 512), "later tasks write cents");
    assert_eq!(open.log, ["in", "paid 12"]);
}

#[tokio::test]
async fn snapshot_shows_updates_of_commands() {
    let saver = MemorySaver::new();
    let before = euros::Desk::compile().checkpointer(saver.clone());
    let _ = before.invoke(euros::Case::update()).config(thread()).await.unwrap();
    let update = Command::update(euros::Case::update().total(3).notes(["told".to_owned()]));
    let _ = before.invoke(update).config(thread()).await.unwrap();
    let after = cents::Desk::compile().checkpointer(saver);
    let open = after.state(thread()).await.unwrap().values;
    assert_eq!((open.total, open.log), (1500, ["told", "paid 12"].map(str::to_owned).into()));
    let update = Command::update(cents::Case::update().total(4));
    let _ = after.invoke(update).config(thread()).await.unwrap();
    assert_eq!(after.state(thread()).await.unwrap().values.total, 1504, "each command in its own version");
}

#[tokio::test]
async fn snapshot_shows_the_writes_of_a_subgraph() {
    let saver = MemorySaver::new();
    let before = euros::Nested::compile().checkpointer(saver.clone());
    let _ = before.invoke(euros::Case::update().total(1)).config(thread()).await.unwrap();
    let after = cents::Nested::compile().checkpointer(saver);
    let end = after.invoke(Command::resume("yes")).config(thread()).await.unwrap().into_state();
    assert_eq!((end.amount, end.total), (1200, 1300));
    assert_eq!(end.log, ["paid 12", "yes"]);
}

/// Ephemeral values are cleared after a step, even if another version finishes it.
#[tokio::test]
async fn snapshot_shows_ephemeral_values() {
    let saver = MemorySaver::new();
    let before = euros::Hinting::compile().checkpointer(saver.clone());
    let _ = before.invoke(euros::Case::update()).config(thread()).await.unwrap();
    let after = cents::Hinting::compile().checkpointer(saver);
    assert_eq!(after.state(thread()).await.unwrap().values.hint.as_deref(), Some("look"));
    let end = after.invoke(Command::resume("yes")).config(thread()).await.unwrap().into_state();
    assert_eq!(end.log, ["yes", "None"]);
}

#[tokio::test]
async fn unmigratable_writes_are_refused() {
    let saver = MemorySaver::new();
    let before = euros::Desk::compile().checkpointer(saver.clone());
    let _ = before.invoke(euros::Case::update()).config(thread()).await.unwrap();
    let after = strict::Desk::compile().checkpointer(saver.clone());
    let words =
        ["`amount`", "version 1", "there are only small amounts now", "finish the thread's superstep with the program"];
    refused(after.state(thread()).await, &words);
    refused(after.invoke(()).config(thread()).await, &words);
    // A payload of a subgraph is a state, too.
    let saver = MemorySaver::new();
    let before = euros::Sending::compile().checkpointer(saver.clone());
    let _ = before.invoke(euros::Case::update()).config(thread()).await.unwrap();
    let asked = questions(before.invoke(Command::resume("go")).config(thread()).await.unwrap());
    assert_eq!(asked.len(), 1, "the graph that was sent a state asks");
    let after = cents::Sending::compile().checkpointer(saver);
    let words = ["a state of version 1", "graph `Inner`", "finish the thread's superstep with the program"];
    refused(after.state(thread()).await, &words);
    refused(after.invoke(Command::resume("yes")).config(thread()).await, &words);
    // And the program that began it does.
    assert!(before.invoke(Command::resume("yes")).config(thread()).await.unwrap().is_finished());
}

/// A database is external input: this slot is not written by hier.
#[tokio::test]
async fn slot_out_of_range_is_refused() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Case {
        text: String,
    }
    async fn ask(run: &Run) -> Result<CaseUpdate> {
        let text: String = run.interrupt(&"what?").await?;
        Ok(Case::update().text(text))
    }
    async fn beside() -> CaseUpdate {
        Case::update()
    }
    graph! { Desk<Case> = Graph { nodes: [ask, beside], edges: [START >> [ask, beside] >> END] } }

    for is_callers in [false, true] {
        let saver = MemorySaver::new();
        let graph = Desk::compile().checkpointer(saver.clone());
        drop(graph.invoke(Case::update()).thread("t").await.expect("it asks"));
        let stored = saver.get("t", "", None).await.expect("memory does not fail").expect("a checkpoint");
        let mut writes = stored.writes.into_iter().find(|writes| &*writes.path != "~").expect("the tasks' writes");
        writes.writes = vec![PendingWrite { slot: i32::MAX, channel: "text".into(), value: Vec::new() }];
        if is_callers {
            (writes.task, writes.path) = (uuid::Uuid::nil(), "~".into());
        }
        let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
        let record = WriteRecord::Writes { namespace: "".into(), writes };
        saver.commit(&lease, vec![record].into()).await.expect("a commit");
        saver.release(&lease).await.expect("a release");
        let command = Command::resume("answer").with_update(Case::update().text("x"));
        let error = graph.invoke(command).thread("t").await.expect_err("it is damaged");
        assert!(error.to_string().contains("has written slot 2147483647, which hier never does"), "{error}");
    }
}
