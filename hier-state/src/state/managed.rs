//! Managed values: fields that only the engine writes.

use serde::{Deserialize, Serialize};

/// The progress of a run, from which the engine computes the managed fields of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    #[doc(hidden)]
    pub remaining: usize,
}

impl Steps {
    /// Returns the value of a [`RemainingSteps`] field.
    pub fn remaining_steps(self) -> RemainingSteps {
        RemainingSteps(self.remaining)
    }

    /// Returns the value of an [`IsLastStep`] field.
    pub fn is_last_step(self) -> IsLastStep {
        IsLastStep(self.remaining == 1)
    }
}

/// A managed field: the number of supersteps, including this one, before the run fails with
/// [`RunError::RecursionLimit`](crate::error::RunError::RecursionLimit).
///
/// The i-th superstep of a run with recursion limit L reads L − i. The last superstep that can complete reads 1, as in LangGraph. The
/// engine writes the field before each step, and updates cannot write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RemainingSteps(usize);

impl RemainingSteps {
    /// Returns the number of remaining supersteps, including this one.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// A managed field: true in the last superstep that the recursion limit allows to complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IsLastStep(bool);

impl IsLastStep {
    /// Returns true in the last superstep.
    pub const fn get(self) -> bool {
        self.0
    }
}
