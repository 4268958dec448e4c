//! Typed states, the questions of nodes, and errors.
//!
//! `hier-core` re-exports everything in this crate. Use that crate, or the facade `hier`.

pub mod command;
pub mod error;
pub mod question;
pub mod state;

use hier_checkpoint::{channel, checkpoint, message, panics, reducer};
