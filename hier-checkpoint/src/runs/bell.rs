//! Wakes who waits for a change.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::sync::watch;
use uuid::Uuid;

use super::run::Run;
use crate::sync::{Mutex, lock};

/// A change of a thread that was stored.
#[derive(Clone, Debug, Default)]
pub struct Notice<'a> {
    /// The thread.
    pub thread: &'a str,
    /// True if a run may have ended or been cancelled. Otherwise there are only new events and runs.
    pub ends: bool,
    /// The run that has ended, as it is stored now.
    pub ended: Option<Run>,
    /// True if there may be a run to claim.
    pub runs: bool,
}

/// Wakes who waits for runs to claim, or for a thread to change. A store rings it after each transaction.
#[derive(Debug)]
pub struct Bell {
    runs: watch::Sender<u64>,
    threads: Mutex<HashMap<Arc<str>, Thread>>,
}

#[derive(Debug)]
struct Thread {
    all: watch::Sender<u64>,
    ends: watch::Sender<u64>,
    /// The last ended run for each listener. Weak, so that nothing is kept without a listener.
    handed: Vec<Weak<Handed>>,
}

type Handed = Mutex<Option<Arc<Run>>>;

impl Thread {
    fn new() -> Self {
        Self { all: watch::Sender::new(0), ends: watch::Sender::new(0), handed: Vec::new() }
    }

    fn is_heard(&self) -> bool {
        self.all.receiver_count() + self.ends.receiver_count() > 0
    }
}

fn ring(sender: &watch::Sender<u64>) {
    sender.send_modify(|rung| *rung = rung.wrapping_add(1));
}

impl Default for Bell {
    fn default() -> Self {
        Self { runs: watch::Sender::new(0), threads: Mutex::default() }
    }
}

impl Bell {
    /// Listens for runs that may be claimed.
    pub fn runs(&self) -> Listener {
        Listener(self.runs.subscribe())
    }

    /// Listens for a change of a thread: its status, its runs, its events.
    pub fn thread(&self, id: &str) -> Listener {
        self.listen(id, |thread| thread.all.subscribe())
    }

    /// Listens for the ends of the runs of a thread and for those that are to be cancelled, and hears little else.
    pub fn ends(&self, id: &str) -> Ends {
        let last = Arc::<Handed>::default();
        let rung = self.listen(id, |thread| {
            thread.handed.retain(|handed| handed.strong_count() > 0);
            thread.handed.push(Arc::downgrade(&last));
            thread.ends.subscribe()
        });
        Ends { rung, last }
    }

    fn listen(&self, id: &str, to: impl FnOnce(&mut Thread) -> watch::Receiver<u64>) -> Listener {
        let mut threads = lock(&self.threads);
        match threads.get_mut(id) {
            Some(thread) => Listener(to(thread)),
            None => Listener(to(threads.entry(Arc::from(id)).or_insert_with(Thread::new))),
        }
    }

    /// There may be a run to claim.
    pub fn ring_runs(&self) {
        ring(&self.runs);
    }

    /// Something of this thread has changed.
    pub fn ring_thread(&self, id: &str) {
        self.ring_those(id, |thread| {
            ring(&thread.all);
            ring(&thread.ends);
        });
    }

    /// Notifies of a run that has ended, with its row, so that listeners need not read it.
    pub fn ring_ended(&self, run: Run) {
        let id = run.thread.clone();
        self.ring_those(&id, |thread| {
            let run = Arc::new(run);
            for handed in thread.handed.iter().filter_map(Weak::upgrade) {
                *lock(&handed) = Some(run.clone());
            }
            ring(&thread.all);
            ring(&thread.ends);
        });
    }

    /// Something of this thread has changed, and no run of it has ended or is to be cancelled.
    pub fn ring_events(&self, id: &str) {
        self.ring_those(id, |thread| ring(&thread.all));
    }

    /// Wakes the listeners that a change concerns.
    pub fn announce(&self, notice: Notice<'_>) {
        match notice.ended {
            Some(run) => self.ring_ended(run),
            None if notice.ends => self.ring_thread(notice.thread),
            None => self.ring_events(notice.thread),
        }
        if notice.runs {
            self.ring_runs();
        }
    }

    fn ring_those(&self, id: &str, with: impl FnOnce(&Thread)) {
        let mut threads = lock(&self.threads);
        if let Some(thread) = threads.get(id) {
            if thread.is_heard() {
                with(thread);
            } else {
                threads.remove(id);
            }
        }
    }

    /// Notifies all listeners, after notifications of other processes were lost.
    pub fn ring_all(&self) {
        self.ring_runs();
        lock(&self.threads).retain(|_, thread| {
            ring(&thread.all);
            ring(&thread.ends);
            thread.is_heard()
        });
    }
}

/// Waits for a bell. What rings between two waits is not missed.
#[derive(Debug)]
pub struct Listener(watch::Receiver<u64>);

impl Listener {
    /// Resolves once it has rung since it was last heard, or the listener was made. Cancel safe.
    pub async fn rung(&mut self) {
        if self.0.changed().await.is_err() {
            // The bell is gone, and with it the store: nobody rings any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits for the ends of the runs of a thread.
#[derive(Debug)]
pub struct Ends {
    rung: Listener,
    last: Arc<Handed>,
}

impl Ends {
    /// Resolves once it has rung since it was last heard, or the listener was made. Cancel safe.
    pub async fn rung(&mut self) {
        self.rung.rung().await;
    }

    /// Returns the row of this run if it was the last to end since the listener was created, and the store sent the row.
    /// The run may have been deleted since.
    pub fn ended(&self, run: Uuid) -> Option<Arc<Run>> {
        lock(&self.last).clone().filter(|last| last.id == run)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::Bell;
    use crate::runs::{NewRun, NewThread, Queue, Request, Run, ThreadRow};

    fn ended() -> Run {
        let now = SystemTime::UNIX_EPOCH;
        let mut queue = Queue::new(ThreadRow::new(NewThread::new("t"), now), Vec::new());
        queue.add(NewRun::new("t", "desk", Request::default()), 1, now).expect("a run")
    }

    #[test]
    fn who_listens_to_ends_is_handed_the_run_that_ended_and_nobody_keeps_it() {
        let (bell, run, other) = (Bell::default(), ended(), ended());
        let listening = bell.ends("t");
        let late = {
            bell.ring_ended(run.clone());
            bell.ends("t")
        };
        assert_eq!(listening.ended(run.id).as_deref(), Some(&run));
        assert_eq!(listening.ended(other.id), None, "of another run nothing is known");
        assert_eq!(late.ended(run.id), None, "it ended before");
        let handed = listening.ended(run.id).expect("the run");
        drop(listening);
        assert_eq!(std::sync::Arc::strong_count(&handed), 1, "nothing is kept for who has gone");
        bell.ring_ended(other.clone());
        assert_eq!(late.ended(other.id).as_deref(), Some(&other));
        let again = bell.ends("t");
        assert_eq!(again.ended(other.id), None);
    }
}
