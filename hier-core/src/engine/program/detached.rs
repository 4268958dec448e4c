//! Background runs that continue after the run that started them.

use serde_json::Value;

use super::{BackgroundEnd, Task};
use crate::error::NodeError;
use crate::question::Question;
use crate::state::Values;

/// The background runs of a graph that continue after the run that started them. The state of the graph has a record of
/// each until a later run has collected its result.
pub trait DetachedRuns<S: Values, C>: Send + Sync {
    /// Returns the names of the runs in a state that are not collected.
    fn names(&self, state: &S) -> Vec<String>;

    /// Starts or continues a run, as a task of a graph in that state.
    ///
    /// # Errors
    ///
    /// Fails without a tokio runtime.
    fn start(&self, task: &Task<S, C>, name: &str) -> Result<(), NodeError>;

    /// Describes the end of a run.
    fn end(&self, end: &BackgroundEnd) -> DetachedEnd;
}

/// The end of a detached run in this process.
#[derive(Debug)]
pub enum DetachedEnd {
    /// It has ended. The value describes the result.
    Ended(Value),
    /// It waits for answers.
    Asks(Vec<Question>),
    /// It was stopped.
    Stopped,
    /// Another run drives it.
    Elsewhere,
    /// Its thread could not be read or written.
    Unstored(NodeError),
}
