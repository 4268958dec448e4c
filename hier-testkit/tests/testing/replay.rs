//! Replays: reported changes, and unchanged threads.

use std::sync::Arc;

use hier_agents::prelude::*;
use hier_core::checkpoint::{MemorySaver, ThreadAdmin};
use hier_core::{Result, StateUpdate};
use hier_testkit::{FakeOperator, Replay, ReplayChange, ReplayReport, ScriptedModel};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    amount: u32,
    #[reducer(append)]
    log: Vec<String>,
}

/// The versions of the program. All of them call the graph `case`.
mod versions {
    use super::*;

    graph! {
        pub(crate) First<Case> = Graph {
            name: "case",
            nodes: [weigh, Sign, pay],
            edges: [START >> weigh >> Sign >> pay >> END],
        }
    }
    graph! {
        /// Asks in a graph inside.
        pub(crate) Sign<Case> = Graph { name: "Sign", nodes: [sign], edges: [START >> sign >> END] }
    }
    graph! {
        pub(crate) Books<Case> = Graph {
            name: "case",
            nodes: [weigh, Sign, book, pay],
            edges: [START >> weigh >> Sign >> book >> pay >> END],
        }
    }
    graph! {
        pub(crate) Careless<Case> = Graph {
            name: "case",
            nodes: [weigh, Sign, pay],
            edges: [START >> weigh >> if is_small { pay } else { Sign }, Sign >> pay >> END],
        }
    }
    graph! {
        pub(crate) Unsigned<Case> = Graph { name: "case", nodes: [weigh, pay], edges: [START >> weigh >> pay >> END] }
    }
    graph! {
        pub(crate) Greedy<Case> = Graph {
            name: "case",
            nodes: [weigh, Sign, pay = pay_twice],
            edges: [START >> weigh >> Sign >> pay >> END],
        }
    }
    graph! {
        pub(crate) Broken<Case> = Graph {
            name: "case",
            nodes: [weigh = fail, Sign, pay],
            edges: [START >> weigh >> Sign >> pay >> END],
        }
    }
    graph! {
        pub(crate) Curious<Case> = Graph {
            name: "case",
            nodes: [weigh, Sign, pay = ask_again],
            edges: [START >> weigh >> Sign >> pay >> END],
        }
    }

    async fn weigh() {}

    fn is_small(case: &Case) -> bool {
        case.amount < 100
    }

    async fn sign(case: &Case, run: &Run) -> Result<CaseUpdate> {
        let by: String = run.interrupt(&case.amount).await?;
        let how: String = run.interrupt(&"How?").await?;
        Ok(Case::update().log([format!("signed by {by} {how}")]))
    }

    async fn book() {}

    async fn pay(case: &Case) -> CaseUpdate {
        Case::update().log([format!("paid {}", case.amount)])
    }

    async fn pay_twice(case: &Case) -> CaseUpdate {
        Case::update().log([format!("paid {}", 2 * case.amount)])
    }

    async fn fail() -> Result<()> {
        Err("no scales")?
    }

    async fn ask_again(run: &Run) -> Result<()> {
        let _: bool = run.interrupt(&"Really?").await?;
        Ok(())
    }
}

use versions::{Books, Broken, Careless, Curious, First, Greedy, Unsigned};

/// Creates a saver with a thread of two turns, each with two answered questions.
async fn stored() -> MemorySaver {
    let saver = MemorySaver::new();
    let graph = First::compile().checkpointer(saver.clone());
    for (amount, by) in [(10, "Ada"), (20, "Bob")] {
        let config = || Config::new().thread("17");
        assert!(!graph.invoke(Case::update().amount(amount)).config(config()).await.unwrap().is_finished());
        assert!(!graph.invoke(Command::resume(by)).config(config()).await.unwrap().is_finished());
        assert!(graph.invoke(Command::resume("in ink")).config(config()).await.unwrap().is_finished());
    }
    saver
}

/// The changes of the first turn.
fn first(report: &ReplayReport) -> &[ReplayChange] {
    assert!(report.turns.iter().all(|turn| !turn.is_unchanged()), "{report}");
    assert_eq!(report.changed().count(), 2, "{report}");
    &report.turns[0].changes
}

#[tokio::test]
async fn replay_of_an_unchanged_program_reports_no_change() {
    let saver = stored().await;
    let before = saver.threads(None).await.unwrap();
    let report = Replay::new(&First::compile(), saver.clone(), |_| || ()).run().await.unwrap();
    assert!(report.is_unchanged(), "{report}");
    assert_eq!(report.turns.iter().map(|turn| (&*turn.thread, turn.turn)).collect::<Vec<_>>(), [("17", 0), ("17", 1)]);
    assert_eq!(report.to_string(), "0 of 2 turns have changed");
    assert_eq!(saver.threads(None).await.unwrap(), before);
}

#[tokio::test]
async fn each_kind_of_change_is_reported() {
    let saver = stored().await;
    let report = Replay::new(&Books::compile(), saver.clone(), |_| || ()).run().await.unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(first(&report), [ReplayChange::Nodes { step: 3, recorded: names(&["pay"]), now: names(&["book"]) }]);
    assert!(
        report.to_string().starts_with("thread `17`, turn 0: superstep 3 ran [book] instead of [pay]\n"),
        "{report}"
    );

    let report = Replay::new(&Careless::compile(), saver.clone(), |_| || ()).run().await.unwrap();
    assert_eq!(first(&report), [ReplayChange::Nodes { step: 2, recorded: names(&["Sign"]), now: names(&["pay"]) }]);

    let report = Replay::new(&Greedy::compile(), saver.clone(), |_| || ()).run().await.unwrap();
    let log = |paid: &str| Some(json!(["signed by Ada in ink", paid]));
    let changed = ReplayChange::Channel { name: "log".to_owned(), recorded: log("paid 10"), now: log("paid 20") };
    assert_eq!(first(&report), [changed]);
    let ignoring = Replay::new(&Greedy::compile(), saver.clone(), |_| || ()).ignore("log").run().await.unwrap();
    assert!(ignoring.is_unchanged(), "{ignoring}");

    let report = Replay::new(&Broken::compile(), saver.clone(), |_| || ()).run().await.unwrap();
    assert!(matches!(first(&report), [ReplayChange::Failed(error)] if error.contains("no scales")), "{report}");

    let report = Replay::new(&Curious::compile(), saver.clone(), |_| || ()).run().await.unwrap();
    assert!(
        matches!(first(&report), [ReplayChange::Nodes { step: 3, .. }, ReplayChange::Ended { recorded, now }]
            if recorded == "finished" && now.contains("Really?")),
        "{report}"
    );
    // The operator answers questions without a recorded answer.
    let operator = FakeOperator::new().answer(true);
    let report = Replay::new(&Curious::compile(), saver, |_| || ()).operator(operator).run().await.unwrap();
    assert!(matches!(first(&report), [ReplayChange::Channel { .. }]), "{report}");
}

#[tokio::test]
async fn waiting_turn_is_compared_and_updated_turn_is_skipped() {
    let saver = MemorySaver::new();
    let graph = First::compile().checkpointer(saver.clone());
    let _ = graph.invoke(Case::update().amount(1)).thread("waits").await.unwrap();
    let _ = graph.invoke(Case::update().amount(2)).thread("edited").await.unwrap();
    let edit = StateUpdate::update(Case::update().amount(3)).as_node("Sign");
    graph.update_state("edited", edit).await.unwrap();
    let report =
        Replay::new(&First::compile(), saver.clone(), |_| || ()).threads(["waits", "edited"]).run().await.unwrap();
    assert!(report.is_unchanged(), "{report}");
    assert_eq!((&*report.turns[0].changes, &*report.turns[1].changes), (&[][..], &[ReplayChange::NotReplayed][..]));
    let report = Replay::new(&Careless::compile(), saver, |_| || ()).threads(["waits"]).run().await.unwrap();
    assert!(
        matches!(&report.turns[0].changes[..], [ReplayChange::Nodes { .. }, ReplayChange::Ended { .. }]),
        "{report}"
    );
}

#[tokio::test]
async fn interrupted_turn_is_compared_up_to_its_end() {
    let saver = MemorySaver::new();
    let config = Config::new().thread("1").interrupt_before(["Sign"]);
    let _ = First::compile().checkpointer(saver.clone()).invoke(Case::update()).config(config).await.unwrap();
    let report = Replay::new(&Careless::compile(), saver.clone(), |_| || ()).run().await.unwrap();
    assert!(report.is_unchanged(), "{report}");
    let report = Replay::new(&Broken::compile(), saver, |_| || ()).run().await.unwrap();
    assert!(!report.is_unchanged(), "{report}");
}

mod other {
    use super::*;

    #[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Case {
        amount: Vec<Value>,
    }

    async fn weigh() {}

    graph! { pub(crate) Other<Case> = Graph { name: "case", nodes: [weigh], edges: [START >> weigh >> END] } }
}

#[tokio::test]
async fn unreadable_thread_is_reported_and_others_are_replayed() {
    let saver = stored().await;
    let report = Replay::new(&other::Other::compile(), saver, |_| || ()).run().await.unwrap();
    assert!(
        matches!(&report.turns[0].changes[..], [ReplayChange::Unreadable(error)] if error.contains("amount")),
        "{report}"
    );
    assert!(!report.is_unchanged());
    let report = Replay::new(&Unsigned::compile(), stored().await, |_| || ()).run().await.unwrap();
    assert!(
        matches!(&report.turns[0].changes[..], [ReplayChange::Unreadable(error)] if error.contains("`Sign`")),
        "{report}"
    );
    let nothing = Replay::new(&First::compile(), MemorySaver::new(), |_| || ()).run().await.unwrap();
    assert!(!nothing.is_unchanged(), "nothing was replayed, so nothing is known");
}

graph! {
    /// Answers customers.
    Desk<BaseState> = Agent { tools: [look] }
}

/// Looks up.
#[tool]
async fn look(order: u32) -> String {
    format!("order {order} is broken")
}

#[tokio::test]
async fn conversation_is_replayed_with_its_recorded_answers() {
    let saver = Arc::new(MemorySaver::new());
    let model = ScriptedModel::new([
        Message::assistant("Hello!"),
        Message::call("look", json!({ "order": 3 })),
        Message::assistant("It is broken."),
    ]);
    let desk = Desk::compile().checkpointer(saver.clone());
    for text in ["Hello?", "What about order 3?"] {
        let context = BaseContext::new(model.clone());
        assert!(desk.invoke(Message::user(text)).thread("1").context(context).await.unwrap().is_finished());
    }
    let report = Replay::new(&Desk::compile(), saver, |turn| {
        let said = turn.after().messages.iter().skip(turn.before.messages.len());
        let model = ScriptedModel::repeating(said);
        move || BaseContext::new(model.clone())
    });
    let report = report.run().await.unwrap();
    assert!(report.is_unchanged(), "{report}");
    assert_eq!(report.turns.len(), 2);
}
