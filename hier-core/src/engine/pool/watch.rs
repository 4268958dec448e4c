//! Finds tasks that block their thread while others wait.
//!
//! One thread of the process looks at the running batches every [`TICK`]. If no task of a batch was taken between two
//! looks, and some tasks are left, other threads of the batch's runtime help. The thread sleeps when no batch has run
//! for a while, and wakes when the next batch starts.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::sync::lock;

/// The time between two looks.
const TICK: Duration = Duration::from_micros(500);
/// Number of idle ticks before the thread sleeps.
const IDLE_TICKS: u32 = 200;

pub(crate) trait Watched: Send + Sync {
    fn taken(&self) -> usize;
    /// Lets other threads drive the rest of the queue.
    fn help(self: Arc<Self>);
}

struct WatchEntry {
    batch: Weak<dyn Watched>,
    taken: Option<usize>,
}

#[derive(Default)]
struct Watch {
    entries: Mutex<WatchList>,
    woken: Condvar,
}

#[derive(Default)]
struct WatchList {
    list: Vec<WatchEntry>,
    asleep: bool,
}

/// Watches a batch until it is dropped.
pub(crate) fn add(batch: Weak<dyn Watched>) {
    static WATCH: OnceLock<Option<Arc<Watch>>> = OnceLock::new();
    let watch = WATCH.get_or_init(|| {
        let watch = Arc::new(Watch::default());
        let for_thread = watch.clone();
        // If the thread cannot be spawned, batches still run, but on fewer cores.
        let thread = thread::Builder::new().name("hier-watch".to_owned()).spawn(move || for_thread.watch_batches());
        thread.is_ok().then_some(watch)
    });
    let Some(watch) = watch else { return };
    let mut entries = lock(&watch.entries);
    entries.list.push(WatchEntry { batch, taken: None });
    if entries.asleep {
        entries.asleep = false;
        watch.woken.notify_one();
    }
}

impl Watch {
    fn watch_batches(&self) {
        let mut idle = 0;
        let mut stuck = Vec::new();
        loop {
            thread::sleep(TICK);
            let mut entries = lock(&self.entries);
            entries.list.retain_mut(|entry| look(entry, &mut stuck));
            idle = if entries.list.is_empty() { idle + 1 } else { 0 };
            while idle > IDLE_TICKS && entries.list.is_empty() {
                entries.asleep = true;
                entries = self.woken.wait(entries).unwrap_or_else(PoisonError::into_inner);
            }
            drop(entries);
            for batch in stuck.drain(..) {
                batch.help();
            }
        }
    }
}

/// Looks at a batch. Returns false if the batch has been dropped.
fn look(entry: &mut WatchEntry, stuck: &mut Vec<Arc<dyn Watched>>) -> bool {
    let Some(batch) = entry.batch.upgrade() else { return false };
    let taken = batch.taken();
    if entry.taken.replace(taken) == Some(taken) {
        stuck.push(batch);
    }
    true
}
