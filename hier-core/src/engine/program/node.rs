use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;

use super::{Cache, Checkpoints, Child, InputKey, Output, Retry, Task, TellsApart};
use crate::error::NodeError;
use crate::state::{Reads, Values};

/// The result of a node: its output or its error.
pub type NodeResult<S> = std::result::Result<Output<S>, NodeError>;

pub(crate) type Body<S, C> = Arc<dyn for<'a> Fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>> + Send + Sync>;

/// Computes the cache key of a task.
pub(crate) type CacheKeyOf<S, C> = Arc<dyn Fn(&Task<S, C>) -> Result<InputKey, NodeError> + Send + Sync>;

/// Converts a closure to the code of a node. The argument of the closure is the task.
pub fn body<S: Values, C>(
    code: impl for<'a> Fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>> + Send + Sync + 'static,
) -> Body<S, C> {
    Arc::new(code)
}

/// The function of a node, and the options of the node.
#[must_use]
pub struct NodeDef<S: Values, C = ()> {
    pub(crate) body: Body<S, C>,
    pub(crate) child: Option<Child<S, C>>,
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) cache: Option<Cache>,
    /// Computes the cache key of a task. Defaults to a hash of the inputs that the node reads.
    pub(crate) cache_key: Option<CacheKeyOf<S, C>>,
    pub(crate) reads: &'static [Reads],
    pub(crate) on_error: Option<Body<S, C>>,
    pub(crate) checkpoints: Checkpoints,
    /// True if the node has no options, so that a task only calls its code.
    pub(crate) bare: bool,
}

clone_fields! {
    [S: Values, C] NodeDef<S, C> {
        body, child, retry, timeout, idle_timeout, cache, cache_key, reads, on_error, checkpoints, bare,
    }
}

impl<S: Values, C> fmt::Debug for NodeDef<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeDef")
            .field("graph", &self.child.is_some())
            .field("retry", &self.retry)
            .field("timeout", &self.timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("cache", &self.cache)
            .field("cache_key", &self.cache_key.is_some())
            .field("on_error", &self.on_error.is_some())
            .finish_non_exhaustive()
    }
}

impl<S: Values, C: 'static> NodeDef<S, C> {
    /// Creates a node from `body`, the function that runs the node. `child` is the subgraph of the node, or `None` for
    /// a node without a subgraph. Code that `graph!` generates calls this function.
    #[doc(hidden)]
    pub fn new(body: for<'a> fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>, child: Option<Child<S, C>>) -> Self {
        Self::from_body(Arc::new(body), child)
    }

    /// Creates a node from `body`, the code that runs the node. `child` is the subgraph of the node, or `None` for a
    /// node without a subgraph.
    #[doc(hidden)]
    pub fn from_body(body: Body<S, C>, child: Option<Child<S, C>>) -> Self {
        Self {
            body,
            child,
            retry: None,
            timeout: None,
            idle_timeout: None,
            cache: None,
            cache_key: None,
            reads: &[Reads::Input],
            on_error: None,
            checkpoints: Checkpoints::default(),
            bare: true,
        }
    }

    /// Retries the node after a [transient](crate::NodeError::is_transient) error. The argument is a [`Retry`] policy,
    /// or the number of attempts with the default waits. A node without this option has a single attempt.
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.retry = Some(retry.into());
        self.bare = false;
        self
    }

    /// Limits the duration of each attempt. An attempt that exceeds the limit fails with a transient error, so a node
    /// with [`retry`](Self::retry) runs again. Defaults to no limit.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self.bare = false;
        self
    }

    /// Limits how long an attempt may go on without a sign of progress. An attempt that exceeds the limit fails, as with
    /// [`timeout`](Self::timeout). Signs of progress are calls of [`Run::heartbeat`](crate::Run::heartbeat) and
    /// [`Run::emit`](crate::Run::emit), the start of a model request, each part of a streamed model reply, and each
    /// superstep of a subgraph. Defaults to no limit.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = Some(limit);
        self.bare = false;
        self
    }

    /// Sets the way in which checkpoints store the state of the node's subgraph. Has no effect on a node without a
    /// subgraph. In a [`GraphBuilder`](crate::graph::GraphBuilder), call
    /// [`GraphBuilder::checkpoints`](crate::graph::GraphBuilder::checkpoints) instead.
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = checkpoints;
        self
    }

    /// Caches the results of the node. If a later task has an equal input, the engine reuses the result and does not
    /// run the node. See [`Cache`] for the inputs that count.
    pub fn cache(mut self, cache: impl Into<Cache>) -> Self {
        self.cache = Some(cache.into());
        self.bare = false;
        self
    }

    /// Sets the function that returns the [cache](Self::cache) key of a task. Tasks with equal keys share a result. An
    /// error of the function fails the node. Has no effect without `cache`.
    ///
    /// By default, the engine does not cache a result if the node read the context or the configuration of the run. If
    /// the function `key` also reads the context or the configuration, the engine caches such results.
    ///
    /// ```
    /// use std::time::Duration;
    /// use hier_core::prelude::*;
    /// use hier_core::graph::{GraphBuilder, Task};
    /// use hier_core::graph::NodeDef;
    ///
    /// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// struct Case {
    ///     question: String,
    ///     asked_at: u64,
    ///     answer: String,
    /// }
    ///
    /// let answer = NodeDef::<Case>::task(async |task: Task<Case>| {
    ///     Case::update().answer(format!("about {}", task.state().question))
    /// });
    /// let answer = answer.cache(Duration::from_mins(1)).cache_key(|task| task.state().question.to_lowercase());
    /// let graph = GraphBuilder::<Case>::new("desk").node("answer", answer).edge(START, "answer").edge("answer", END);
    /// # graph.compile().unwrap();
    /// ```
    pub fn cache_key<K: TellsApart>(mut self, key: impl Fn(&Task<S, C>) -> K + Send + Sync + 'static) -> Self {
        self.cache_key = Some(Arc::new(move |task| key(task).input_key()));
        self
    }

    /// Sets the function that returns the hash of a task's cache key. Code that `graph!` generates calls this method.
    #[doc(hidden)]
    pub fn keyed(mut self, key: for<'a> fn(&'a Task<S, C>) -> Result<InputKey, NodeError>) -> Self {
        self.cache_key = Some(Arc::new(key));
        self
    }

    /// Sets the parts of the input that the node's arguments read, one for each argument. The default cache key
    /// contains these parts. Code that `graph!` generates calls this method.
    #[doc(hidden)]
    pub fn reads(mut self, reads: &'static [Reads]) -> Self {
        self.reads = reads;
        self
    }

    /// Sets the code that runs when the last attempt of the node has failed. Its output replaces the node's output, and
    /// the node's edges are not followed. Code that `graph!` generates calls this method.
    #[doc(hidden)]
    pub fn error_handler(mut self, handler: for<'a> fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>) -> Self {
        self.on_error = Some(Arc::new(handler));
        self.bare = false;
        self
    }
}
