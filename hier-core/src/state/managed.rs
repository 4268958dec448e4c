//! Managed values: fields that the engine writes and nobody else can.

use serde::{Deserialize, Serialize};

/// How far a run is, as the engine hands it to the managed fields of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    pub(crate) remaining: usize,
}

impl Steps {
    /// The value of a `RemainingSteps` field.
    pub fn remaining_steps(self) -> RemainingSteps {
        RemainingSteps(self.remaining)
    }

    /// The value of an `IsLastStep` field.
    pub fn is_last_step(self) -> IsLastStep {
        IsLastStep(self.remaining == 1)
    }
}

/// A managed field: how many supersteps the run may still take, this one included, before it fails with
/// `RecursionLimit`.
///
/// The i-th superstep of a run with recursion limit L sees L − i; 1 is the last that can complete (the reference's
/// semantics, LangGraph 1.2 `RemainingSteps`). The engine writes it before each step; an update has no method for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RemainingSteps(usize);

impl RemainingSteps {
    /// The number of supersteps left, this one included.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// A managed field: whether this superstep is the last that the recursion limit allows to complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IsLastStep(bool);

impl IsLastStep {
    /// Whether this is the last superstep.
    pub const fn get(self) -> bool {
        self.0
    }
}
