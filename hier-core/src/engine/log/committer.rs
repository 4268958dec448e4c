//! Commits records to the saver: at once, or in the background.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use futures_core::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::deferred::Deferred;
use super::mailbox::Mailbox;
use super::runtime::{Handle, JoinHandle};
use super::saver::Saver;
use crate::checkpoint::{Delivered, Lease, SaverError, SideEffects, WriteRecord};
use crate::config::Durability;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// How many bytes may wait in the background before the run waits for them. One commit has at most as many, unless one
/// record alone has more.
const ROOM: u32 = 32 << 20;
/// The size of a record without its values, in bytes.
const OVERHEAD: usize = 256;
/// How many jobs are stored as one commit at most.
const GROUP: usize = 4096;
/// How many commits of a run are tried in place before they go to the background: waking a task and being woken by it takes longer
/// than a saver in this process needs for a short commit. A run of many steps stores them as a few commits there.
const IN_PLACE: usize = 2;

/// The saver of a run, and the lease under which it writes. All graphs of the run's tree share it.
pub(crate) struct Committer {
    pub(crate) saver: Saver,
    pub(crate) lease: Lease,
    pub(crate) durability: Durability,
    /// The graph of the run.
    pub(crate) graph: Arc<str>,
    /// Held while signals are looked at and taken.
    pub(crate) mailbox: tokio::sync::Mutex<Mailbox>,
    /// What is changed beside the records at the end of the run, if nothing is stored before.
    held: Mutex<SideEffects>,
    /// What graphs inside keep for then.
    pub(super) deferred: Arc<Deferred>,
    waits: AtomicBool,
    /// Stores in the background, once something has been stored so.
    writer: Mutex<Option<Writer>>,
    /// How many commits were tried in place.
    tried: AtomicUsize,
    /// The bytes that may still wait in the background.
    room: Arc<Semaphore>,
    /// The first error of the background writer.
    failure: Arc<OnceLock<SaverError>>,
    /// Ends what renews the lease meanwhile; false if that is just calling the saver.
    pub(super) stop_renewal: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    released: AtomicBool,
}

/// The task that stores in the background. It ends when nobody can give it jobs any more.
struct Writer {
    /// None once it is to end.
    jobs: Option<mpsc::UnboundedSender<Job>>,
    task: JoinHandle<()>,
}

/// A commit that was begun.
type Begun = BoxFuture<'static, Result<(), SaverError>>;

enum Job {
    /// Goes on with this commit.
    Finish(Begun, OwnedSemaphorePermit),
    /// Stores these records. What they take of the room is given back when they are stored, or dropped.
    Store(Vec<WriteRecord>, OwnedSemaphorePermit),
    /// Acknowledges that everything queued before has been stored.
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
            mailbox: tokio::sync::Mutex::default(),
            held: Mutex::default(),
            deferred,
            waits: AtomicBool::new(false),
            writer: Mutex::default(),
            tried: AtomicUsize::new(0),
            room: Arc::new(Semaphore::new(ROOM as usize)),
            failure: Arc::default(),
            stop_renewal: OnceLock::new(),
            released: AtomicBool::new(false),
        }
    }

    /// Stores these records, now or soon. An error of earlier ones that were stored in the background is found here too.
    pub(crate) async fn commit(&self, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        // A saver in this process is done at once.
        if self.durability == Durability::Async
            && self.saver.leases_expire()
            && let Ok(runtime) = Handle::try_current()
        {
            return self.enqueue(records, &runtime).await;
        }
        self.saver.commit(&self.lease, records).await
    }

    /// Stores these records and changes what stands beside them, whatever the run's durability.
    pub(crate) async fn commit_also(&self, records: Vec<WriteRecord>, also: SideEffects) -> Result<(), SaverError> {
        self.flush().await?;
        self.saver.commit_also(&self.lease, records, also).await
    }

    /// The letters that wait for the thread, but for those that this run takes when it ends.
    pub(crate) async fn mail(&self) -> Result<Vec<Delivered>, SaverError> {
        let mut waiting = self.saver.mail(&self.lease.thread).await?;
        waiting.retain(|posted| !self.deferred.is_reserved(posted.message.id));
        Ok(waiting)
    }

    /// Keeps something that is to be changed with what is stored at the end of the run.
    pub(crate) fn hold(&self, change: impl FnOnce(&mut SideEffects)) {
        change(&mut lock(&self.held));
    }

    /// What was kept for the end of the run.
    pub(crate) fn take_held(&self) -> SideEffects {
        std::mem::take(&mut lock(&self.held))
    }

    /// Notes that something of the thread waits, or has waited, for a time or a signal.
    pub(crate) fn waits(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Whether something of the thread waits, or has waited, for a time or a signal.
    pub(crate) fn has_waited(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Stores these records, and comes back when they are stored, whatever the run's durability.
    pub(crate) async fn commit_now(&self, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        self.flush().await?;
        self.saver.commit(&self.lease, records).await
    }

    /// Stores the last records of the run, whose tasks are all gone, and releases the lease in the same instant, if the saver can and
    /// nothing else is to be said of the thread. A lease that is released must not be renewed.
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
            let mut begun: Begun = Box::pin(async move { saver.commit(&lease, records).await });
            if let Poll::Ready(stored) = poll_fn(|cx| Poll::Ready(begun.as_mut().poll(cx))).await {
                return stored;
            }
            Job::Finish(begun, room)
        } else {
            Job::Store(records, room)
        };
        self.jobs(runtime).and_then(|jobs| jobs.send(job).ok()).ok_or_else(|| self.failed())
    }

    /// Whether the next commit is tried in place: nothing goes on in the background, and few were tried before.
    fn is_in_place(&self) -> bool {
        lock(&self.writer).is_none() && self.tried.fetch_add(1, Ordering::Relaxed) < IN_PLACE
    }

    /// The queue of the writer, which is started if there is none yet.
    fn jobs(&self, runtime: &Handle) -> Option<mpsc::UnboundedSender<Job>> {
        let mut writer = lock(&self.writer);
        let writer = writer.get_or_insert_with(|| {
            let (jobs, queue) = mpsc::unbounded_channel();
            let task = write(queue, self.saver.clone(), self.lease.clone(), self.failure.clone());
            Writer { jobs: Some(jobs), task: runtime.spawn(task) }
        });
        writer.jobs.clone()
    }

    /// Waits until everything is stored.
    pub(crate) async fn flush(&self) -> Result<(), SaverError> {
        let Some(jobs) = lock(&self.writer).as_ref().and_then(|writer| writer.jobs.clone()) else { return Ok(()) };
        let (stored, told) = oneshot::channel();
        // Whatever ends the writer drops what waits in its queue.
        jobs.send(Job::Flush(stored)).map_err(|_| self.failed())?;
        told.await.map_err(|_| self.failed())
    }

    /// Why the writer has ended.
    fn failed(&self) -> SaverError {
        self.failure.get().cloned().unwrap_or_else(|| {
            let reason = std::io::Error::other("the tokio runtime of the run was shut down");
            SaverError::database(format!("storing thread `{}` in the background", self.lease.thread), reason)
        })
    }

    /// Releases the thread's lease, once nothing is being written any more.
    pub(crate) async fn release(&self) {
        // Its task stays in its place until it has ended: if this is dropped meanwhile, dropping the committer waits for it.
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
            release(None, &self.saver, &self.lease).await;
            self.released.store(true, Ordering::Release);
        }
    }
}

impl Drop for Committer {
    /// A run that was dropped, also while it released its lease, releases it too.
    fn drop(&mut self) {
        if self.released.load(Ordering::Acquire) {
            return;
        }
        let (saver, lease, writer) = (self.saver.clone(), self.lease.clone(), lock(&self.writer).take());
        let mut work = Box::pin(async move { release(writer, &saver, &lease).await });
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

/// Stores what waits, and what comes meanwhile, as few commits. The saver is let go before anybody is told of the end: who
/// waits may want to close it.
async fn write(
    mut queue: mpsc::UnboundedReceiver<Job>,
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
                Job::Finish(commit, room) => {
                    begun.push(commit);
                    rooms.push(room);
                }
                Job::Store(mut more, room) => {
                    records.append(&mut more);
                    rooms.push(room);
                }
                Job::Flush(told) => waiting.push(told),
            }
        }
        if let Err(error) = store(begun, records, &saver, &lease).await {
            // Nobody else sets it.
            let _ = failure.set(error);
            return;
        }
        // The receiver may have been dropped.
        for told in waiting {
            let _ = told.send(());
        }
    }
}

/// Ends these commits, then stores these records: what was begun in place was given before what is queued, or beside it.
async fn store(begun: Vec<Begun>, records: Vec<WriteRecord>, saver: &Saver, lease: &Lease) -> Result<(), SaverError> {
    for commit in begun {
        commit.await?;
    }
    if records.is_empty() { Ok(()) } else { saver.commit(lease, records).await }
}

/// Releases a lease once its writer has ended.
async fn release(writer: Option<Writer>, saver: &Saver, lease: &Lease) {
    if let Some(Writer { jobs, task }) = writer {
        drop(jobs);
        // It fails only if the runtime is shut down: then nothing is written any more either.
        let _ = task.await;
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
