//! What is outside of the thread: who fails, what was committed, what ran again though it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, DueQuery, DueThread, Lease, Record, SaverError};
use hier_core::prelude::*;
use hier_testkit::SaverLayer;
use uuid::Uuid;

/// What a Send carries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) number: usize,
    pub(crate) kind: Kind,
}

/// What becomes of an item at its first attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    #[default]
    Plain,
    Asks,
    AsksTwice,
    Fails,
    /// It sleeps for an hour.
    Sleeps,
    /// It asks for an hour, and then has an answer of its own.
    Expires,
    /// It waits for a signal.
    Waits,
    /// It takes a durable step.
    Steps,
}

/// The context of all runs.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    failed: BTreeSet<String>,
    committed: BTreeSet<Uuid>,
    again: BTreeMap<Uuid, String>,
    /// The durable steps that were done, and those that were done again.
    stepped: BTreeSet<String>,
    stepped_again: Vec<String>,
    /// Offset of the clock.
    ahead: Duration,
    /// The thread of the machine: what others have left is not driven.
    thread: String,
    /// True if results are stored only when the run ends, and are lost with it.
    exits: bool,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task begins, or begins again.
    pub(crate) fn enters(&self, run: &Run<Self>) {
        let mut inner = self.lock();
        if inner.committed.contains(&run.task_id()) {
            inner.again.insert(run.task_id(), run.node().to_owned());
        }
    }

    /// Fails the first time, whoever it is.
    pub(crate) fn fails(&self, name: &str) -> Result<()> {
        if self.lock().failed.insert(name.to_owned()) {
            return Err(NodeError::permanent(format!("{name} fails once")));
        }
        Ok(())
    }

    /// Takes a durable step, which is done once.
    pub(crate) async fn steps(&self, run: &Run<Self>, name: &str) -> Result<()> {
        let work = async || {
            let mut inner = self.lock();
            if inner.stepped.contains(name) {
                inner.stepped_again.push(name.to_owned());
            }
            Ok(())
        };
        run.step(name, work).await?;
        let mut inner = self.lock();
        if !inner.exits {
            inner.stepped.insert(name.to_owned());
        }
        Ok(())
    }

    pub(crate) fn now(&self) -> SystemTime {
        SystemTime::now() + self.lock().ahead
    }

    pub(crate) fn goes_ahead(&self, by: Duration) {
        self.lock().ahead += by;
    }

    pub(crate) fn has_thread(&self, thread: &str) {
        thread.clone_into(&mut self.lock().thread);
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

    /// From now on other tasks are what they were: the thread went back.
    pub(crate) fn went_back(&self) {
        let mut inner = self.lock();
        inner.committed.clear();
        inner.stepped.clear();
    }

    /// The nodes that ran though what they had done was committed.
    pub(crate) fn ran_again(&self) -> Vec<String> {
        let inner = self.lock();
        inner.again.values().chain(&inner.stepped_again).cloned().collect()
    }
}

/// A layer around a saver that tells the world which tasks were committed.
pub(crate) struct Watched {
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) world: World,
    /// Whether it loses what tasks wrote: that must be noticed.
    pub(crate) forgets: bool,
}

#[async_trait]
impl SaverLayer for Watched {
    fn saver(&self) -> &dyn Checkpointer {
        &*self.saver
    }

    async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError> {
        let done: Vec<Uuid> = records.iter().filter_map(done).collect();
        let kept = records.into_iter().filter(|record| !self.forgets || matches!(record, Record::Checkpoint { .. }));
        self.saver.commit(lease, kept.collect()).await?;
        self.world.lock().committed.extend(done);
        Ok(())
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        let all = DueQuery::new(query.by, query.graphs, 10_000).after(query.after);
        let mut due = self.saver.due(all).await?;
        due.retain(|due| self.world.lock().thread == *due.thread);
        Ok(due)
    }
}

/// The task whose result a record has: what it wrote, or that it wrote nothing.
fn done(record: &Record) -> Option<Uuid> {
    match record {
        Record::Writes { writes, .. } if writes.writes.iter().any(|write| write.slot >= 0) => Some(writes.task),
        _ => None,
    }
}
