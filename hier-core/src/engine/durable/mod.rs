//! Durable runs: what is stored when, and how a thread is taken up again.
//!
//! The way down: the runner hands each step to the [`Journal`], a task hands what it has done to the [`Book`]; both make
//! records and give them to the [`Committer`], which gives them to the saver. The way up: [`load`] reads a checkpoint,
//! [`open`] decides how a run begins.

mod advance;
mod answer;
mod book;
mod check;
mod child;
mod committer;
mod delta;
mod input;
mod journal;
mod level;
mod load;
mod open;
mod pending;
mod resumed;
mod revise;
mod snapshot;
mod upgrade;

pub(crate) use answer::Open;
pub(crate) use book::Book;
pub(crate) use check::{check_input, check_updates};
pub(crate) use child::{begin_child, close_child};
pub(crate) use committer::{Committer, keep_alive};
pub(crate) use journal::Journal;
pub(crate) use level::level_of;
pub(crate) use load::{Known, Reader, load};
pub(crate) use open::open;
pub(crate) use pending::Pending;
pub(crate) use resumed::{Before, Resumed};
pub use revise::StateUpdate;
pub(crate) use revise::revise;
pub use snapshot::{StateSnapshot, TaskSnapshot};
pub(crate) use snapshot::{history, snapshot};
