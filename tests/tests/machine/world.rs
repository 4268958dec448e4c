//! The world outside of the thread: failures, commits, and repeated work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hier_agents::prelude::*;
use hier_core::Result;
use uuid::Uuid;

use crate::talk::Talk;
use crate::zoo::Zoo;

/// The payload of a Send.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) number: usize,
    pub(crate) kind: Kind,
    /// The number of the zoo.
    pub(crate) seed: u64,
    pub(crate) zoo: Zoo,
}

/// The fate of an item at its first attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    #[default]
    Plain,
    Asks,
    AsksTwice,
    Fails,
    /// It sleeps for an hour.
    Sleeps,
    /// It asks for an hour, and then gets its default.
    Expires,
    /// It waits for a signal.
    Waits,
    /// It takes a durable step, whose result is a zoo.
    Steps,
    /// It writes messages.
    Says(Talk),
    /// It keeps its zoo in the state.
    Keeps,
}

/// The context of all runs of a process.
#[derive(Clone, Default)]
pub(crate) struct World {
    inner: Arc<Mutex<Inner>>,
    process: usize,
}

#[derive(Default)]
struct Inner {
    failed: BTreeSet<String>,
    again: BTreeMap<Uuid, String>,
    /// The durable steps that were done again.
    stepped_again: Vec<String>,
    /// The values that came out of a path as others.
    changed: Vec<String>,
    /// Offset of the clock.
    ahead: Duration,
    /// The threads of the machine: what others have left is not driven.
    threads: BTreeMap<String, Done>,
    /// True if results are stored only when the run ends, and are lost with it.
    exits: bool,
    processes: usize,
}

/// The commits of a thread, and the process of its last claim.
#[derive(Clone, Default)]
struct Done {
    tasks: BTreeSet<Uuid>,
    steps: BTreeSet<String>,
    holder: usize,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world of another process.
    pub(crate) fn process(&self) -> Self {
        let mut inner = self.lock();
        inner.processes += 1;
        Self { inner: self.inner.clone(), process: inner.processes }
    }

    /// A task begins, or begins again. A process that lost its thread may start a task, because its work is lost.
    pub(crate) fn enters(&self, run: &Run<Self>) {
        let mut inner = self.lock();
        let done = inner.done(run);
        if done.holder == self.process && done.tasks.contains(&run.task_id()) {
            inner.again.insert(run.task_id(), run.node().to_owned());
        }
    }

    /// Fails the first time.
    pub(crate) fn fails(&self, name: &str) -> Result<()> {
        if self.lock().failed.insert(name.to_owned()) {
            return Err(NodeError::permanent(format!("{name} fails once")));
        }
        Ok(())
    }

    /// Takes a durable step, which is done once. Its result is a zoo.
    pub(crate) async fn steps(&self, run: &Run<Self>, name: &str, seed: u64) -> Result<Zoo> {
        let work = async || {
            let mut inner = self.lock();
            let done = inner.done(run);
            if done.holder == self.process && done.steps.contains(name) {
                inner.stepped_again.push(name.to_owned());
            }
            Ok(Zoo::new(seed))
        };
        let zoo = run.step(name, work).await?;
        let mut inner = self.lock();
        if !inner.exits {
            inner.done(run).steps.insert(name.to_owned());
        }
        Ok(zoo)
    }

    /// A value has taken this path.
    pub(crate) fn sees(&self, path: &str, zoo: &Zoo, seed: u64) {
        let (found, sent) = (zoo.text(), Zoo::new(seed).text());
        if found != sent {
            self.lock().changed.push(format!("{path} has changed a value\n from {sent}\n to   {found}"));
        }
    }

    /// This process has claimed the thread.
    pub(crate) fn claims(&self, thread: &str) {
        self.lock().threads.entry(thread.to_owned()).or_default().holder = self.process;
    }

    /// These tasks of a thread were committed.
    pub(crate) fn commits(&self, thread: &str, tasks: Vec<Uuid>) {
        self.lock().threads.entry(thread.to_owned()).or_default().tasks.extend(tasks);
    }

    /// True if it is a thread of this machine.
    pub(crate) fn knows(&self, thread: &str) -> bool {
        self.lock().threads.contains_key(thread)
    }

    /// True if this process still holds the thread.
    pub(crate) fn holds(&self, thread: &str) -> bool {
        self.lock().threads.get(thread).is_some_and(|done| done.holder == self.process)
    }

    /// No process of the machine holds the thread.
    pub(crate) fn is_free(&self, thread: &str) {
        self.lock().threads.entry(thread.to_owned()).or_default().holder = 0;
    }

    pub(crate) fn now(&self) -> SystemTime {
        SystemTime::now() + self.lock().ahead
    }

    pub(crate) fn goes_ahead(&self, by: Duration) {
        self.lock().ahead += by;
    }

    pub(crate) fn has_thread(&self, thread: &str) {
        self.lock().threads.entry(thread.to_owned()).or_default();
    }

    /// Records that a copy has the work of its original.
    pub(crate) fn has_copy(&self, thread: &str, copy: &str) {
        let mut inner = self.lock();
        let done = inner.threads.get(thread).cloned().unwrap_or_default();
        inner.threads.insert(copy.to_owned(), done);
    }

    pub(crate) fn stores_at_the_end(&self, exits: bool) {
        self.lock().exits = exits;
    }

    /// Places where a run can be killed.
    pub(crate) async fn pauses(&self) {
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
    }

    /// From now on other tasks have these keys, because the thread went back.
    pub(crate) fn went_back(&self, thread: &str) {
        self.lock().threads.insert(thread.to_owned(), Done::default());
    }

    /// Returns a violation: a repeated task or step, or a changed value.
    pub(crate) fn broken(&self) -> Option<String> {
        let inner = self.lock();
        let again: Vec<_> = inner.again.values().chain(&inner.stepped_again).collect();
        if !again.is_empty() {
            return Some(format!("{again:?} ran again, and what they had done was committed"));
        }
        inner.changed.first().cloned()
    }
}

impl Inner {
    fn done(&mut self, run: &Run<World>) -> &mut Done {
        self.threads.entry(run.config().thread_id().unwrap_or_default().to_owned()).or_default()
    }
}
