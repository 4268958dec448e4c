use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{Checkpoints, Payload, Program, Run, SendArg, TaskKey};
use crate::channel::ChannelSpec;
use crate::error::NodeError;
use crate::state::Values;

/// One execution of a node in a superstep. In a graph that is built at run time, a node takes its task as its argument.
pub struct Task<S: Values, C = ()> {
    pub(crate) graph: Arc<Program<S, C>>,
    pub(crate) state: Arc<S>,
    pub(crate) run: Run<C>,
    pub(crate) arg: Option<SendArg>,
    pub(crate) failure: Option<Box<Failure>>,
}

clone_fields!([S: Values, C] Task<S, C> { graph, state, run, arg, failure });

impl<S: Values, C> fmt::Debug for Task<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("run", &self.run).field("sent", &self.was_sent()).finish_non_exhaustive()
    }
}

impl<S: Values, C> Task<S, C> {
    /// Returns another task of the same superstep.
    pub(crate) fn sibling(&self, key: TaskKey, arg: Option<SendArg>) -> Self {
        let Run { shared, remaining, base, .. } = &self.run;
        let run = Run { remaining: *remaining, base: *base, ..Run::of_task(shared.clone(), key) };
        Self { graph: self.graph.clone(), state: self.state.clone(), run, arg, failure: None }
    }

    /// Returns the state as it was before the superstep of this task.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Returns a shared pointer to the state, for code that outlives the task.
    #[doc(hidden)]
    pub fn shared_state(&self) -> &Arc<S> {
        &self.state
    }

    /// Returns the data that the graph may read and send, according to the trust labels of its tools.
    #[doc(hidden)]
    pub fn trust(&self) -> hier_spec::trust::GraphTrust {
        self.graph.trust
    }

    /// Returns the specs of the channels of the graph's state.
    #[doc(hidden)]
    pub fn channels(&self) -> &Arc<[ChannelSpec]> {
        &self.graph.channels
    }

    /// Returns the run of the task.
    pub fn run(&self) -> &Run<C> {
        &self.run
    }

    pub(crate) fn subgraph_checkpoints(&self) -> Checkpoints {
        self.graph.nodes[self.run.key.node].checkpoints
    }

    /// Returns true if another run will continue the task and report its end.
    pub(crate) fn is_paused(&self) -> bool {
        self.run.shared.config.step_policy.as_ref().is_some_and(|policy| policy.is_paused())
    }

    /// Returns true if a Send started the task.
    pub fn was_sent(&self) -> bool {
        self.arg.is_some()
    }

    /// Returns the payload of the Send that started the task.
    ///
    /// # Errors
    ///
    /// Fails if no Send started the task, or if the payload has another type.
    pub fn sent<T: Payload>(&self) -> Result<T, NodeError> {
        let Some(arg) = &self.arg else {
            return Err(NodeError::permanent(format!(
                "the node takes a `{}`, but a plain edge or a goto led to it: use a Send",
                type_name::<T>()
            )));
        };
        arg.to_payload()
    }

    /// Returns the payload of the Send that started the task, as JSON. Returns `None` if no Send started the task.
    ///
    /// # Errors
    ///
    /// Fails if the payload cannot be converted to JSON.
    pub fn sent_json(&self) -> Result<Option<Value>, NodeError> {
        Ok(self.arg.as_ref().map(super::SendArg::to_json).transpose()?)
    }

    /// Returns the failed node and its error, if this task runs an `on_error` handler. Returns `None` if this task runs
    /// a node.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.as_deref().cloned()
    }
}

/// A failed node and its error, as the argument of an `on_error` handler.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The node that failed.
    pub node: String,
    /// The error of the last attempt.
    pub error: NodeError,
}
