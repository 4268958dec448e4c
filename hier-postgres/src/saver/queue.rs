//! Commits of a thread one after the other, in the order in which they were called. What waits goes into one statement.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hier_checkpoint::checkpoint::{SaverError, SideEffects, WriteRecord};
use tokio::sync::oneshot;

use hier_checkpoint::backend::latest::Latest;
use hier_checkpoint::backend::rows::{Batch, size};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// How many rows share a statement at most.
const MOST: usize = 2_000;
/// How many bytes share a statement. One commit may have more.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// The size limit of one statement in bytes, less some room for the protocol.
const LIMIT: usize = 1_000_000_000;

type Answer = Result<(), SaverError>;

/// A commit that waits.
struct Job {
    token: u64,
    records: Vec<WriteRecord>,
    also: Option<SideEffects>,
    answer: oneshot::Sender<Answer>,
}

type Threads = HashMap<Arc<str>, VecDeque<Job>>;

/// The queued work, by thread. A thread is in here as long as it has a worker.
#[derive(Default)]
pub(super) struct Queue(Mutex<Threads>);

/// Works for one thread. If it is dropped before everything is done, since the runtime has ended or something panicked, the
/// commits that wait are dropped with it, which tells their callers.
pub(super) struct Worker {
    queue: Arc<Queue>,
    thread: Arc<str>,
    is_done: bool,
}

/// Commits of one thread under one token, as one.
pub(super) struct Group {
    pub(super) token: u64,
    records: Vec<WriteRecord>,
    /// What the one commit changes beside its records: it goes alone.
    pub(super) also: Option<SideEffects>,
    answers: Vec<oneshot::Sender<Answer>>,
}

impl Queue {
    /// Adds a commit; with a worker, which has to be started, if the thread has none.
    pub(super) fn add(
        self: &Arc<Self>,
        thread: &Arc<str>,
        token: u64,
        records: Vec<WriteRecord>,
        also: Option<SideEffects>,
    ) -> (Option<Worker>, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let mut threads = self.lock();
        let is_idle = !threads.contains_key(thread);
        threads.entry(thread.clone()).or_default().push_back(Job { token, records, also, answer });
        drop(threads);
        let worker = is_idle.then(|| Worker { queue: self.clone(), thread: thread.clone(), is_done: false });
        (worker, answered)
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    pub(super) fn thread(&self) -> &Arc<str> {
        &self.thread
    }

    /// The next group of work; none if the queue is empty, and the worker has to end.
    pub(super) fn next(&mut self) -> Option<Group> {
        let mut threads = self.queue.lock();
        let jobs = threads.get_mut(&self.thread)?;
        let Some(first) = jobs.pop_front() else {
            threads.remove(&self.thread);
            self.is_done = true;
            return None;
        };
        let (mut rows, mut bytes) = size(&first.records);
        let Job { token, records, also, answer } = first;
        let mut group = Group { token, records, also, answers: vec![answer] };
        while let Some(job) = jobs.front().filter(|job| job.also.is_none() && group.also.is_none()) {
            let (more_rows, more_bytes) = size(&job.records);
            (rows, bytes) = (rows + more_rows, bytes + more_bytes);
            if job.token != group.token || rows > MOST || bytes > MOST_BYTES {
                break;
            }
            let Some(job) = jobs.pop_front() else { break };
            group.records.extend(job.records);
            group.answers.push(job.answer);
        }
        Some(group)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.is_done {
            let dropped = self.queue.lock().remove(&self.thread);
            // Without the lock: who is told may want it.
            drop(dropped);
        }
    }
}

impl Group {
    /// The rows, sealed. [`SaverError::Invalid`] if they are more than the server takes in a statement.
    pub(super) fn take_batch(
        &mut self,
        vault: &ValueCodec,
        latest: &Latest,
        thread: &Arc<str>,
    ) -> Result<Batch, SaverError> {
        let mut batch = Batch::of(vault, latest, thread, std::mem::take(&mut self.records))?;
        let (_, bytes) = batch.size();
        if bytes > LIMIT {
            let mend = "keep long values elsewhere, or store each step by itself (`Durability::Sync` or `Async`)";
            let reason = format!("a commit of thread `{thread}` has {bytes} bytes, and Postgres takes {LIMIT} at once");
            return Err(SaverError::Invalid(format!("{reason}: {mend}")));
        }
        batch.settle();
        Ok(batch)
    }

    pub(super) fn answer(self, result: &Answer) {
        for answer in self.answers {
            // A call that was dropped waits for no answer.
            let _ = answer.send(result.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hier_checkpoint::checkpoint::{PendingWrite, TaskWrites, WriteRecord};
    use uuid::Uuid;

    use super::{MOST_BYTES, Queue};

    fn record(bytes: usize) -> Vec<WriteRecord> {
        let write = PendingWrite { slot: 0, channel: "c".into(), value: vec![0; bytes] };
        let (checkpoint, task) = (Uuid::nil(), Uuid::nil());
        vec![WriteRecord::Writes {
            namespace: "".into(),
            writes: TaskWrites { checkpoint, task, path: "".into(), writes: vec![write] },
        }]
    }

    #[test]
    fn groups_are_bounded_in_bytes() {
        let (queue, thread) = (Arc::new(Queue::default()), Arc::from("t"));
        let (worker, _first) = queue.add(&thread, 1, record(MOST_BYTES * 2), None);
        let mut worker = worker.expect("the first");
        let mut others = Vec::new();
        for _ in 0..8 {
            let (other, answered) = queue.add(&thread, 1, record(MOST_BYTES / 4), None);
            assert!(other.is_none(), "one worker a thread");
            others.push(answered);
        }
        let sizes: Vec<usize> = std::iter::from_fn(|| worker.next()).map(|group| group.records.len()).collect();
        assert_eq!(sizes, [1, 4, 4], "one that is too long goes alone, the others as far as they fit");
    }

    /// The runtime has ended, or storing has panicked: also before the worker was ever polled.
    #[test]
    fn a_worker_that_is_dropped_tells_those_who_wait() {
        let (queue, thread) = (Arc::new(Queue::default()), Arc::from("t"));
        for has_begun in [false, true] {
            let (worker, mut first) = queue.add(&thread, 1, record(1), None);
            let (_, mut second) = queue.add(&thread, 2, record(1), None);
            let mut worker = worker.expect("a worker of its own, as nobody is at work");
            let group = has_begun.then(|| worker.next());
            drop((group, worker));
            assert!(first.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Closed));
            assert!(second.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Closed));
        }
        // One that has ended takes nothing from the one after it.
        let (worker, _) = queue.add(&thread, 1, record(1), None);
        let mut ended = worker.expect("a worker");
        assert!(ended.next().is_some() && ended.next().is_none());
        let (next, mut waits) = queue.add(&thread, 1, record(1), None);
        drop(ended);
        assert!(waits.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty));
        drop(next);
    }
}
