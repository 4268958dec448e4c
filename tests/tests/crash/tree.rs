//! A thread that one process after the other runs, until each is killed.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hier_agents::prelude::*;
use hier_core::Durability;
use hier_core::checkpoint::{Checkpointer as _, ListQuery};

use super::books::{committed, keys, nothing_again};
use super::place::{Place, open};
use super::victim::{self, CrashTree, Tree};

/// The timeout of a whole thread.
const PATIENCE: Duration = Duration::from_mins(1);

/// A thread with its observed records.
pub(crate) struct Thread<'a> {
    place: &'a Place,
    name: String,
    log: PathBuf,
    durability: Durability,
    /// The duration of a task.
    pub(crate) delay: Duration,
    /// True if another process is still running.
    pub(crate) overtakes: bool,
    /// The tasks that were committed when the last process had ended.
    committed: BTreeSet<String>,
    /// The number of keys then.
    seen: usize,
}

/// A process that runs the thread.
pub(crate) struct Running {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Waits until the process says this line. False if it ends without.
    fn says(&mut self, line: &str) -> bool {
        self.output.by_ref().lines().map_while(Result::ok).any(|said| said == line)
    }

    /// Waits for its end, and returns its output since the last call.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        // A failed process writes its short reason to a pipe that is read after its end.
        self.output.read_to_string(&mut said).expect("it says texts");
        let output = self.process.wait_with_output().expect("a process");
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        (output.status, said)
    }
}

/// The end of a process.
pub(crate) enum Life {
    /// It was killed; whether it had begun to run the thread.
    Killed {
        at_work: bool,
    },
    /// It ended with a question.
    Asked,
    /// It ended with an error, as it may when the database dies.
    Failed,
    Finished,
}

impl<'a> Thread<'a> {
    pub(crate) fn new(place: &'a Place, name: &str, durability: Durability) -> Self {
        let log = place.folder.path().join(format!("{name}.log"));
        let delay = Duration::from_millis(3);
        Self {
            place,
            name: name.to_owned(),
            log,
            durability,
            delay,
            overtakes: false,
            committed: BTreeSet::new(),
            seen: 0,
        }
    }

    /// Starts a process that continues the thread.
    pub(crate) fn start(&self) -> Running {
        let durability = if self.durability == Durability::Async { "async" } else { "sync" };
        let mut process = Command::new(std::env::current_exe().expect("this test"))
            .args(["victim::child_process", "--exact", "--ignored", "--nocapture"])
            .env(victim::PLACE, self.place.name())
            .env(victim::THREAD, &self.name)
            .env(victim::LOG, &self.log)
            .env(victim::DELAY, self.delay.as_micros().to_string())
            .env(victim::DURABILITY, durability)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        Running { process, output }
    }

    /// Lets a process run: for this long, or until it ends.
    pub(crate) fn live(&mut self, at_most: Option<Duration>) -> Life {
        let mut running = self.start();
        let Some(time) = at_most else { return self.end(running) };
        // Now and then it is killed while it still begins.
        let waits = fastrand::u8(..8) > 0;
        let is_ready = waits && running.says("ready");
        std::thread::sleep(time);
        if waits != is_ready || running.process.try_wait().expect("a process").is_some() {
            return self.end(running);
        }
        running.process.kill().expect("it can be killed");
        running.process.wait().expect("it is dead");
        let at_work = self.look() > 0 || is_ready;
        Life::Killed { at_work }
    }

    /// Waits for the end of a process.
    pub(crate) fn end(&mut self, running: Running) -> Life {
        let (status, said) = running.finish();
        self.look();
        match said.lines().find(|line| line.starts_with("finished ") || line.starts_with("asked ")) {
            Some(line) if line.starts_with("finished ") => Life::Finished,
            Some(_) => Life::Asked,
            None => {
                assert!(!status.success(), "it said nothing: {said}");
                assert!(self.place.name().starts_with("postgres:"), "a process failed: {said}");
                Life::Failed
            }
        }
    }

    /// Reads the log since the last call. Returns the number of ended tasks.
    fn look(&mut self) -> usize {
        let keys = keys(&self.log);
        let fresh = keys.len() - self.seen;
        if !self.overtakes {
            nothing_again(&self.committed, &keys[self.seen..]);
        }
        self.seen = keys.len();
        let (name, thread) = (self.place.name(), self.name.clone());
        self.committed = self.place.runtime.block_on(async {
            let saver = open(&name).await;
            committed(&*saver, &thread, &keys).await
        });
        fresh
    }

    /// Checks that the thread has the end of an undisturbed run, and that each of its tasks was committed.
    pub(crate) fn check_end(&self) {
        self.check_state();
        let ran: BTreeSet<String> = keys(&self.log).into_iter().collect();
        let lost: Vec<&String> = ran.difference(&self.committed).collect();
        assert!(self.durability == Durability::Async || lost.is_empty(), "{lost:?}");
        for key in lost {
            // A call of the inner graph is lost as a whole, with the checkpoint that it started from.
            let namespace = key.split('/').nth(1).unwrap_or_default();
            assert!(!namespace.is_empty() && !self.has_stored(namespace), "{key}");
        }
        // Each round has three Sends, four nodes of the inner graph, and `seed`, `gather` and `ask`.
        let tasks = 4 * (3 + 4 + 3);
        if self.durability == Durability::Sync {
            assert_eq!(ran.len(), tasks);
        } else {
            // With the checkpoint that a step starts from, its tasks may be lost: those of the same step later are others.
            assert!(ran.len() >= tasks);
        }
    }

    fn has_stored(&self, namespace: &str) -> bool {
        let query =
            ListQuery { namespace: Some(namespace.to_owned()), limit: Some(1), ..ListQuery::thread(&*self.name) };
        let name = self.place.name();
        let listed = self.place.runtime.block_on(async { open(&name).await.list(query).await });
        !listed.expect("the thread can be listed").is_empty()
    }

    pub(crate) fn check_state(&self) {
        let (name, thread) = (self.place.name(), self.name.clone());
        let state: Tree = self.place.runtime.block_on(async {
            let graph = CrashTree::compile().checkpointer(open(&name).await);
            let state = graph.state(thread).await.expect("the thread can be read");
            assert_eq!(state.next, Vec::<String>::new());
            state.values
        });
        assert_eq!(state, self.place.runtime.block_on(victim::undisturbed()));
    }

    /// Waits until this many tasks have logged their keys.
    pub(crate) fn wait_for_lines(&self, lines: usize) {
        let start = Instant::now();
        while keys(&self.log).len() < lines {
            assert!(start.elapsed() < PATIENCE, "the process does nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
