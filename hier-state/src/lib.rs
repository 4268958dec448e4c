//! The values that graphs of hier work on: typed states, the questions of nodes, and errors.
//!
//! `hier-core` exports everything of this crate. Programs use it, or the facade `hier`.

pub mod error;
pub mod question;
pub mod state;

use hier_checkpoint::{channel, checkpoint, message, panics, reducer};
