//! Durable threads: the contract of savers, and the saver in memory.
//!
//! A *thread* is a conversation or a case: a series of runs over one state. After each superstep the engine hands a
//! [`Checkpoint`] to the saver: what is to run next, and the values of the channels that changed. A step of several tasks
//! also hands over what each task did as soon as it has ended ([`TaskWrites`]), so that it is never done again.
//!
//! A saver stores bytes and knows nothing of states: the engine encodes the values (see [`codec`]). Whoever writes a saver
//! implements [`Checkpointer`] and runs the suite of `hier-testkit` against it.

mod calls;
pub mod codec;
mod conversations;
#[doc(hidden)]
pub mod delta;
mod error;
mod lease;
mod limits;
mod mail;
mod memory;
mod names;
mod query;
mod record;
mod retention;
#[doc(hidden)]
pub mod scratch;

use std::sync::Arc;

use async_trait::async_trait;
pub use futures_core::future::BoxFuture;
use uuid::Uuid;

#[doc(hidden)]
pub use calls::saver_calls;
pub use conversations::Conversations;
#[doc(hidden)]
pub use conversations::{Conversation, Since};
pub use delta::chain_json;
pub use error::{CodecError, SaverError};
pub use lease::{Claim, Lease, WhenRunning};
pub use limits::{LONGEST_NAME, check_thread, name_bytes};
pub use mail::{Also, DueChange, DueQuery, DueThread, LETTER_OVERHEAD, Letter, MAILBOX_BYTES, Posted, discard};
pub use memory::MemorySaver;
pub use names::Names;
pub use query::{ListQuery, Listed, Prune, Strategy, ThreadInfo};
pub use record::{
    Agenda, AnswerRecord, Chain, Checkpoint, JoinRecord, Kept, LastRan, PendingWrite, Piece, Record, Saved, Schema,
    SendRecord, Source, TaskWrites, builds_on, builds_only_on, check, slot,
};
pub use retention::{Deletion, Sweeper, is_per_call, sweep_every};

/// Keeps the checkpoints of threads. Object-safe: graphs hold an `Arc<dyn Checkpointer>`.
///
/// A checkpoint is addressed by thread, namespace (of a subgraph; the root's is empty) and id. Ids are UUIDs of version 6:
/// their order is the order of time, and *latest* means the greatest id of the thread and namespace.
///
/// Everything is committed under a [`Lease`]: the proof that its holder was the last to claim the thread.
///
/// A saver implements leases, commits, reads and the deletion of a thread. The other methods have a default that does without: copies,
/// pruning, deletion of runs, mailboxes, timers, the cache of conversations.
///
/// The trait is written with [`async_trait`](crate::async_trait), and so is an implementation. A call counts from when its
/// future is first polled: where the order of calls matters, it is the order of those polls.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no saver of threads",
    label = "no saver",
    note = "savers are `MemorySaver::new()`, `Sqlite::open(…).await?`, `Postgres::connect(…).await?`, and an `Arc` of one: one that is \
            still to be opened is awaited first"
)]
#[async_trait]
pub trait Checkpointer: Send + Sync + 'static {
    /// Claims a thread for a run. The thread need not exist. Every successful claim has a greater token than all earlier claims of the
    /// thread, even after the thread was deleted. Returns [`SaverError::Invalid`] for a name that [`check_thread`] rejects.
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError>;

    /// Renews the lease for another [`Claim::lasts`].
    /// [`SaverError::Superseded`] if somebody else has taken the thread over.
    async fn renew(&self, lease: &Lease) -> Result<(), SaverError>;

    /// Releases the thread; a no-op if another holder has taken it over.
    async fn release(&self, lease: &Lease) -> Result<(), SaverError>;

    /// Stores these records: all of them or none, in order, and not before the records of earlier calls. When the future
    /// resolves they survive a crash.
    ///
    /// [`SaverError::Superseded`] if somebody else has taken the thread over; [`SaverError::Gone`] if a checkpoint names a
    /// version of a channel, or a piece of it a base, that is neither stored in its namespace nor brought by an earlier record
    /// (see [`builds_on`]): it was deleted while a run went on from it. Then nothing is stored. A checkpoint with the
    /// id of an existing one replaces it. Of pending writes, a slot from 0 on is written once: a second write of the
    /// same slot of the same task is ignored; a slot below 0 is overwritten.
    async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError>;

    /// The checkpoint with this id, or the latest, with its values and pending writes; none if there is none.
    ///
    /// Pending writes are in the order of (path, task, slot).
    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError>;

    /// As [`Self::get`]; the values of which the caller has the very version may be left out. `known` are names of channels with
    /// their versions.
    ///
    /// A saver that does not implement this leaves nothing out.
    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError> {
        let _ = known;
        self.get(thread, namespace, id).await
    }

    /// Checkpoints without their values, newest first.
    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError>;

    /// The threads that have a checkpoint, those with the newest first.
    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError>;

    /// Deletes a thread: checkpoints, values and pending writes of all namespaces. An unknown thread is no error.
    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError>;

    /// Copies the whole history of a thread to another thread and replaces its history. The copy includes all namespaces and pending
    /// writes. The source is not changed. If the source is unknown, the target has no history afterwards. The copy is due at the same
    /// time as the source. The mailbox of the source is not copied.
    ///
    /// Defaults to an error: the saver does not copy threads.
    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError> {
        let _ = (from, to);
        Err(SaverError::not_supported("copies of threads"))
    }

    /// Deletes the checkpoints whose metadata has one of these as `run_id`, in all threads and namespaces, with their
    /// pending writes. Values that other checkpoints still need stay. Unknown ids are no error.
    ///
    /// Defaults to an error: the saver deletes whole threads only.
    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        let _ = runs;
        Err(SaverError::not_supported("the deletion of runs"))
    }

    /// Deletes what is no longer wanted, and returns how many checkpoints that were. Every checkpoint that stays can be
    /// read as before; its parent link is cut if the parent is gone.
    ///
    /// Defaults to an error: the saver deletes whole threads only.
    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        let _ = prune;
        Err(SaverError::not_supported("pruning"))
    }

    /// Deletes the threads whose time to live has passed ([`Claim::time_to_live`]) and that nobody holds, and returns
    /// how many those were.
    ///
    /// Defaults to none: the threads of the saver live until they are deleted.
    async fn sweep(&self) -> Result<u64, SaverError> {
        Ok(0)
    }

    /// As [`Self::commit`], and changes beside the records what `also` says: all of it or nothing.
    ///
    /// [`SaverError::Invalid`] if one of the letters that are taken is not in the thread's mailbox.
    ///
    /// A saver that does not implement this commits what has nothing beside its records, and refuses the rest: its threads have no
    /// timers, no signals and no inbox.
    async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
        if also.is_empty() {
            self.commit(lease, records).await
        } else {
            Err(SaverError::not_supported("timers and mailboxes"))
        }
    }

    /// As [`Self::commit_also`], for the last commit of a run: says whether the lease was released in the same instant, as by
    /// [`Self::release`]. If it fails, the lease is held as before.
    ///
    /// A saver that does not implement this releases nothing here.
    async fn commit_last(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<bool, SaverError> {
        self.commit_also(lease, records, also).await.map(|()| false)
    }

    /// Puts a letter into the mailbox of a thread. The thread need not exist, and may be leased. Returns true if the letter is new: a
    /// letter with an id that was sent to the thread before changes nothing, even if the earlier letter was taken. Once the future
    /// resolves, the letter survives a crash. A signal makes the thread due at once: for this graph, if it is not due for another.
    ///
    /// Returns [`SaverError::MailboxFull`] if it would hold more than [`MAILBOX_BYTES`].
    async fn post(&self, thread: &str, graph: &str, letter: Letter) -> Result<bool, SaverError> {
        let _ = (thread, graph, letter);
        Err(SaverError::not_supported("mailboxes"))
    }

    /// The letters that wait in the mailbox of a thread, in the order in which they were posted. A mailbox goes with its thread
    /// when that is deleted, and is not copied.
    async fn mail(&self, thread: &str) -> Result<Vec<Posted>, SaverError> {
        let _ = thread;
        Ok(Vec::new())
    }

    /// The threads that are due, longest first, found by an index; those that are due since the same time by their names. Whoever
    /// goes through many asks page by page ([`DueQuery::after`]).
    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        let _ = query;
        Ok(Vec::new())
    }

    /// Whether leases run out by themselves, so that a run that takes long has to renew its own. Not so for a saver that
    /// only this process can see.
    fn leases_expire(&self) -> bool {
        true
    }

    /// Where the engine keeps conversations from run to run, if it may. Who has one implements [`Self::get_changed`], or nothing is
    /// saved, and [forgets](Conversations::forget) what is deleted here: after it is deleted, before the call ends.
    fn conversations(&self) -> Option<&Conversations> {
        None
    }
}

/// Passes calls on to what an `Arc` holds. Written as `async_trait` writes them, since an `async fn` would put the future
/// that the saver has boxed already into a box of its own.
macro_rules! forward {
    ($($method:ident $(<$($lifetime:lifetime),+>)? ($($argument:ident: $type:ty),*) -> $output:ty;)+) => {$(
        fn $method<'life0, $($($lifetime,)+)? 'async_trait>(
            &'life0 self,
            $($argument: $type),*
        ) -> BoxFuture<'async_trait, Result<$output, SaverError>>
        where
            'life0: 'async_trait,
            $($($lifetime: 'async_trait,)+)?
            Self: 'async_trait,
        {
            (**self).$method($($argument),*)
        }
    )+};
}

#[deny(clippy::missing_trait_methods, reason = "each call is passed on")]
impl<T: Checkpointer + ?Sized> Checkpointer for Arc<T> {
    forward! {
        acquire<'life1>(thread: &'life1 str, claim: Claim) -> Lease;
        renew<'life1>(lease: &'life1 Lease) -> ();
        release<'life1>(lease: &'life1 Lease) -> ();
        commit<'life1>(lease: &'life1 Lease, records: Vec<Record>) -> ();
        get<'life1, 'life2>(thread: &'life1 str, namespace: &'life2 str, id: Option<Uuid>) -> Option<Saved>;
        get_changed<'life1, 'life2, 'life3>(
            thread: &'life1 str, namespace: &'life2 str, id: Option<Uuid>, known: &'life3 [(Arc<str>, Uuid)]
        ) -> Option<Saved>;
        list(query: ListQuery) -> Vec<Listed>;
        threads(limit: Option<usize>) -> Vec<ThreadInfo>;
        delete_thread<'life1>(thread: &'life1 str) -> ();
        copy_thread<'life1, 'life2>(from: &'life1 str, to: &'life2 str) -> ();
        delete_for_runs<'life1>(runs: &'life1 [String]) -> ();
        prune(prune: Prune) -> u64;
        sweep() -> u64;
        commit_also<'life1>(lease: &'life1 Lease, records: Vec<Record>, also: Also) -> ();
        commit_last<'life1>(lease: &'life1 Lease, records: Vec<Record>, also: Also) -> bool;
        post<'life1, 'life2>(thread: &'life1 str, graph: &'life2 str, letter: Letter) -> bool;
        mail<'life1>(thread: &'life1 str) -> Vec<Posted>;
        due(query: DueQuery) -> Vec<DueThread>;
    }

    fn leases_expire(&self) -> bool {
        (**self).leases_expire()
    }

    fn conversations(&self) -> Option<&Conversations> {
        (**self).conversations()
    }
}
