//! Commits records to the saver: at once, or in the background.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use futures_core::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::deferred::Deferred;
use super::runtime::{Handle, JoinHandle};
use super::saver::Saver;
use super::signal_inbox::SignalInbox;
use crate::checkpoint::{Delivered, Lease, SaverError, SideEffects, WriteRecord};
use crate::config::Durability;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// Bytes of records that may wait in the background before the run waits for them. A commit holds at most as many, unless a single record
/// is larger.
const ROOM: u32 = 32 << 20;
/// The size of a record without its values, in bytes.
const OVERHEAD: usize = 256;
/// Maximum number of jobs in one commit.
const GROUP: usize = 4096;
/// Number of commits that a run tries in place. Waking the background task takes longer than a short commit of a saver in this process. A
/// run of many supersteps stores them in a few commits in the background.
const IN_PLACE: usize = 2;

/// The saver of a run and the lease under which it writes. All graphs of the run share it.
pub(crate) struct Committer {
    pub(crate) saver: Saver,
    pub(crate) lease: Lease,
    pub(crate) durability: Durability,
    pub(crate) graph: Arc<str>,
    /// Locked while a task looks for a signal and takes it.
    pub(crate) signals: tokio::sync::Mutex<SignalInbox>,
    /// Changes for the last commit of the run.
    held: Mutex<SideEffects>,
    /// Records that subgraphs hold until the end of the run.
    pub(super) deferred: Arc<Deferred>,
    waits: AtomicBool,
    /// Exists once a commit has been queued.
    writer: Mutex<Option<BackgroundWriter>>,
    tried: AtomicUsize,
    /// The bytes that may still wait in the background.
    room: Arc<Semaphore>,
    /// The first error of the background writer.
    failure: Arc<OnceLock<SaverError>>,
    /// Stops renewing the lease. Returns false if the saver is being called.
    pub(super) stop_renewal: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Stored before the lease is released.
    at_release: Mutex<Option<WriteRecord>>,
    released: AtomicBool,
}

/// The background task. It ends when its queue is closed.
struct BackgroundWriter {
    /// None once the task is to end.
    jobs: Option<mpsc::UnboundedSender<CommitJob>>,
    task: JoinHandle<()>,
}

type StartedCommit = BoxFuture<'static, Result<(), SaverError>>;

enum CommitJob {
    /// Finishes a commit that was tried in place.
    Finish(StartedCommit, OwnedSemaphorePermit),
    /// Stores records. The permit returns their bytes when they are stored or dropped.
    Store(Vec<WriteRecord>, OwnedSemaphorePermit),
    /// Reports that everything queued before is stored.
    Flush(oneshot::Sender<()>),
}

impl Committer {
    pub(crate) fn new(saver: Saver, lease: Lease, durability: Durability, graph: &str) -> Self {
        let deferred = Arc::<Deferred>::default();
        Self {
            saver: if durability == Durability::Exit { saver.over(deferred.clone()) } else { saver },
            lease,
            durability,
            graph: graph.into(),
            signals: tokio::sync::Mutex::default(),
            held: Mutex::default(),
            deferred,
            waits: AtomicBool::new(false),
            writer: Mutex::default(),
            tried: AtomicUsize::new(0),
            room: Arc::new(Semaphore::new(ROOM as usize)),
            failure: Arc::default(),
            stop_renewal: OnceLock::new(),
            at_release: Mutex::default(),
            released: AtomicBool::new(false),
        }
    }

    /// Stores records, now or soon. Returns an error of earlier records that were stored in the background.
    pub(crate) async fn commit(&self, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        // A saver in this process is fast enough.
        if self.durability == Durability::Async
            && self.saver.leases_expire()
            && let Ok(runtime) = Handle::try_current()
        {
            return self.enqueue(records, &runtime).await;
        }
        self.saver.commit(&self.lease, records).await
    }

    /// Stores records together with other changes of the thread, whatever the durability of the run.
    pub(crate) async fn commit_also(&self, records: Vec<WriteRecord>, also: SideEffects) -> Result<(), SaverError> {
        self.flush().await?;
        self.saver.commit_also(&self.lease, records, also).await
    }

    /// The messages that wait for the thread, without those that this run takes at its end.
    pub(crate) async fn mail(&self) -> Result<Vec<Delivered>, SaverError> {
        let mut waiting = self.saver.mail(&self.lease.thread).await?;
        waiting.retain(|posted| !self.deferred.is_reserved(posted.message.id));
        Ok(waiting)
    }

    /// Adds a change to the last commit of the run.
    pub(crate) fn hold(&self, change: impl FnOnce(&mut SideEffects)) {
        change(&mut lock(&self.held));
    }

    pub(crate) fn take_held(&self) -> SideEffects {
        std::mem::take(&mut lock(&self.held))
    }

    /// Stores this record before the lease is released, instead of an earlier one, even if the run is dropped.
    pub(crate) fn store_at_release(&self, record: Option<WriteRecord>) {
        *lock(&self.at_release) = record;
    }

    /// Records that a task of the thread waits, or has waited, for a time or a signal.
    pub(crate) fn note_waiting(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Returns true if a task of the thread waits, or has waited, for a time or a signal.
    pub(crate) fn has_waited(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Stores records, and returns when they are stored, whatever the durability of the run.
    pub(crate) async fn commit_now(&self, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        self.flush().await?;
        self.saver.commit(&self.lease, records).await
    }

    /// Stores the last records of the run and releases the lease in one commit, if the saver supports that and the thread has no due time.
    /// A released lease must not be renewed.
    pub(crate) async fn commit_last(&self, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        if self.has_waited() || !self.stop_renewal.get().is_none_or(|stop| stop()) {
            return self.commit(records).await;
        }
        self.flush().await?;
        if self.saver.commit_last(&self.lease, records, SideEffects::default()).await? {
            self.released.store(true, Ordering::Release);
        }
        Ok(())
    }

    async fn enqueue(&self, records: Vec<WriteRecord>, runtime: &Handle) -> Result<(), SaverError> {
        if let Some(error) = self.failure.get() {
            return Err(error.clone());
        }
        let bytes = records.iter().map(size).sum::<usize>();
        let bytes = u32::try_from(bytes).unwrap_or(ROOM).min(ROOM);
        let room = self.room.clone().acquire_many_owned(bytes).await.map_err(|_| self.failed())?;
        let job = if self.is_in_place() {
            let (saver, lease) = (self.saver.clone(), self.lease.clone());
            let mut begun: StartedCommit = Box::pin(async move { saver.commit(&lease, records).await });
            if let Poll::Ready(stored) = poll_fn(|cx| Poll::Ready(begun.as_mut().poll(cx))).await {
                return stored;
            }
            CommitJob::Finish(begun, room)
        } else {
            CommitJob::Store(records, room)
        };
        self.jobs(runtime).and_then(|jobs| jobs.send(job).ok()).ok_or_else(|| self.failed())
    }

    /// Returns true if the next commit is tried in place: nothing is queued, and few commits were tried before.
    fn is_in_place(&self) -> bool {
        lock(&self.writer).is_none() && self.tried.fetch_add(1, Ordering::Relaxed) < IN_PLACE
    }

    /// Returns the queue of the writer. Starts the writer if it does not run.
    fn jobs(&self, runtime: &Handle) -> Option<mpsc::UnboundedSender<CommitJob>> {
        let mut writer = lock(&self.writer);
        let writer = writer.get_or_insert_with(|| {
            let (jobs, queue) = mpsc::unbounded_channel();
            let task = write(queue, self.saver.clone(), self.lease.clone(), self.failure.clone());
            BackgroundWriter { jobs: Some(jobs), task: runtime.spawn(task) }
        });
        writer.jobs.clone()
    }

    /// Waits until all queued records are stored.
    pub(crate) async fn flush(&self) -> Result<(), SaverError> {
        let Some(jobs) = lock(&self.writer).as_ref().and_then(|writer| writer.jobs.clone()) else { return Ok(()) };
        let (stored, done) = oneshot::channel();
        // A writer that ends drops its queue.
        jobs.send(CommitJob::Flush(stored)).map_err(|_| self.failed())?;
        done.await.map_err(|_| self.failed())
    }

    /// The reason why the writer has ended.
    fn failed(&self) -> SaverError {
        self.failure.get().cloned().unwrap_or_else(|| {
            let reason = std::io::Error::other("the tokio runtime of the run was shut down");
            SaverError::database(format!("storing thread `{}` in the background", self.lease.thread), reason)
        })
    }

    /// Releases the lease after the last write.
    pub(crate) async fn release(&self) {
        // The task stays here until it has ended, so that dropping the committer waits for it.
        if let Some(writer) = &mut *lock(&self.writer) {
            writer.jobs = None;
        }
        poll_fn(|cx| match &mut *lock(&self.writer) {
            Some(writer) => Pin::new(&mut writer.task).poll(cx).map(drop),
            None => Poll::Ready(()),
        })
        .await;
        *lock(&self.writer) = None;
        if !self.released.load(Ordering::Acquire) {
            // The record stays here until then, so that dropping the committer stores it.
            let last = lock(&self.at_release).clone();
            release(None, last, &self.saver, &self.lease).await;
            self.released.store(true, Ordering::Release);
        }
    }
}

impl Drop for Committer {
    /// Releases the lease of a dropped run, even if it was already releasing.
    fn drop(&mut self) {
        if self.released.load(Ordering::Acquire) {
            return;
        }
        let (saver, lease, writer) = (self.saver.clone(), self.lease.clone(), lock(&self.writer).take());
        let last = lock(&self.at_release).take();
        let mut work = Box::pin(async move { release(writer, last, &saver, &lease).await });
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

/// Stores queued records in as few commits as possible. Drops the saver before it reports the end: the caller may want to close the saver.
async fn write(
    mut queue: mpsc::UnboundedReceiver<CommitJob>,
    saver: Saver,
    lease: Lease,
    failure: Arc<OnceLock<SaverError>>,
) {
    let mut jobs = Vec::new();
    while queue.recv_many(&mut jobs, GROUP).await > 0 {
        let (mut begun, mut records) = (Vec::new(), Vec::new());
        let (mut rooms, mut waiting) = (Vec::new(), Vec::new());
        for job in jobs.drain(..) {
            match job {
                CommitJob::Finish(commit, room) => {
                    begun.push(commit);
                    rooms.push(room);
                }
                CommitJob::Store(mut more, room) => {
                    records.append(&mut more);
                    rooms.push(room);
                }
                CommitJob::Flush(done) => waiting.push(done),
            }
        }
        if let Err(error) = store(begun, records, &saver, &lease).await {
            // Only this task sets it.
            let _ = failure.set(error);
            return;
        }
        // The receiver may have been dropped.
        for done in waiting {
            let _ = done.send(());
        }
    }
}

/// Finishes the started commits, then stores the records, which are newer.
async fn store(
    begun: Vec<StartedCommit>,
    records: Vec<WriteRecord>,
    saver: &Saver,
    lease: &Lease,
) -> Result<(), SaverError> {
    for commit in begun {
        commit.await?;
    }
    if records.is_empty() { Ok(()) } else { saver.commit(lease, records).await }
}

async fn release(writer: Option<BackgroundWriter>, last: Option<WriteRecord>, saver: &Saver, lease: &Lease) {
    if let Some(BackgroundWriter { jobs, task }) = writer {
        drop(jobs);
        // It fails only if the runtime shuts down, and then nothing is written any more.
        let _ = task.await;
    }
    if let Some(last) = last
        && let Err(error) = saver.commit(lease, vec![last]).await
    {
        tracing::warn!(thread = %lease.thread, %error, "failed to store the end of an attempt of a detached subagent");
    }
    if let Err(error) = saver.release(lease).await {
        tracing::warn!(thread = %lease.thread, %error, "failed to release the thread's lease");
    }
}

/// The approximate size of a record, in bytes.
fn size(record: &WriteRecord) -> usize {
    let values = match record {
        WriteRecord::Checkpoint { checkpoint, pieces, .. } => {
            let sent = checkpoint.agenda.sends.iter().map(|send| send.payload.len()).sum::<usize>();
            sent + pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>() + size_of_val(&*checkpoint.versions)
        }
        WriteRecord::Writes { writes, .. } => writes.writes.iter().map(|write| write.value.len()).sum(),
    };
    OVERHEAD + values
}
