//! The commands of the program `hier`, as a library.

pub mod graph;
pub mod lock;
pub mod new;
mod progress;
mod project;
pub mod schema;
pub mod studio;
pub mod threads;

pub use project::CargoError;
