//! Lock files: descriptions of a program's graphs, to find changes that break stored threads.
//!
//! The macro [`lock!`](macro@crate::lock) makes a test of it, which the commands `hier lock` and `hier check` also run.
//!
//! A [`LockBuilder`] collects the graphs of a program in a [`Lock`], which is written to `graph.lock`. [`compare`]
//! returns the differences between two locks, each with a [`Verdict`]. A change *breaks* threads if a thread cannot be
//! resumed, loses work or ends differently. [`LockReport`] also counts the threads of a database that each change
//! affects.

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
