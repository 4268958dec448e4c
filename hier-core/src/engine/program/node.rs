//! A node and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;

use super::cache::{InputKey, TellsApart};
use super::{Child, Output, Reads, Task};
use crate::error::NodeError;
use crate::state::Values;

/// The output of a node's future.
pub type NodeResult<S> = std::result::Result<Output<S>, NodeError>;

/// Which checkpoints a graph has that a node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checkpoints {
    /// Each call has its own: it starts afresh, and goes on where it stopped if the step is run again.
    #[default]
    PerCall,
    /// One series for the whole thread: the graph keeps its state from call to call.
    PerThread,
    /// None: a call that stopped begins again.
    None,
}

/// A node's code.
pub(crate) type Body<S, C> = Arc<dyn for<'a> Fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>> + Send + Sync>;

/// Says what tells the inputs of a node apart.
pub(crate) type CacheKeyOf<S, C> = Arc<dyn Fn(&Task<S, C>) -> Result<InputKey, NodeError> + Send + Sync>;

/// How often a failing node is run, and how long is waited between two attempts.
///
/// Before attempt n + 1 the wait is `interval × factor^(n−1)`, at most `cap`, plus a random part of up to `jitter` times
/// that. Only errors that are transient are retried (see [`NodeError`](crate::NodeError)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// The number of attempts, the first included; 0 and 1 both mean no retry.
    pub attempts: u32,
    /// The first wait.
    pub interval: Duration,
    /// By how much each wait is longer than the one before.
    pub factor: f64,
    /// The longest wait, before jitter.
    pub cap: Duration,
    /// The greatest random addition, as a fraction of the wait.
    pub jitter: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            interval: Duration::from_millis(500),
            factor: 2.0,
            cap: Duration::from_secs(128),
            jitter: 0.25,
        }
    }
}

impl Retry {
    /// This many attempts, with the default waits.
    pub fn attempts(attempts: u32) -> Self {
        Self { attempts, ..Self::default() }
    }

    /// How long to wait after this many failures: [`Self::wait`], and a random part of up to [`Self::jitter`] times that.
    pub fn pause(&self, failures: u32) -> Duration {
        let factor = 1.0 + self.jitter.max(0.0) * fastrand::f64();
        Duration::try_from_secs_f64(self.wait(failures).as_secs_f64() * factor).unwrap_or(Duration::MAX)
    }

    /// The wait after this many failures, without jitter.
    pub fn wait(&self, failures: u32) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.interval.as_secs_f64() * self.factor.powi(exponent);
        // A factor below zero or a product that is no number waits for the cap: never less than asked for by mistake.
        Duration::try_from_secs_f64(seconds).map_or(self.cap, |wait| wait.min(self.cap))
    }
}

impl From<u32> for Retry {
    fn from(attempts: u32) -> Self {
        Self::attempts(attempts)
    }
}

/// How long a node's result is used again for an equal input.
///
/// The key is the node and what it reads, as its arguments say: what it was sent, the channels of its views, every channel with a
/// value if it takes the state. What is managed or untracked is not part of it. Of a node that takes its [`Task`] or is a graph
/// it is what it was sent, or else the state. Or it is what a function says: [`NodeDef::cache_key`].
///
/// The results live in the memory of the compiled graph, 10,000 at most.
///
/// What may be one person's is not kept: a result for which the node, or a graph that it runs, used an answer; nor, unless a
/// function that says the key used them too, the context or the configuration. Nor are failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// For how long, from when the result was stored.
    pub ttl: Duration,
}

impl From<Duration> for Cache {
    fn from(ttl: Duration) -> Self {
        Self { ttl }
    }
}

/// A node's code, of a closure.
pub fn body<S: Values, C>(
    code: impl for<'a> Fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>> + Send + Sync + 'static,
) -> Body<S, C> {
    Arc::new(code)
}

/// A node: its code and its options.
pub struct NodeDef<S: Values, C = ()> {
    pub(crate) body: Body<S, C>,
    pub(crate) child: Option<Child<S, C>>,
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) cache: Option<Cache>,
    /// What tells the node's inputs apart; none: what it reads.
    pub(crate) cache_key: Option<CacheKeyOf<S, C>>,
    pub(crate) reads: &'static [Reads],
    pub(crate) on_error: Option<Body<S, C>>,
    pub(crate) checkpoints: Checkpoints,
    /// Whether running the node is just calling its code.
    pub(crate) bare: bool,
}

impl<S: Values, C> Clone for NodeDef<S, C> {
    fn clone(&self) -> Self {
        Self {
            body: self.body.clone(),
            child: self.child.clone(),
            retry: self.retry,
            timeout: self.timeout,
            idle_timeout: self.idle_timeout,
            cache: self.cache,
            cache_key: self.cache_key.clone(),
            reads: self.reads,
            on_error: self.on_error.clone(),
            checkpoints: self.checkpoints,
            bare: self.bare,
        }
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
    /// A node with this code, and the graph that it runs if it is one. Used by the macro.
    #[doc(hidden)]
    pub fn new(body: for<'a> fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>, child: Option<Child<S, C>>) -> Self {
        Self::from_body(Arc::new(body), child)
    }

    /// A node with this code, kept as it is.
    #[doc(hidden)]
    pub fn from_body(body: Body<S, C>, child: Option<Child<S, C>>) -> Self {
        let (retry, timeout, idle_timeout, cache, on_error) = (None, None, None, None, None);
        let (cache_key, reads, checkpoints) = (None, &[Reads::Input] as &[_], Checkpoints::default());
        Self { body, child, retry, timeout, idle_timeout, cache, cache_key, reads, on_error, checkpoints, bare: true }
    }

    /// Runs the node again if it fails.
    #[must_use]
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.retry = Some(retry.into());
        self.bare = false;
        self
    }

    /// Bounds each attempt.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self.bare = false;
        self
    }

    /// Bounds the time of each attempt without a sign of life: `run.heartbeat()` or `run.emit(…)`.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = Some(limit);
        self.bare = false;
        self
    }

    /// Which checkpoints the graph has that the node runs. Of no effect on other nodes.
    #[must_use]
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = checkpoints;
        self
    }

    /// Uses a result again for an equal input.
    #[must_use]
    pub fn cache(mut self, cache: impl Into<Cache>) -> Self {
        self.cache = Some(cache.into());
        self.bare = false;
        self
    }

    /// Says what tells two inputs of the node apart, for its [`cache`](Self::cache): two tasks for which the function says equal
    /// things share a result. It may use the context; then results that used it are kept, too, for those of whom it says the
    /// same. An error of the function is the node's.
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
    #[must_use]
    pub fn cache_key<K: TellsApart>(mut self, key: impl Fn(&Task<S, C>) -> K + Send + Sync + 'static) -> Self {
        self.cache_key = Some(Arc::new(move |task| key(task).input_key()));
        self
    }

    /// The same, of a node of the macro.
    #[doc(hidden)]
    #[must_use]
    pub fn keyed(mut self, key: for<'a> fn(&'a Task<S, C>) -> Result<InputKey, NodeError>) -> Self {
        self.cache_key = Some(Arc::new(key));
        self
    }

    /// What the node's arguments read. Used by the macro.
    #[doc(hidden)]
    #[must_use]
    pub fn reads(mut self, reads: &'static [Reads]) -> Self {
        self.reads = reads;
        self
    }

    /// Lets this code take over when the node has failed for good. Its output is the node's; the node's own edges are
    /// not followed. Used by the macro.
    #[doc(hidden)]
    #[must_use]
    pub fn error_handler(mut self, handler: for<'a> fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>) -> Self {
        self.on_error = Some(Arc::new(handler));
        self.bare = false;
        self
    }
}
