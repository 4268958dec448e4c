//! Managed fields: fields of a state that only the engine writes.

use std::marker::PhantomData;

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

/// The type of a managed field that contains the number of supersteps that remain until the run must have finished,
/// including the current superstep. The engine sets the field before each superstep. If the graph has not finished
/// after the superstep with the value 1, the run fails with
/// [`RunError::RecursionLimit`](crate::error::RunError::RecursionLimit).
///
/// As in LangGraph, the value in the i-th superstep of a run with a new input and the recursion limit L is L − i. The
/// nodes of the L-th superstep, with the value 0, still run before the run fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RemainingSteps(usize);

impl RemainingSteps {
    /// Returns the number of supersteps that remain, including the current superstep.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// The type of a managed field that is true if the run must finish in the current superstep to stay within the
/// recursion limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IsLastStep(bool);

impl IsLastStep {
    /// Returns true if the run must finish in the current superstep.
    pub const fn get(self) -> bool {
        self.0
    }
}

/// A stand-in for the type `T`. If `T` is a managed type, its constant is defined here. Otherwise, the constant is that
/// of [`Unmanaged`].
#[doc(hidden)]
#[derive(Debug)]
pub struct ManagedType<T>(PhantomData<T>);

impl ManagedType<RemainingSteps> {
    pub const IS_MANAGED: bool = true;
}

impl ManagedType<IsLastStep> {
    pub const IS_MANAGED: bool = true;
}

/// The fallback of [`ManagedType`] for all other types.
#[doc(hidden)]
pub trait Unmanaged {
    const IS_MANAGED: bool = false;
}

impl<T> Unmanaged for ManagedType<T> {}
