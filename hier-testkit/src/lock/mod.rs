//! Lock files: the facts that stored threads of a program depend on, and the changes that break them.
//!
//! [`LockBuilder`] collects the graphs of a program into a [`Lock`], which is written to `graph.lock`. [`compare`] returns the differences
//! between two locks with their verdicts. [`LockReport`] also counts the threads of a database that meet each change. The verdicts are those
//! of the engine: a change *breaks* threads if some thread cannot be resumed, loses work or ends differently.
//!
//! The macro [`lock!`](macro@crate::lock) makes a test of it, which the commands `hier lock` and `hier check` run, too.

mod change;
mod check;
mod compare;
mod covers;
mod meets;
mod model;
mod reach;
mod read;
mod schema;
mod stored;
mod test;
mod write;

pub use change::{Change, Verdict};
pub use check::{LockFinding, LockReport, ThreadPosition, ThreadStatus, ThreadTotals};
pub use compare::{Finding, compare};
pub use model::{
    GraphPath, Lock, LockBuilder, LockedChannel, LockedExits, LockedGraph, LockedInner, LockedJoin, LockedNode,
    LockedQuestion,
};
pub use read::LockError;
#[doc(hidden)]
pub use test::check_program;
pub use test::{LOCK_FILE, LOCK_REQUEST};
