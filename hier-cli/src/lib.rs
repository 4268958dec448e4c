//! The commands of `hier`, as a library.

pub mod graph;
pub mod new;
mod progress;
pub mod schema;
pub mod studio;
pub mod threads;
