//! Gives records to the saver: at once, or in the background.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::checkpoint::{Checkpointer, Lease, Record, SaverError};
use crate::config::Durability;
use crate::sync::lock;

/// How many records may wait in the background before the run waits for them.
const CROWD: usize = 4096;

/// The saver of a run, and the lease under which it writes. All graphs of the run's tree share it.
pub(crate) struct Committer {
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) lease: Lease,
    pub(crate) durability: Durability,
    background: Arc<Background>,
}

/// What is stored in the background.
#[derive(Default)]
struct Background {
    queue: Mutex<Queue>,
    idle: Notify,
}

#[derive(Default)]
struct Queue {
    records: Vec<Record>,
    writing: bool,
    error: Option<SaverError>,
    released: bool,
    /// The namespaces of subgraphs that have been read in this run.
    used: HashSet<Arc<str>>,
}

impl Committer {
    pub(crate) fn new(saver: Arc<dyn Checkpointer>, lease: Lease, durability: Durability) -> Self {
        Self { saver, lease, durability, background: Arc::default() }
    }

    /// Stores these records, now or soon. An error of earlier ones that were stored in the background is found here too.
    pub(crate) async fn commit(&self, records: Vec<Record>) -> Result<(), SaverError> {
        // A saver in this process is done at once.
        if self.durability == Durability::Async
            && self.saver.leases_expire()
            && let Ok(runtime) = Handle::try_current()
        {
            return self.enqueue(records, &runtime).await;
        }
        self.saver.commit(&self.lease, records).await
    }

    async fn enqueue(&self, mut records: Vec<Record>, runtime: &Handle) -> Result<(), SaverError> {
        let crowded = {
            let mut queue = lock(&self.background.queue);
            if let Some(error) = &queue.error {
                return Err(error.clone());
            }
            queue.records.append(&mut records);
            if !queue.writing {
                queue.writing = true;
                runtime.spawn(self.background.clone().write(self.saver.clone(), self.lease.clone()));
            }
            queue.records.len() > CROWD
        };
        if crowded { self.flush().await } else { Ok(()) }
    }

    /// Waits until everything is stored.
    pub(crate) async fn flush(&self) -> Result<(), SaverError> {
        loop {
            let idle = self.background.idle.notified();
            {
                let queue = lock(&self.background.queue);
                if !queue.writing {
                    return queue.error.clone().map_or(Ok(()), Err);
                }
            }
            idle.await;
        }
    }

    /// Whether this is the first time in the run that a subgraph's namespace is read.
    pub(crate) fn is_first_use(&self, namespace: &Arc<str>) -> bool {
        lock(&self.background.queue).used.insert(namespace.clone())
    }

    /// Keeps the lease from running out, for ever; returns what went wrong.
    pub(crate) async fn keep_alive(&self) -> SaverError {
        let pause = (self.lease.lasts / 3).max(Duration::from_millis(10));
        loop {
            tokio::time::sleep(pause).await;
            match self.saver.renew(&self.lease).await {
                Ok(()) => {}
                Err(error @ SaverError::Superseded { .. }) => return error,
                // The lease runs for another while; the next commit tells.
                Err(error) => tracing::warn!(thread = %self.lease.thread, %error, "a lease could not be renewed"),
            }
        }
    }

    /// Gives the thread free.
    pub(crate) async fn release(&self) {
        lock(&self.background.queue).released = true;
        if let Err(error) = self.saver.release(&self.lease).await {
            tracing::warn!(thread = %self.lease.thread, %error, "a thread could not be given free");
        }
    }
}

impl Background {
    /// Stores what waits, and what comes meanwhile, as few commits.
    async fn write(self: Arc<Self>, saver: Arc<dyn Checkpointer>, lease: Lease) {
        let mut saver = Some(saver);
        while let Some(records) = self.next(&mut saver) {
            let Some(saver) = &saver else { return };
            if let Err(error) = saver.commit(&lease, records).await {
                let mut queue = lock(&self.queue);
                queue.error = Some(error);
                queue.records.clear();
            }
        }
        self.idle.notify_waiters();
    }

    /// What is to be stored next. If nothing is, the saver is let go before anybody is told: who waits may want to close it.
    fn next(&self, saver: &mut Option<Arc<dyn Checkpointer>>) -> Option<Vec<Record>> {
        let mut queue = lock(&self.queue);
        if queue.records.is_empty() {
            *saver = None;
            queue.writing = false;
            return None;
        }
        Some(std::mem::take(&mut queue.records))
    }
}

impl Drop for Committer {
    /// A run that was dropped gives its thread free too.
    fn drop(&mut self) {
        if lock(&self.background.queue).released {
            return;
        }
        let (saver, lease) = (self.saver.clone(), self.lease.clone());
        let mut release = Box::pin(async move {
            if let Err(error) = saver.release(&lease).await {
                tracing::warn!(thread = %lease.thread, %error, "a thread could not be given free");
            }
        });
        if release.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(release);
        }
    }
}
