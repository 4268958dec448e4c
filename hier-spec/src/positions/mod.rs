//! The positions that a thread can have in its graph between two supersteps.
//!
//! [`StepModel`] is an abstract model of the engine's position: it has the triggers of nodes and no values. Everything
//! that depends on values is a choice: the arm of a route, the targets of a command, and zero, one or several items of a
//! Send. [`Positions`] are the positions that these choices can reach.
//!
//! A node that runs without choices has one outcome, so most graphs have few positions. [`Positions::explore`] limits
//! the number of its operations, and not its time. It therefore gives the same result on every machine.

mod choices;
mod explore;
mod intended;
mod model;
mod sets;
mod ways;

pub(crate) use choices::Choices;
pub(crate) use explore::Companions;
pub use explore::Positions;
pub use model::{JoinMarks, Position, StepModel};
pub(crate) use ways::Budget;
