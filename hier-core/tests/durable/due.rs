//! Timers, questions with deadlines, and signals: a waiting task is woken once, late or not at all.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::checkpoint::{Checkpointer, Claim, Commit, DueQuery, Inbox, MemorySaver, SaverError, WhenRunning};
use hier_core::graph::{Signal, ThreadMessage};
use hier_core::prelude::*;
use hier_core::{Durability, QuestionKind, Result, StateUpdate};
use tokio::time::Instant;

use crate::kit::{Case, CaseUpdate, DAY, SECOND, Tally, WEEK, beside, config, questions as asked};

async fn due(saver: &MemorySaver, graph: &str, by: SystemTime) -> Vec<String> {
    let due = saver.due(DueQuery::new(by, vec![graph.to_owned()], 99)).await.unwrap();
    due.into_iter().map(|due| due.thread.to_string()).collect()
}

async fn sleeps(run: &Run<Tally>) -> Result<CaseUpdate> {
    let tally = run.context();
    run.step("before", async || Ok(tally.hit("before"))).await?;
    run.sleep(WEEK).await?;
    tally.hit("woken");
    run.sleep(DAY).await?;
    Ok(Case::update().log(["slept"]))
}

graph! { Sleeper<Case, Tally> = Graph { nodes: [sleeps, beside], edges: [START >> [sleeps, beside] >> END] } }
graph! { Around<Case, Tally> = Graph { nodes: [Sleeper], edges: [START >> Sleeper >> END] } }

#[tokio::test]
async fn sleep_never_ends_early() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let (saver, tally) = (MemorySaver::new(), Tally::default());
        let graph = Around::compile().checkpointer(saver.clone());
        let start = SystemTime::now();
        let config = config().durability(durability);
        let asleep = asked(graph.invoke(Case::update()).config(config.clone()).context(tally.clone()).await.unwrap());
        assert_eq!((asleep.len(), &asleep[0].kind), (1, &QuestionKind::Timer));
        assert!(asleep[0].due.is_some_and(|due| due >= start + WEEK));
        let to_each = tally.clone();
        let sweeper = graph.sweeper(move |_| to_each.clone()).config(Config::new().durability(durability));
        assert!(sweeper.drive_due(start + DAY).await.unwrap().is_empty());
        assert_eq!(due(&saver, Around::NAME, start + DAY).await, Vec::<String>::new());
        asked(graph.invoke(()).config(config.clone()).context(tally.clone()).await.unwrap());
        let later = SystemTime::now() + WEEK + SECOND;
        let driven = sweeper.drive_due(later).await.unwrap();
        assert_eq!((driven.len(), driven[0].thread.as_str(), tally.of("woken")), (1, "t", 1));
        assert!(sweeper.drive_due(later).await.unwrap().is_empty(), "it sleeps for a day more");
        let driven = sweeper.drive_due(later + DAY + SECOND).await.unwrap();
        let end = driven.into_iter().next().expect("it is due").outcome.unwrap();
        assert_eq!(end.state().log.len(), 2, "{durability:?}");
        assert_eq!((tally.of("before"), tally.of("beside")), (1, 1));
        assert_eq!(due(&saver, Around::NAME, later + WEEK + WEEK).await, Vec::<String>::new());
    }
}

/// The whole of it by a clock that only the test moves.
#[tokio::test(start_paused = true)]
async fn background_sweeper_resumes_due_threads() {
    let (tally, start, clock) = (Tally::default(), SystemTime::now(), Instant::now());
    let graph = Sleeper::compile().checkpointer(MemorySaver::new());
    asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap());
    let to_each = tally.clone();
    let sweeper = graph.sweeper(move |_| to_each.clone()).clock(move || start + clock.elapsed());
    let handle = sweeper.every(Duration::from_mins(1));
    tokio::time::sleep(WEEK.saturating_sub(Duration::from_mins(1))).await;
    assert_eq!(tally.of("woken"), 0);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(tally.of("woken"), 1);
    tokio::time::sleep(DAY + Duration::from_mins(3)).await;
    assert!(graph.state(config()).await.unwrap().next.is_empty());
    drop(handle);
}

async fn naps(run: &Run<Tally>) -> Result<CaseUpdate> {
    run.context().hit("runs");
    run.sleep(Duration::from_secs(5)).await?;
    let answer: String = run.interrupt(&"and now?").await?;
    Ok(Case::update().log([answer]))
}

graph! { Napper<Case, Tally> = Graph { nodes: [naps], edges: [START >> naps >> END] } }

#[tokio::test(start_paused = true)]
async fn short_sleep_waits_in_place_once() {
    let (graph, tally, start) = (Napper::compile().checkpointer(MemorySaver::new()), Tally::default(), Instant::now());
    assert!(
        asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap())[0].kind.is_person()
    );
    assert!(start.elapsed() >= Duration::from_secs(4) && start.elapsed() < Duration::from_secs(6));
    // The sleep also ends without the process, by the clock of the next one.
    let far = config().sleep_in_place(Duration::ZERO);
    let other = Napper::compile().checkpointer(MemorySaver::new());
    assert_eq!(
        asked(other.invoke(Case::update()).config(far).context(tally.clone()).await.unwrap())[0].kind,
        QuestionKind::Timer
    );
    // Without a checkpointer every sleep is waited in place.
    let before = Instant::now();
    Napper::compile().invoke(Case::update()).context(tally).await.map(|_| ()).ok();
    assert!(before.elapsed() >= Duration::from_secs(4));
}

async fn approve(run: &Run<Tally>) -> Result<CaseUpdate> {
    let time = SystemTime::now() + DAY;
    let answer = run.interrupt::<String>(&"may I?").schema().until(time, "no answer".to_owned()).await?;
    let again: String = run.interrupt(&"really?").await?;
    Ok(Case::update().log([format!("{answer}, {again}")]))
}

graph! { Approval<Case, Tally> = Graph { nodes: [approve, beside], edges: [START >> [approve, beside] >> END] } }
graph! { Outer<Case, Tally> = Graph { nodes: [Approval], edges: [START >> Approval >> END] } }

#[tokio::test]
async fn due_question_gets_its_default_and_late_answers_are_refused() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Outer::compile().checkpointer(saver.clone());
    let first = asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap()).remove(0);
    assert_eq!((first.default.clone(), first.kind.is_person()), (Some("no answer".into()), true));
    assert_eq!(first.schema.as_ref().map(|schema| schema["type"].clone()), Some("string".into()));
    // Asked again, it has no more time than before.
    let again = asked(graph.invoke(()).config(config()).context(tally.clone()).await.unwrap()).remove(0);
    let close = |a: SystemTime, b: SystemTime| a.max(b).duration_since(a.min(b)).unwrap() < Duration::from_millis(2);
    assert!(close(again.due.unwrap(), first.due.unwrap()));
    let to_each = tally.clone();
    let sweeper = graph.sweeper(move |_| to_each.clone());
    let driven = sweeper.drive_due(SystemTime::now() + DAY + SECOND).await.unwrap();
    let second = asked(driven.into_iter().next().expect("it is due").outcome.unwrap()).remove(0);
    assert_eq!(second.value, "really?");
    let late = graph.invoke(Command::answers([(first.id, "yes")])).config(config()).context(tally.clone()).await;
    assert!(matches!(late, Err(RunError::Answer { .. })), "{late:?}");
    let end = graph.invoke(Command::resume("yes")).config(config()).context(tally.clone()).await.unwrap();
    assert!(end.state().log.contains(&"no answer, yes".to_owned()), "{end:?}");
    assert_eq!(tally.of("beside"), 1);
}

#[tokio::test]
async fn answer_before_the_deadline_counts() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Outer::compile().checkpointer(saver.clone());
    asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap());
    asked(graph.invoke(Command::resume("yes")).config(config()).context(tally.clone()).await.unwrap());
    let to_each = tally.clone();
    let sweeper = graph.sweeper(move |_| to_each.clone());
    assert!(sweeper.drive_due(SystemTime::now() + WEEK).await.unwrap().is_empty());
    let end = graph.invoke(Command::resume("yes")).config(config()).context(tally).await.unwrap();
    assert!(end.state().log.contains(&"yes, yes".to_owned()), "{end:?}");
}

async fn paid(run: &Run<Tally>) -> Result<CaseUpdate> {
    let receipt: String = run.signal("paid").await?;
    run.context().hit("paid");
    let answer: String = run.interrupt(&"ship?").await?;
    Ok(Case::update().log([format!("{receipt} {answer}")]))
}

graph! { Paid<Case, Tally> = Graph { nodes: [paid], edges: [START >> paid >> END] } }
graph! { Shop<Case, Tally> = Graph { nodes: [Paid], edges: [START >> Paid >> END] } }

#[tokio::test]
async fn signal_is_consumed_once_before_or_after_the_wait() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for before in [true, false] {
            let (saver, tally) = (MemorySaver::new(), Tally::default());
            let graph = Shop::compile().checkpointer(saver.clone());
            let config = config().durability(durability);
            let send = async || {
                let id = uuid::Uuid::from_u128(7);
                let signal = || ThreadMessage::from(Signal::new("paid", &"r-1")).id(id);
                assert!(graph.send("t", signal()).await.unwrap());
                assert!(!graph.send("t", signal()).await.unwrap(), "a sender that tries again");
                assert!(graph.send(Config::new().thread("t"), Signal::new("other", &7)).await.unwrap());
            };
            if before {
                send().await;
                asked(graph.invoke(Case::update()).config(config.clone()).context(tally.clone()).await.unwrap());
            } else {
                let waits =
                    asked(graph.invoke(Case::update()).config(config.clone()).context(tally.clone()).await.unwrap())
                        .remove(0);
                assert_eq!(waits.kind, QuestionKind::Signal("paid".into()));
                let wrong = graph
                    .invoke(Command::answers([(waits.id, "r-2")]))
                    .config(config.clone())
                    .context(tally.clone())
                    .await;
                assert!(wrong.is_err(), "a signal takes no answer");
                let wrong = graph
                    .invoke(Command::resume("r-2"))
                    .config(config.clone())
                    .context(tally.clone())
                    .await
                    .expect_err("nor so");
                assert!(wrong.to_string().contains("send the signal"), "{wrong}");
                send().await;
                assert_eq!(due(&saver, Shop::NAME, SystemTime::now()).await, ["t"]);
                let to_each = tally.clone();
                let sweeper = graph.sweeper(move |_| to_each.clone()).config(Config::new().durability(durability));
                let driven = sweeper.drive_due(SystemTime::now()).await.unwrap();
                assert_eq!(asked(driven.into_iter().next().expect("it is due").outcome.unwrap())[0].value, "ship?");
            }
            assert_eq!(saver.messages("t").await.unwrap().len(), 1, "the other signal waits");
            assert_eq!(due(&saver, Shop::NAME, SystemTime::now() + WEEK).await.len(), usize::from(before));
            let end = graph.invoke(Command::resume("yes")).config(config).context(tally.clone()).await.unwrap();
            assert_eq!(end.state().log, ["r-1 yes"], "{durability:?}");
        }
    }
}

async fn both(run: &Run<Tally>) -> Result<CaseUpdate> {
    Ok(Case::update().log([run.signal::<String>("go").await?]))
}

graph! { Both<Case, Tally> = Graph { nodes: [a = both, b = both], edges: [START >> [a, b] >> END] } }

#[tokio::test]
async fn two_tasks_consume_two_signals() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Both::compile().checkpointer(saver.clone());
    assert_eq!(asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap()).len(), 2);
    graph.send("t", Signal::new("go", &"one")).await.unwrap();
    let sweeper = graph.sweeper(move |_| tally.clone());
    let driven = sweeper.drive_due(SystemTime::now()).await.unwrap();
    assert_eq!(asked(driven.into_iter().next().unwrap().outcome.unwrap()).len(), 1);
    assert!(sweeper.drive_due(SystemTime::now()).await.unwrap().is_empty());
    graph.send("t", Signal::new("go", &"two")).await.unwrap();
    let driven = sweeper.drive_due(SystemTime::now()).await.unwrap();
    let end = driven.into_iter().next().unwrap().outcome.unwrap();
    let mut log = end.state().log.clone();
    log.sort();
    assert_eq!(log, ["one", "two"]);
}

#[tokio::test]
async fn mistyped_signal_is_not_consumed() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Shop::compile().checkpointer(saver.clone());
    graph.send("t", Signal::new("paid", &17)).await.unwrap();
    let error = graph.invoke(Case::update()).config(config()).context(tally).await.expect_err("17 is no text");
    let said = "the signal `paid` that node `paid` waits for is not a `alloc::string::String`: invalid type: integer `17`, expected a string";
    assert!(error.to_string().contains(said), "{error}");
    let waiting = graph.waiting("t").await.unwrap();
    assert_eq!((waiting.len(), waiting[0].message.parse::<u32>().unwrap()), (1, 17));
    // The error explains how to remove it. A missing message, or one of a held thread, cannot be removed.
    let id = waiting[0].message.id;
    assert!(
        error.to_string().contains(&format!("`graph.discard(\"t\", id)` or `hier inbox discard t {id}`")),
        "{error}"
    );
    assert!(!graph.discard("t", uuid::Uuid::from_u128(1)).await.unwrap());
    let lease = saver.acquire("t", hier_core::checkpoint::Claim::default()).await.unwrap();
    let held = graph.discard("t", id).await.unwrap_err();
    assert!(held.to_string().contains("is being run"), "{held}");
    saver.release(&lease).await.unwrap();
    assert!(graph.discard("t", id).await.unwrap() && !graph.discard("t", id).await.unwrap());
    graph.send("t", Signal::new("paid", &"r-1")).await.unwrap();
    let _ = graph.invoke(()).config(config()).context(Tally::default()).await.expect("it goes on");
}

/// A run that was dropped after it was woken, as one that was killed: the thread stays due, and is found.
#[tokio::test]
async fn interrupted_sweep_is_resumed() {
    async fn stuck(run: &Run<Tally>) -> Result<CaseUpdate> {
        run.sleep(WEEK).await?;
        if run.context().hit("woken") == 1 {
            std::future::pending::<()>().await;
        }
        Ok(Case::update().log(["slept"]))
    }
    graph! { Stuck<Case, Tally> = Graph { nodes: [stuck], edges: [START >> stuck >> END] } }

    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Stuck::compile().checkpointer(saver.clone());
    asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap());
    let to_each = tally.clone();
    let sweeper = graph.sweeper(move |_| to_each.clone());
    let later = SystemTime::now() + WEEK + SECOND;
    assert!(tokio::time::timeout(Duration::from_millis(50), sweeper.drive_due(later)).await.is_err());
    tokio::task::yield_now().await;
    let driven = sweeper.drive_due(later).await.unwrap();
    assert!(driven.into_iter().next().expect("it is found").outcome.unwrap().is_finished());
    assert_eq!(tally.of("woken"), 2);
}

/// A running thread is left alone. A thread that has continued is not run for its old timer.
#[tokio::test]
async fn thread_no_longer_due_is_not_run() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Sleeper::compile().checkpointer(saver.clone());
    asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap());
    let to_each = tally.clone();
    let sweeper = graph.sweeper(move |_| to_each.clone());
    let later = SystemTime::now() + WEEK + SECOND;
    let claim = Claim { when_running: WhenRunning::TakeOver, ..Claim::default() };
    let lease = saver.acquire("t", claim).await.unwrap();
    assert!(sweeper.drive_due(later).await.unwrap().is_empty(), "another holder has the thread");
    saver.release(&lease).await.unwrap();
    graph.update_state(config(), StateUpdate::finish()).await.unwrap();
    assert!(sweeper.drive_due(later).await.unwrap().is_empty());
    assert_eq!((due(&saver, Sleeper::NAME, later).await.len(), tally.of("woken")), (0, 0));
}

/// Other processes hold more threads than one page, and these have been due for longer.
#[tokio::test]
async fn threads_held_by_others_do_not_block_due_threads() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Sleeper::compile().checkpointer(saver.clone());
    for number in 0..600 {
        let thread = format!("theirs {number}");
        saver.acquire(&thread, Claim::default()).await.unwrap();
        graph.send(thread, Signal::new("go", &1)).await.unwrap();
    }
    asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap());
    let sweeper = graph.sweeper(move |_| tally.clone());
    let driven = sweeper.drive_due(SystemTime::now() + WEEK + SECOND).await.unwrap();
    assert_eq!(driven.iter().map(|driven| &*driven.thread).collect::<Vec<_>>(), ["t"]);
}

/// A saver of before there were timers.
#[derive(Clone, Default)]
struct Plain(MemorySaver);

#[hier_core::async_trait]
impl Checkpointer for Plain {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<hier_core::checkpoint::Lease, SaverError> {
        self.0.acquire(thread, claim).await
    }
    async fn renew(&self, lease: &hier_core::checkpoint::Lease) -> Result<(), SaverError> {
        self.0.renew(lease).await
    }
    async fn release(&self, lease: &hier_core::checkpoint::Lease) -> Result<(), SaverError> {
        self.0.release(lease).await
    }
    async fn commit(
        &self,
        lease: &hier_core::checkpoint::Lease,
        commit: Commit,
    ) -> Result<hier_core::checkpoint::LeaseState, SaverError> {
        self.0.commit(lease, commit.into_records()?.into()).await
    }
    async fn get(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<uuid::Uuid>,
    ) -> Result<Option<hier_core::checkpoint::Saved>, SaverError> {
        self.0.get(thread, namespace, id).await
    }
    async fn list(
        &self,
        query: hier_core::checkpoint::ListQuery,
    ) -> Result<Vec<hier_core::checkpoint::Listed>, SaverError> {
        self.0.list(query).await
    }
    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError> {
        self.0.delete_thread(thread).await
    }
}

#[tokio::test]
async fn saver_without_timers_refuses_sleeps() {
    let (graph, tally) = (Sleeper::compile().checkpointer(Arc::new(Plain::default())), Tally::default());
    let error =
        graph.invoke(Case::update()).config(config()).context(tally.clone()).await.expect_err("it cannot be woken");
    assert!(matches!(error, RunError::Saver { error: SaverError::NotSupported { .. }, .. }), "{error}");
    assert!(graph.sweeper(move |_| tally.clone()).drive_due(SystemTime::now()).await.unwrap().is_empty());
    let error = graph.send("t", Signal::new("go", &1)).await.expect_err("it is not held");
    assert!(error.to_string().contains("this checkpointer does not support timers and inboxes"), "{error}");
}
