//! What may import what. The table is in `table.rs`; the test that holds the workspace to it is `layers.rs`.

pub mod changes;
pub mod language;
mod resolve;
mod source;
pub mod surface;
mod table;

pub use resolve::{Knot, Upward, Workspace};
pub use source::File;
pub use table::{KNOTS, KnownKnot, Order, TABLE};
