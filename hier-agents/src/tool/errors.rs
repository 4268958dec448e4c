//! What becomes of a tool that fails.

use hier_core::{NodeError, NodeErrorKind};

/// What becomes of a tool that fails. Arguments that do not fit are told to the model in any case; a tool that panics fails the
/// run in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolErrors {
    /// The run fails.
    #[default]
    Raise,
    /// The model is told.
    Tell,
}

impl ToolErrors {
    /// What the model is told of this error; none if the run fails.
    pub(crate) fn told(self, error: &NodeError) -> Option<String> {
        let is_told = self == Self::Tell && !matches!(error.kind(), NodeErrorKind::Panic(_));
        is_told.then(|| error.to_string())
    }
}
