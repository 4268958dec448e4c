//! A state with a log.

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Trace {
    #[reducer(append)]
    pub(crate) log: Vec<String>,
}

/// Returns an update that adds a line to the list.
#[allow(clippy::needless_pass_by_value)] // shorter where it is called
pub(crate) fn says(text: impl ToString) -> TraceUpdate {
    Trace::update().log([text.to_string()])
}
