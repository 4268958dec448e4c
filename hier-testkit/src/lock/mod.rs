//! Lock files. A lock file describes the graphs of a program, so that hier finds changes that break stored threads.
//!
//! The macro [`lock!`](macro@crate::lock) makes a test that compares a program with its lock file, `graph.lock`. The
//! commands `hier lock` and `hier check` run this test, too.
//!
//! A [`LockBuilder`] collects the graphs of a program in a [`Lock`], which contains the same facts as the file.
//! [`compare`] returns the changes between two locks, each with a [`Verdict`]. A change *breaks* a thread if the new
//! program cannot resume the thread, loses its work or ends it differently. [`LockReport`] also counts the threads of a
//! database that each change breaks.

mod alternatives;
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
