//! Background subagents whose processes are killed at each commit: each is started and reported once, no effect of a
//! tool that was committed is repeated, and the conversation is that of an undisturbed run.
//!
//! A process stops in a commit and says so. It is killed there, so each kill has its place.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use hier_agents::prelude::*;
use hier_agents::{BackgroundStatus, ChatRequest};
use hier_core::checkpoint::{Checkpointer, Commit, Lease, LeaseState, SaverError, SaverLayer, WhenRunning};
use hier_core::message::ToolCall;
use hier_core::{Durability, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Mutex;

use super::books::{committed, keys, nothing_again};
use super::place::{Place, open};
use super::victim::{DURABILITY, LOG, PLACE, THREAD};

/// The commits of a process before the one in which it stops.
const COMMITS: &str = "HIER_CRASH_COMMITS";
/// Set if this commit is stored before the process stops.
const STORED: &str = "HIER_CRASH_STORED";

#[derive(Clone)]
struct Camp {
    base: BaseContext,
    log: Option<PathBuf>,
}

impl AsRef<BaseContext> for Camp {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl Camp {
    fn new(log: Option<PathBuf>) -> Self {
        Self { base: BaseContext::new(model()), log }
    }
}

graph! {
    /// Leads.
    Lead<BaseState, Camp> = Agent { tools: [dig], subagents: [Scout { background: true }] }
}

graph! {
    /// Digs at a place.
    Scout<BaseState, Camp> = Agent { tools: [dig] }
}

/// Digs, and records it.
#[tool]
async fn dig(place: String, run: &Run<Camp>) -> hier_core::Result<String> {
    if let Some(log) = &run.context().log {
        // One write of one line: whole in the file or not there.
        let line = format!("{place}={}\n", run.idempotency_key());
        OpenOptions::new().create(true).append(true).open(log)?.write_all(line.as_bytes())?;
    }
    Ok(format!("dug {place}"))
}

/// Its answers depend only on the request.
fn model() -> ScriptedModel {
    ScriptedModel::reacting(|request: &ChatRequest| {
        let answers = request.messages.iter().filter(|message| !message.tool_calls().is_empty()).count();
        let scout = |task: &str| ToolCall::new("scout", json!({ "task": task })).with_id(format!("scout {task}"));
        let dig = |place: &str| Message::call("dig", json!({ "place": place }));
        let wait = || Message::call("wait_for_subagents", json!({}));
        if !request.tools.iter().any(|tool| tool.name == "wait_for_subagents") {
            let task = request.messages.iter().map(Message::text).next().unwrap_or_default();
            return match answers {
                0 | 1 => dig(&format!("{task} {answers}")),
                _ => Message::assistant(format!("found at {task}")),
            };
        }
        match answers {
            0 => Message::calls("", [scout("north"), scout("south")]),
            1 => dig("camp"),
            2 | 4 => wait(),
            3 => Message::calls("", [scout("east")]),
            _ => Message::assistant("done"),
        }
    })
}

/// A saver that stops its process in one of its commits.
struct Doomed {
    inner: Arc<dyn Checkpointer>,
    /// The number of commits before the last. They are stored one after the other, so that all of them are stored when
    /// the process stops.
    left: Mutex<usize>,
    stores: bool,
}

#[async_trait]
impl SaverLayer for Doomed {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &*self.inner
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        // A subagent that has ended before commits nothing but its release.
        if commit.records.is_empty() && commit.also.is_none() {
            return self.inner.commit(lease, commit).await;
        }
        let mut left = self.left.lock().await;
        if let Some(less) = left.checked_sub(1) {
            *left = less;
            return self.inner.commit(lease, commit).await;
        }
        if self.stores {
            self.inner.commit(lease, commit).await.expect("it is stored");
        }
        println!("\nstopped");
        // The only thread of the runtime: nothing else of the run goes on.
        loop {
            std::thread::park();
        }
    }
}

/// Begins or continues the thread.
#[test]
#[ignore = "a process that other tests start"]
fn child_process() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("`{name}` is not set"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let left = variable(COMMITS).parse().expect("a number");
        let inner = open(&variable(PLACE)).await;
        let saver = Doomed { inner, left: Mutex::new(left), stores: std::env::var(STORED).is_ok() };
        let graph = Lead::compile().checkpointer(saver);
        let durability = if variable(DURABILITY) == "async" { Durability::Async } else { Durability::Sync };
        let config = Config::new().thread(variable(THREAD)).durability(durability).when_running(WhenRunning::TakeOver);
        let camp = Camp::new(Some(variable(LOG).into()));
        let now = graph.state(config.clone()).await.expect("the thread can be read");
        let end = match (now.checkpoint.is_some(), now.is_finished()) {
            (false, _) => Some(graph.invoke(Message::user("Go.")).config(config).context(camp).await),
            (true, false) => Some(graph.invoke(()).config(config).context(camp).await),
            (true, true) => None,
        };
        if let Some(end) = end {
            assert!(end.unwrap_or_else(|error| panic!("{error}")).is_finished());
        }
        println!("\nfinished");
    });
}

/// A place in a process at which it is killed.
#[derive(Clone, Copy)]
struct Kill {
    commits: usize,
    stored: bool,
}

/// A thread whose processes are killed.
struct Thread<'a> {
    place: &'a Place,
    name: String,
    log: PathBuf,
    is_async: bool,
    committed: BTreeSet<String>,
    seen: usize,
}

impl<'a> Thread<'a> {
    fn new(place: &'a Place, name: String, is_async: bool) -> Self {
        let log = place.folder.path().join(format!("{name}.log"));
        Self { place, name, log, is_async, committed: BTreeSet::new(), seen: 0 }
    }

    /// Runs a process until it is killed, or to its end. Returns true if it has ended the thread.
    fn live(&mut self, kill: Option<Kill>) -> bool {
        let mut process = Process::new(std::env::current_exe().expect("this test"));
        process
            .args(["background::child_process", "--exact", "--ignored", "--nocapture"])
            .env(PLACE, self.place.name())
            .env(THREAD, &self.name)
            .env(LOG, &self.log)
            .env(DURABILITY, if self.is_async { "async" } else { "sync" })
            .env(COMMITS, kill.map_or(usize::MAX, |kill| kill.commits).to_string());
        if kill.is_some_and(|kill| kill.stored) {
            process.env(STORED, "");
        }
        let mut process = process.stdout(Stdio::piped()).spawn().expect("a process");
        let mut said = BufReader::new(process.stdout.take().expect("its output")).lines().map_while(Result::ok);
        let finished = match said.find(|line| line == "stopped" || line == "finished").as_deref() {
            Some("stopped") => {
                process.kill().expect("it can be killed");
                false
            }
            Some(_) => true,
            None => panic!("the process failed"),
        };
        assert_eq!(process.wait().expect("it has ended").success(), finished);
        self.check_effects();
        finished
    }

    /// Fails if the last process has repeated an effect that was committed before.
    fn check_effects(&mut self) {
        let keys: Vec<String> = effects(&self.log).into_iter().map(|(_, key)| key).collect();
        nothing_again(&self.committed, &keys[self.seen..]);
        self.seen = keys.len();
        let name = self.place.name();
        self.committed = self.place.runtime.block_on(async {
            let saver = open(&name).await;
            let mut all = BTreeSet::new();
            for thread in keys.iter().map(|key| thread_of(key)).collect::<BTreeSet<_>>() {
                let own: Vec<String> = keys.iter().filter(|key| thread_of(key) == thread).cloned().collect();
                all.extend(committed(&*saver, thread, &own).await);
            }
            all
        });
    }

    /// Checks that the thread has the end of an undisturbed run.
    fn check_end(&self) {
        let found = |place: &str, number: usize| format!("`scout-{number}` reported.\nfound at {place}");
        let started = |number: usize| format!("Started in the background as `scout-{number}`.");
        let both = [found("north", 1), found("south", 2)].join("\n\n");
        let results = [started(1), started(2), "dug camp".to_owned(), both, started(3), found("east", 3)];
        let (name, thread) = (self.place.name(), self.name.clone());
        let (end, threads) = self.place.runtime.block_on(async {
            let saver = open(&name).await;
            let threads = saver.admin().expect("it has one").threads(None).await.expect("the threads");
            let graph = Lead::compile().checkpointer(saver);
            (graph.state(thread).await.expect("the thread can be read").values, threads)
        });
        let texts: Vec<String> =
            end.messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect();
        assert_eq!(texts, results);
        let records: Vec<_> = end.background_subagents.iter().map(|(handle, it)| (handle, it.status)).collect();
        let handles = ["scout-1", "scout-2", "scout-3"];
        assert_eq!(records, handles.map(|handle| (handle, BackgroundStatus::Reported)));
        let own = threads.iter().filter(|info| info.thread.split('/').next() == Some(&*self.name));
        assert_eq!(own.count(), 4, "each subagent has one thread: {threads:?}");
        let done: BTreeSet<String> = effects(&self.log).into_iter().map(|(place, _)| place).collect();
        let digs = ["camp", "east 0", "east 1", "north 0", "north 1", "south 0", "south 1"];
        assert_eq!(done, digs.map(str::to_owned).into());
        // A task that was lost with the checkpoint of its step was another one.
        assert!(self.is_async || self.committed.len() == digs.len(), "each is done by one task: {:?}", self.committed);
    }
}

/// The effects of tools: their places, and the keys of their tasks.
fn effects(log: &Path) -> Vec<(String, String)> {
    let split = |line: String| line.split_once('=').map(|(place, key)| (place.to_owned(), key.to_owned()));
    keys(log).into_iter().filter_map(split).collect()
}

/// The thread in the key of a task.
fn thread_of(key: &str) -> &str {
    key.rsplitn(4, '/').last().unwrap_or_default()
}

/// Kills the first process in each of its commits, before or after it is stored.
fn survive_one_kill(place: &Place, is_async: bool, stored: bool) {
    for commits in 0.. {
        let name = format!("one-{is_async}-{stored}-{commits}");
        let mut thread = Thread::new(place, name, is_async);
        let undisturbed = thread.live(Some(Kill { commits, stored }));
        if !undisturbed {
            assert!(thread.live(None), "the second process ends it");
        }
        thread.check_end();
        if undisturbed {
            assert!(commits > 10, "only {commits} commits");
            return;
        }
    }
}

/// Kills each process when it has made this many commits.
fn survive_many_kills(place: &Place, is_async: bool, commits: usize) {
    let mut thread = Thread::new(place, format!("many-{is_async}-{commits}"), is_async);
    let mut lives = 0;
    while !thread.live(Some(Kill { commits, stored: false })) {
        lives += 1;
        assert!(lives < 100, "the thread does not advance");
    }
    thread.check_end();
}

fn survive(place: &Place, moments: &[bool]) {
    for is_async in [false, true] {
        for stored in moments {
            survive_one_kill(place, is_async, *stored);
        }
        for commits in 1..4 {
            survive_many_kills(place, is_async, commits);
        }
    }
    place.check();
}

#[test]
fn background_subagents_survive_kills_at_each_commit_on_sqlite() {
    survive(&Place::sqlite(), &[false, true]);
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn background_subagents_survive_kills_at_each_commit_on_postgres() {
    survive(&Place::postgres(), &[false]);
}
