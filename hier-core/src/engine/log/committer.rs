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

/// Maximum bytes of records that wait in the background. A run with more records waits until some are stored. A commit
/// holds no more than this, unless a single record is larger.
const ROOM: u32 = 32 << 20;
/// The size of a record without its values, in bytes.
const OVERHEAD: usize = 256;
const GROUP: usize = 4096;
/// Number of commits that a run tries in place, because waking the background task takes longer than a short commit of
/// a saver in this process. A run of many supersteps stores its records with a few commits in the background.
const IN_PLACE: usize = 2;

/// The saver and the lease under which a run writes. All graphs of the run share them.
pub(crate) struct Committer {
    pub(crate) saver: Saver,
    pub(crate) lease: Lease,
    pub(crate) durability: Durability,
    pub(crate) graph: Arc<str>,
    /// Locked while a task looks for a signal and takes the signal.
    pub(crate) signals: tokio::sync::Mutex<SignalInbox>,
    /// Changes for the last commit of the run.
    held: Mutex<SideEffects>,
    /// Records that subgraphs hold until the end of the run.
    pub(super) deferred: Arc<Deferred>,
    waits: AtomicBool,
    /// None until a commit is queued.
    writer: Mutex<Option<BackgroundWriter>>,
    tried: AtomicUsize,
    /// Permits for the bytes of records that wait in the background.
    room: Arc<Semaphore>,
    failure: Arc<OnceLock<SaverError>>,
    /// Stops the renewal of the lease. Returns false if a renewal is in progress.
    pub(super) stop_renewal: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// A record to store just before the lease is released.
    at_release: Mutex<Option<WriteRecord>>,
    released: AtomicBool,
}

/// The task that stores records in the background. It ends when its queue is closed.
struct BackgroundWriter {
    /// None once the task must end.
    jobs: Option<mpsc::UnboundedSender<CommitJob>>,
    task: JoinHandle<()>,
}

type StartedCommit = BoxFuture<'static, Result<(), SaverError>>;

enum CommitJob {
    /// Finishes a commit that was tried in place.
    Finish(StartedCommit, OwnedSemaphorePermit),
    /// Stores records. The permit reserves room for their bytes until they are stored or dropped.
    Store(Vec<WriteRecord>, OwnedSemaphorePermit),
    /// Reports that all jobs before this one are stored.
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

    /// Stores records at once or in the background. Returns the error of an earlier commit in the background.
    pub(crate) async fn commit(&self, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        // A saver whose leases do not expire is in this process, and fast enough.
        if self.durability == Durability::Async
            && self.saver.leases_expire()
            && let Ok(runtime) = Handle::try_current()
        {
            return self.enqueue(records, &runtime).await;
        }
        self.saver.commit(&self.lease, records).await
    }

    /// Stores records together with other changes of the thread at once, whatever the durability of the run.
    pub(crate) async fn commit_also(&self, records: Vec<WriteRecord>, also: SideEffects) -> Result<(), SaverError> {
        self.flush().await?;
        self.saver.commit_also(&self.lease, records, also).await
    }

    /// Returns the messages that wait for the thread. Leaves out those that this run takes at its end.
    pub(crate) async fn mail(&self) -> Result<Vec<Delivered>, SaverError> {
        let mut waiting = self.saver.mail(&self.lease.thread).await?;
        waiting.retain(|posted| !self.deferred.is_reserved(posted.message.id));
        Ok(waiting)
    }

    pub(crate) fn hold(&self, change: impl FnOnce(&mut SideEffects)) {
        change(&mut lock(&self.held));
    }

    pub(crate) fn take_held(&self) -> SideEffects {
        std::mem::take(&mut lock(&self.held))
    }

    /// Sets the record that is stored before the lease is released, even if the run is dropped. Replaces an earlier one.
    pub(crate) fn store_at_release(&self, record: Option<WriteRecord>) {
        *lock(&self.at_release) = record;
    }

    /// Records that a task of the thread waits, or has waited, for a time or a signal.
    pub(crate) fn note_waiting(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_waited(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Stores records at once, whatever the durability of the run.
    pub(crate) async fn commit_now(&self, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        self.flush().await?;
        self.saver.commit(&self.lease, records).await
    }

    /// Stores the last records of the run. Releases the lease in the same commit, if the saver supports that and no
    /// task has waited for a time or a signal. The renewal of the lease must stop first.
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

    /// Returns true if the next commit is tried in place. This is so for the first commits, until a commit is queued.
    fn is_in_place(&self) -> bool {
        lock(&self.writer).is_none() && self.tried.fetch_add(1, Ordering::Relaxed) < IN_PLACE
    }

    /// Returns the queue of the background task. Starts the task if necessary.
    fn jobs(&self, runtime: &Handle) -> Option<mpsc::UnboundedSender<CommitJob>> {
        let mut writer = lock(&self.writer);
        let writer = writer.get_or_insert_with(|| {
            let (jobs, queue) = mpsc::unbounded_channel();
            let task = write(queue, self.saver.clone(), self.lease.clone(), self.failure.clone());
            BackgroundWriter { jobs: Some(jobs), task: runtime.spawn(task) }
        });
        writer.jobs.clone()
    }

    pub(crate) async fn flush(&self) -> Result<(), SaverError> {
        let Some(jobs) = lock(&self.writer).as_ref().and_then(|writer| writer.jobs.clone()) else { return Ok(()) };
        let (stored, done) = oneshot::channel();
        // A background task that has failed has dropped its queue, so the send fails.
        jobs.send(CommitJob::Flush(stored)).map_err(|_| self.failed())?;
        done.await.map_err(|_| self.failed())
    }

    /// Returns the error that ended the background task.
    fn failed(&self) -> SaverError {
        self.failure.get().cloned().unwrap_or_else(|| {
            let reason = std::io::Error::other("the tokio runtime of the run was shut down");
            SaverError::database(format!("cannot store thread `{}` in the background", self.lease.thread), reason)
        })
    }

    /// Waits until all queued records are stored, and releases the lease.
    pub(crate) async fn release(&self) {
        // If this future is dropped, the task is still in `self.writer`, and dropping the committer waits for it.
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
            // If this future is dropped, the record is still in `at_release`, and dropping the committer stores it.
            let last = lock(&self.at_release).clone();
            release(None, last, &self.saver, &self.lease).await;
            self.released.store(true, Ordering::Release);
        }
    }
}

impl Drop for Committer {
    /// Releases the lease of a dropped run. The run may have been dropped while it released the lease.
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

/// Stores queued records in as few commits as possible. When it ends, it drops the saver first, because the caller may
/// want to close the saver.
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
            // Only this task sets the failure, and it ends now.
            let _ = failure.set(error);
            return;
        }
        // The future that waits for the flush may have been dropped.
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
        // The task is cancelled only if the runtime shuts down. Then it cannot write any more.
        let _ = task.await;
    }
    if let Some(last) = last {
        // One commit does both, because a runtime that shuts down polls a dropped run only once.
        match saver.commit_last(lease, vec![last], SideEffects::default()).await {
            Ok(true) => return,
            // A dropped call has released the thread already, or another run has it.
            Ok(false) | Err(SaverError::Superseded { .. }) => {}
            Err(error) => {
                tracing::warn!(thread = %lease.thread, %error, "failed to store the end of an attempt of a detached subagent");
            }
        }
    }
    if let Err(error) = saver.release(lease).await {
        tracing::warn!(thread = %lease.thread, %error, "failed to release the thread's lease: the thread stays locked \
            until the lease expires");
    }
}

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
