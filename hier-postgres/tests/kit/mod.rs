//! Checkpoints and servers to test with.
#![allow(dead_code, unused_imports, reason = "each test uses a part")]

#[path = "../../../hier-sqlite/tests/kit/mod.rs"]
mod checkpoints;
pub(crate) mod pooler;
pub(crate) mod proxied;
pub(crate) mod server;

pub(crate) use checkpoints::{new_id, next, write};
