//! The position of a thread between two supersteps, and the transition to the next position. Pure: no runtime, no
//! clock, no I/O, no randomness.

mod breakpoints;
mod changes;
mod frontier;
mod ledger;
mod position;
mod returns;
mod tasks;
// Tests of functions that other crates cannot call.
#[cfg(test)]
#[path = "../../../tests/position/simulation.rs"]
mod simulation;
#[cfg(test)]
#[path = "../../../tests/position/by_hand.rs"]
mod tests;

pub(crate) use breakpoints::Breakpoints;
pub(crate) use changes::Changes;
pub(crate) use ledger::{Applied, StoredChannels, Unstored};
pub(crate) use position::{Last, Position};
pub(crate) use returns::{Returns, UnstoredReturns};
pub(crate) use tasks::StepTasks;
