//! Durable threads: the contract of savers, and the saver in memory.
//!
//! A *thread* is a conversation or a case: a series of runs over one state. After each superstep the engine hands a
//! [`Checkpoint`] to the saver: what is to run next, and the values of the channels that changed. A step of several tasks
//! also hands over what each task did as soon as it has ended ([`TaskWrites`]), so that it is never done again.
//!
//! A saver stores bytes and knows nothing of states: the engine encodes the values (see [`codec`]). Whoever writes a saver
//! implements [`Checkpointer`] and runs the [`suite`] against it.

pub mod codec;
mod codec_shape;
pub(crate) mod delta;
mod error;
mod lease;
mod memory;
mod query;
mod record;
mod retention;
pub mod suite;

use std::sync::Arc;

pub use futures_core::future::BoxFuture;
use uuid::Uuid;

pub use delta::chain_json;
pub use error::{CodecError, SaverError};
pub use lease::{Claim, Lease, WhenRunning};
pub use memory::MemorySaver;
pub use query::{ListQuery, Listed, Prune, Strategy, ThreadInfo};
pub use record::{
    Agenda, Chain, Checkpoint, JoinRecord, LastRan, PendingWrite, Piece, Record, Saved, Schema, SendRecord, Source,
    TaskWrites, check, slot,
};
pub use retention::{Deletion, Sweeper, is_per_call, sweep_every};

/// What a saver's method returns.
pub type Saving<'a, T> = BoxFuture<'a, Result<T, SaverError>>;

/// Keeps the checkpoints of threads. Object-safe: graphs hold an `Arc<dyn Checkpointer>`.
///
/// A checkpoint is addressed by thread, namespace (of a subgraph; the root's is empty) and id. Ids are UUIDs of version 6:
/// their order is the order of time, and *latest* means the greatest id of the thread and namespace.
///
/// Everything is committed under a [`Lease`]: the proof that its holder was the last to claim the thread.
pub trait Checkpointer: Send + Sync + 'static {
    /// Claims a thread for a run. The thread need not exist. Every claim that succeeds has a greater token than all claims
    /// of the thread before it, also after the thread was deleted.
    fn acquire<'a>(&'a self, thread: &'a str, claim: Claim) -> Saving<'a, Lease>;

    /// Tells that the holder is still alive: the lease runs for another [`Claim::lasts`].
    /// [`SaverError::Superseded`] if somebody else has taken the thread over.
    fn renew<'a>(&'a self, lease: &'a Lease) -> Saving<'a, ()>;

    /// Gives the thread free. Does nothing if somebody else has taken it over.
    fn release<'a>(&'a self, lease: &'a Lease) -> Saving<'a, ()>;

    /// Stores these records: all of them or none, in order, and not before the records of earlier calls. When the future
    /// resolves they survive a crash.
    ///
    /// [`SaverError::Superseded`] if somebody else has taken the thread over; then nothing is stored. A checkpoint with the
    /// id of an existing one replaces it. Of pending writes, a slot from 0 on is written once: a second write of the
    /// same slot of the same task is ignored; a slot below 0 is overwritten.
    fn commit<'a>(&'a self, lease: &'a Lease, records: Vec<Record>) -> Saving<'a, ()>;

    /// The checkpoint with this id, or the latest, with its values and pending writes; none if there is none.
    ///
    /// Pending writes are in the order of (path, task, slot).
    fn get<'a>(&'a self, thread: &'a str, namespace: &'a str, id: Option<Uuid>) -> Saving<'a, Option<Saved>>;

    /// Checkpoints without their values, newest first.
    fn list(&self, query: ListQuery) -> Saving<'_, Vec<Listed>>;

    /// The threads that have a checkpoint, those with the newest first.
    fn threads(&self, limit: Option<usize>) -> Saving<'_, Vec<ThreadInfo>>;

    /// Deletes a thread: checkpoints, values and pending writes of all namespaces. An unknown thread is no error.
    fn delete_thread<'a>(&'a self, thread: &'a str) -> Saving<'a, ()>;

    /// Copies the whole history of a thread, all namespaces and pending writes included, to another, whose own history is
    /// replaced. The source is not touched; an unknown source leaves the target without a history.
    fn copy_thread<'a>(&'a self, from: &'a str, to: &'a str) -> Saving<'a, ()>;

    /// Deletes the checkpoints whose metadata has one of these as `run_id`, in all threads and namespaces, with their
    /// pending writes. Values that other checkpoints still need stay. Unknown ids are no error.
    fn delete_for_runs<'a>(&'a self, runs: &'a [String]) -> Saving<'a, ()>;

    /// Deletes what is no longer wanted, and returns how many checkpoints that were. Every checkpoint that stays can be
    /// read as before; its parent link is cut if the parent is gone.
    fn prune(&self, prune: Prune) -> Saving<'_, u64>;

    /// Deletes the threads whose time to live has passed ([`Claim::time_to_live`]) and that nobody holds, and returns
    /// how many those were.
    fn sweep(&self) -> Saving<'_, u64>;

    /// Whether leases run out by themselves, so that a run that takes long has to renew its own. Not so for a saver that
    /// only this process can see.
    fn leases_expire(&self) -> bool {
        true
    }
}

impl<T: Checkpointer + ?Sized> Checkpointer for Arc<T> {
    fn acquire<'a>(&'a self, thread: &'a str, claim: Claim) -> Saving<'a, Lease> {
        (**self).acquire(thread, claim)
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> Saving<'a, ()> {
        (**self).renew(lease)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Saving<'a, ()> {
        (**self).release(lease)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, records: Vec<Record>) -> Saving<'a, ()> {
        (**self).commit(lease, records)
    }

    fn get<'a>(&'a self, thread: &'a str, namespace: &'a str, id: Option<Uuid>) -> Saving<'a, Option<Saved>> {
        (**self).get(thread, namespace, id)
    }

    fn list(&self, query: ListQuery) -> Saving<'_, Vec<Listed>> {
        (**self).list(query)
    }

    fn threads(&self, limit: Option<usize>) -> Saving<'_, Vec<ThreadInfo>> {
        (**self).threads(limit)
    }

    fn delete_thread<'a>(&'a self, thread: &'a str) -> Saving<'a, ()> {
        (**self).delete_thread(thread)
    }

    fn copy_thread<'a>(&'a self, from: &'a str, to: &'a str) -> Saving<'a, ()> {
        (**self).copy_thread(from, to)
    }

    fn delete_for_runs<'a>(&'a self, runs: &'a [String]) -> Saving<'a, ()> {
        (**self).delete_for_runs(runs)
    }

    fn prune(&self, prune: Prune) -> Saving<'_, u64> {
        (**self).prune(prune)
    }

    fn sweep(&self) -> Saving<'_, u64> {
        (**self).sweep()
    }

    fn leases_expire(&self) -> bool {
        (**self).leases_expire()
    }
}
