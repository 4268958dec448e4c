//! Tools for testing graphs.

mod replay;
mod session;
mod types;
