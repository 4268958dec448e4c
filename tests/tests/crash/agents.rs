//! Agents under kills: no answer of a model, no call of a tool and no summary that is recorded is made again, each letter is taken once,
//! and the conversation is that of an undisturbed run.
//!
//! `HIER_AGENT_KILLS` is the number of kills and defaults to 40. `HIER_AGENT_SEED` seeds their times.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use fastrand::Rng;
use hier_agents::prelude::*;
use hier_core::StateUpdate;
use hier_core::checkpoint::{Checkpointer, ListQuery, WhenRunning, codec};
use hier_core::graph::{CompiledGraph, ThreadMessage};
use serde_json::Value;
use uuid::Uuid;

use crate::desk::{Desk, Site, TURNS, clerk, expected, keys};
use crate::place::{Place, open};
use crate::victim::{DURABILITY, LOG, PLACE, THREAD};

fn number_from_env(name: &str, unless: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(unless)
}

/// A thread whose processes are killed.
struct Thread<'a> {
    place: &'a Place,
    name: String,
    log: PathBuf,
    is_async: bool,
    sent: Vec<String>,
}

impl Thread<'_> {
    /// Lets a process run: for this long, or until it ends. Returns whether it has finished the thread.
    fn live(&mut self, at_most: Option<Duration>, rng: &mut Rng) -> bool {
        let mut process = Process::new(std::env::current_exe().expect("this test"))
            .args(["desk::child_process", "--exact", "--ignored", "--nocapture"])
            .env(PLACE, self.place.name())
            .env(THREAD, &self.name)
            .env(LOG, &self.log)
            .env(DURABILITY, if self.is_async { "async" } else { "sync" })
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut said = BufReader::new(process.stdout.take().expect("its output")).lines().map_while(Result::ok);
        if let Some(time) = at_most
            && said.by_ref().any(|line| line == "ready")
        {
            let before = rng.u64(0..=u64::try_from(time.as_micros()).expect("short"));
            std::thread::sleep(Duration::from_micros(before));
            self.send(rng);
            std::thread::sleep(time.saturating_sub(Duration::from_micros(before)));
            process.kill().expect("it can be killed");
        }
        let finished = said.any(|line| line == "finished");
        let status = process.wait().expect("it has ended");
        assert!(at_most.is_some() || status.success(), "the process failed");
        finished
    }

    /// Sends a message while the thread runs, sometimes twice, like a sender without a confirmation.
    fn send(&mut self, rng: &mut Rng) {
        let note = format!("note {}", self.sent.len());
        let (name, thread, id) = (self.place.name(), self.name.clone(), Uuid::from_u128(rng.u128(..)));
        let times = rng.usize(1..3);
        self.place.runtime.block_on(async {
            let graph = clerk(&name).await;
            for time in 0..times {
                let is_new = graph.send(&*thread, ThreadMessage::message(&note).id(id)).await.expect("it can be sent");
                assert_eq!(is_new, time == 0);
            }
        });
        self.sent.push(note);
    }

    /// All texts that are recorded anywhere in the thread.
    fn recorded(&self) -> BTreeSet<String> {
        let name = self.place.name();
        self.place.runtime.block_on(async {
            let saver = open(&name).await;
            let query = ListQuery { namespace: None, ..ListQuery::thread(&*self.name) };
            let mut found = BTreeSet::new();
            for at in saver.list(query).await.expect("the thread can be listed") {
                let read = saver.get(&self.name, &at.namespace, Some(at.checkpoint.id)).await.expect("it can be read");
                if let Some(saved) = read {
                    let writes = saved.writes.iter().flat_map(|task| &task.writes).map(|write| &write.value);
                    let values = saved.values.iter().flat_map(|(_, chain)| chain.full.iter().chain(&chain.deltas));
                    writes
                        .chain(values)
                        .for_each(|bytes| texts(&codec::decode_json(bytes).unwrap_or_default(), &mut found));
                }
            }
            found
        })
    }

    /// Checks that the thread has the end of an undisturbed run.
    fn check_end(&mut self, ran: &BTreeSet<String>) {
        let (name, thread) = (self.place.name(), self.name.clone());
        let sent = self.sent.clone();
        self.place.runtime.block_on(async {
            let graph = clerk(&name).await;
            let config = || Config::new().thread(&*thread).when_running(WhenRunning::TakeOver);
            let end: Desk = graph.state(config()).await.expect("the thread can be read").values;
            assert_eq!(end.base.messages.iter().map(Message::text).collect::<Vec<_>>(), expected());
            assert_eq!(end.answers, 2 * TURNS as u64, "writes of a layer are stored with the answer");
            let record = end.base.compaction.as_deref().expect("the conversation is longer than the context");
            assert!(record.fits(&end.base.messages) && ran.contains(&record.summary), "{record:?}");

            // A message that was too late for the last turn arrives with the next, then without the record, because all of it is sent.
            let undone = StateUpdate::update(Desk::update().compaction(None));
            graph.update_state(config(), undone).await.expect("it can be undone");
            let next = Message::user(format!("turn {}", TURNS + 1));
            let end = graph.invoke(next).config(config()).context(Site::new(None)).await.expect("it goes on");
            assert_eq!(end.state().notes, sent, "each is taken once, in order");
            assert_eq!(graph.waiting(&*thread).await.expect("its mail").len(), 0);
            assert!(end.state().base.compaction.is_some(), "it is made shorter anew");
            fork(&graph, config()).await;
        });
    }
}

/// Continues from an older checkpoint with a record, to the same end.
async fn fork(graph: &CompiledGraph<Desk, Site>, config: Config) {
    let states = graph.states(config).await.expect("the history can be read");
    let fits = |state: &Desk| state.base.compaction.as_deref().is_none_or(|record| record.fits(&state.base.messages));
    assert!(states.iter().all(|state| fits(&state.values)));
    let past = states.iter().rfind(|state| state.values.base.compaction.is_some() && !state.next.is_empty());
    let past = past.expect("one in the middle of a turn");
    let end =
        graph.invoke(()).config(past.config.clone()).context(Site::new(None)).await.expect("it goes on from there");
    let said: Vec<String> = end.state().base.messages.iter().map(Message::text).collect();
    assert!(said.len().is_multiple_of(4) && expected().starts_with(&said), "{said:?}");
}

/// All texts in a value.
fn texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            // The key of a page.
            let text = if text.starts_with("page ") { text.split(':').next().unwrap_or_default() } else { text };
            found.insert(text.to_owned());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        _ => {}
    }
}

fn lines(log: &Path) -> Vec<String> {
    // The process may have died before its first.
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn survive(place: &Place, kills: u64) {
    let mut rng = Rng::with_seed(number_from_env("HIER_AGENT_SEED", 11));
    let (mut killed, mut threads, mut again, mut summaries) = (0, 0, 0, 0);
    while killed < kills {
        threads += 1;
        let (name, log) = (format!("a{threads}"), place.folder.path().join(format!("a{threads}.log")));
        let mut thread = Thread { place, name, log, is_async: threads % 2 == 0, sent: Vec::new() };
        let (mut known, mut seen) = (BTreeSet::new(), 0);
        loop {
            let at_most = (killed < kills).then(|| Duration::from_micros(rng.u64(500..60_000)));
            let finished = thread.live(at_most, &mut rng);
            let ran = lines(&thread.log);
            let twice: Vec<&String> = ran[seen..].iter().filter(|key| known.contains(*key)).collect();
            assert!(twice.is_empty(), "this was recorded, and was done again: {twice:?}");
            (seen, known) = (ran.len(), thread.recorded());
            if finished {
                let done: BTreeSet<String> = ran.iter().cloned().collect();
                assert!(done.is_subset(&known), "each is recorded");
                let made: BTreeSet<String> = done.iter().filter(|key| !key.starts_with("summary ")).cloned().collect();
                assert_eq!(made, keys().into_iter().collect());
                (again, summaries) = (again + ran.len() - done.len(), summaries + done.len() - made.len());
                thread.check_end(&done);
                break;
            }
            killed += 1;
        }
    }
    println!(
        "{killed} kills, {threads} threads, {summaries} summaries; {again} calls were cut off before they were recorded"
    );
    place.check();
}

#[test]
fn agents_survive_kills_on_sqlite() {
    survive(&Place::sqlite(), number_from_env("HIER_AGENT_KILLS", 40));
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn agents_survive_kills_on_postgres() {
    let place = Place::postgres();
    survive(&place, number_from_env("HIER_AGENT_KILLS", 40).min(100));
}
