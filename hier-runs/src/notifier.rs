use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::sync::watch;
use uuid::Uuid;

use super::run::Run;
use hier_checkpoint::sync::{Mutex, lock};

/// A stored change of a thread.
#[derive(Clone, Debug, Default)]
pub struct Notice<'a> {
    /// The id of the thread.
    pub thread: &'a str,
    /// True if a run may have ended or been cancelled. False if there are only new events or runs.
    pub ends: bool,
    /// The stored row of the run that has ended. `None` if no run has ended, or if the sender of the notification does
    /// not have the row.
    pub ended: Option<Run>,
    /// True if there may be a run that a worker can claim.
    pub runs: bool,
}

/// Notifies listeners in this process of runs that can be claimed, and of changed threads. A run store sends a
/// notification after each transaction.
#[derive(Debug)]
pub struct ChangeNotifier {
    runs: watch::Sender<u64>,
    threads: Mutex<FollowedThreads>,
}

/// The threads with listeners, and some whose listeners have gone.
#[derive(Debug, Default)]
struct FollowedThreads {
    by_id: HashMap<Arc<str>, ThreadListeners>,
    /// The number of threads above which those without listeners are removed.
    sweep_above: usize,
}

#[derive(Debug)]
struct ThreadListeners {
    all: watch::Sender<u64>,
    ends: watch::Sender<u64>,
    /// The place of each listener for the last ended run. The references are weak, so that a dropped listener keeps no
    /// run.
    last_ended: Vec<Weak<LastEnded>>,
}

/// The number of threads up to which those without listeners need not be removed.
const MIN_SWEPT: usize = 64;

type LastEnded = Mutex<Option<Arc<Run>>>;

impl ThreadListeners {
    fn new() -> Self {
        Self { all: watch::Sender::new(0), ends: watch::Sender::new(0), last_ended: Vec::new() }
    }

    fn is_heard(&self) -> bool {
        self.all.receiver_count() + self.ends.receiver_count() > 0
    }
}

fn notify(sender: &watch::Sender<u64>) {
    sender.send_modify(|count| *count = count.wrapping_add(1));
}

impl Default for ChangeNotifier {
    fn default() -> Self {
        Self { runs: watch::Sender::new(0), threads: Mutex::default() }
    }
}

impl ChangeNotifier {
    /// Returns a listener for notifications that there may be a run to claim.
    pub fn runs(&self) -> Listener {
        Listener(self.runs.subscribe())
    }

    /// Returns a listener for changes of a thread: its status, runs and events.
    pub fn thread(&self, id: &str) -> Listener {
        self.listen(id, |thread| thread.all.subscribe())
    }

    /// Returns a listener for ended and cancelled runs of a thread.
    pub fn ends(&self, id: &str) -> RunEnds {
        let last = Arc::<LastEnded>::default();
        let changes = self.listen(id, |thread| {
            thread.last_ended.retain(|last_ended| last_ended.strong_count() > 0);
            thread.last_ended.push(Arc::downgrade(&last));
            thread.ends.subscribe()
        });
        RunEnds { changes, last }
    }

    fn listen(&self, id: &str, to: impl FnOnce(&mut ThreadListeners) -> watch::Receiver<u64>) -> Listener {
        let mut threads = lock(&self.threads);
        if let Some(thread) = threads.by_id.get_mut(id) {
            return Listener(to(thread));
        }
        // A thread that never changes again is removed only here.
        if threads.by_id.len() > threads.sweep_above {
            threads.by_id.retain(|_, thread| thread.is_heard());
            threads.sweep_above = (2 * threads.by_id.len()).max(MIN_SWEPT);
        }
        Listener(to(threads.by_id.entry(Arc::from(id)).or_insert_with(ThreadListeners::new)))
    }

    /// Notifies the listeners of [`runs`](Self::runs) that there may be a run to claim.
    pub fn notify_runs(&self) {
        notify(&self.runs);
    }

    /// Notifies all listeners of a thread. Use this method if a run may have ended or been cancelled.
    pub fn notify_thread(&self, id: &str) {
        self.notify_those(id, |thread| {
            notify(&thread.all);
            notify(&thread.ends);
        });
    }

    /// Notifies all listeners of the run's thread that `run` has ended. Listeners of [`ends`](Self::ends) receive the
    /// row of the run, so they need not read it from the store.
    pub fn notify_ended(&self, run: Run) {
        let id = run.thread.clone();
        self.notify_those(&id, |thread| {
            let run = Arc::new(run);
            for last_ended in thread.last_ended.iter().filter_map(Weak::upgrade) {
                *lock(&last_ended) = Some(run.clone());
            }
            notify(&thread.all);
            notify(&thread.ends);
        });
    }

    /// Notifies the listeners of [`thread`](Self::thread) of a change that does not end or cancel a run.
    pub fn notify_events(&self, id: &str) {
        self.notify_those(id, |thread| notify(&thread.all));
    }

    /// Notifies the listeners of the thread in `notice`. If `notice.runs` is true, also notifies the listeners of
    /// [`runs`](Self::runs).
    pub fn announce(&self, notice: Notice<'_>) {
        match notice.ended {
            Some(run) => self.notify_ended(run),
            None if notice.ends => self.notify_thread(notice.thread),
            None => self.notify_events(notice.thread),
        }
        if notice.runs {
            self.notify_runs();
        }
    }

    fn notify_those(&self, id: &str, with: impl FnOnce(&ThreadListeners)) {
        let threads = &mut lock(&self.threads).by_id;
        if let Some(thread) = threads.get(id) {
            if thread.is_heard() {
                with(thread);
            } else {
                threads.remove(id);
            }
        }
    }

    /// Notifies all listeners. A store calls this when notifications of other processes may have been lost.
    pub fn notify_all(&self) {
        self.notify_runs();
        lock(&self.threads).by_id.retain(|_, thread| {
            notify(&thread.all);
            notify(&thread.ends);
            thread.is_heard()
        });
    }
}

/// A listener for notifications. A notification between two calls of [`changed`](Self::changed) is not lost: the second
/// call returns at once.
#[derive(Debug)]
pub struct Listener(watch::Receiver<u64>);

impl Listener {
    /// Waits for a notification. Returns at once if a notification was sent after the last call. For the first call,
    /// all notifications after the creation of the listener count. Cancel safe: no notification is lost.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The store was dropped, so no notification will follow.
            std::future::pending::<()>().await;
        }
    }
}

/// A listener for ended and cancelled runs of a thread.
#[derive(Debug)]
pub struct RunEnds {
    changes: Listener,
    last: Arc<LastEnded>,
}

impl RunEnds {
    /// Waits for a notification. Returns at once if a notification was sent after the last call. For the first call,
    /// all notifications after the creation of the listener count. Cancel safe: no notification is lost.
    pub async fn changed(&mut self) {
        self.changes.changed().await;
    }

    /// Returns the row of this run if it is the last row that the listener has received. Otherwise returns `None`, and
    /// the caller can read the run from the store. The store may already have deleted a run whose row this method
    /// returns.
    pub fn ended(&self, run: Uuid) -> Option<Arc<Run>> {
        lock(&self.last).clone().filter(|last| last.id == run)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::{ChangeNotifier, lock};
    use crate::{NewRun, NewThread, Queue, Request, Run, ThreadRow};

    fn ended() -> Run {
        let now = SystemTime::UNIX_EPOCH;
        let mut queue = Queue::new(ThreadRow::new(NewThread::new("t"), now), Vec::new());
        queue.add(NewRun::new("t", "desk", Request::default()), 1, now).expect("a run")
    }

    #[test]
    fn notifier_forgets_threads_that_nobody_follows() {
        let notifier = ChangeNotifier::default();
        let followed: Vec<_> = (0..100).map(|number| notifier.thread(&format!("followed {number}"))).collect();
        for number in 0..10_000 {
            drop(notifier.thread(&number.to_string()));
            drop(notifier.ends(&number.to_string()));
        }
        let kept = lock(&notifier.threads).by_id.len();
        assert!(kept <= 3 * followed.len(), "{kept} threads");
        for mut listener in followed {
            notifier.notify_all();
            assert!(listener.0.has_changed().expect("the notifier"));
            listener.0.mark_unchanged();
        }
    }

    #[test]
    fn notifier_delivers_ended_run_to_current_listeners() {
        let (notifier, run, other) = (ChangeNotifier::default(), ended(), ended());
        let listening = notifier.ends("t");
        let late = {
            notifier.notify_ended(run.clone());
            notifier.ends("t")
        };
        assert_eq!(listening.ended(run.id).as_deref(), Some(&run));
        assert_eq!(listening.ended(other.id), None, "another run is unknown");
        assert_eq!(late.ended(run.id), None, "it ended before");
        let last_ended = listening.ended(run.id).expect("the run");
        drop(listening);
        assert_eq!(std::sync::Arc::strong_count(&last_ended), 1, "nothing is kept for who has gone");
        notifier.notify_ended(other.clone());
        assert_eq!(late.ended(other.id).as_deref(), Some(&other));
        let again = notifier.ends("t");
        assert_eq!(again.ended(other.id), None);
    }
}
