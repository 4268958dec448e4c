//! The allowed imports. The table is in `table.rs`, the test of the workspace in `layers.rs`.

pub mod changes;
pub mod language;
mod resolve;
mod source;
pub mod surface;
mod table;

pub use resolve::{Knot, Upward, Workspace};
pub use source::File;
pub use table::{KNOTS, KnownKnot, Order, TABLE};
