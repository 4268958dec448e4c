use hier_core::{NodeError, NodeErrorKind};

/// The handling of errors that tools return. This setting does not affect invalid arguments and panics. For invalid
/// arguments, the model always receives a description. A panic always fails the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolErrors {
    /// The run fails.
    #[default]
    Raise,
    /// The model receives the error as the result of the call.
    Tell,
}

impl ToolErrors {
    /// Returns the text for the model, or `None` if the run fails.
    pub(crate) fn text_for_model(self, error: &NodeError) -> Option<String> {
        let is_reported = self == Self::Tell && !matches!(error.kind(), NodeErrorKind::Panic(_));
        is_reported.then(|| error.to_string())
    }
}
