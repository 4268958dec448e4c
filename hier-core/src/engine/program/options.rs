use std::time::Duration;

/// The way in which the checkpoints of a thread store the state of a subgraph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checkpoints {
    /// Each call of the subgraph starts with a new state. If a later run repeats an interrupted call, the call
    /// continues where it stopped.
    #[default]
    PerCall,
    /// The subgraph keeps its state between calls, for the whole thread.
    PerThread,
    /// The subgraph has no checkpoints. An interrupted call starts again from its beginning.
    None,
}

/// A retry policy: the number of attempts and the waits between them.
///
/// After attempt n has failed, the engine waits `interval × factor^(n−1)`, but at most `cap`. The engine adds a random
/// time of up to `jitter` times this wait. It retries only [transient](crate::NodeError::is_transient) errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// The number of attempts, including the first. 0 and 1 mean no retry. Defaults to 3.
    pub attempts: u32,
    /// The wait after the first attempt. Defaults to 500 milliseconds.
    pub interval: Duration,
    /// The factor by which each wait grows. Defaults to 2.
    pub factor: f64,
    /// The longest wait, before jitter is added. Defaults to 128 seconds.
    pub cap: Duration,
    /// The largest random time to add, as a fraction of the wait. Infinity and NaN add nothing. Defaults to 0.25.
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
    /// Creates a policy with this many attempts and the default waits.
    pub fn attempts(attempts: u32) -> Self {
        Self { attempts, ..Self::default() }
    }

    /// Returns the wait after this number of failures, with jitter.
    pub fn pause(&self, failures: u32) -> Duration {
        let factor = 1.0 + fastrand::f64() * if self.jitter.is_finite() { self.jitter.max(0.0) } else { 0.0 };
        Duration::try_from_secs_f64(self.wait(failures).as_secs_f64() * factor).unwrap_or(Duration::MAX)
    }

    /// Returns the wait after this number of failures, without jitter.
    pub fn wait(&self, failures: u32) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.interval.as_secs_f64() * self.factor.powi(exponent).min(f64::MAX);
        // A negative factor or an overflow waits for the cap, so that a wrong option never causes busy retries.
        Duration::try_from_secs_f64(seconds).map_or(self.cap, |wait| wait.min(self.cap))
    }
}

impl From<u32> for Retry {
    fn from(attempts: u32) -> Self {
        Self::attempts(attempts)
    }
}

/// A cache of a node's results in the memory of the compiled graph. It holds at most 10,000 results.
///
/// Tasks with equal keys share a result. The key contains everything that the node's arguments read: the payload of a
/// Send, the channels of a view, or all channels of the state. Managed fields and untracked channels are not part of
/// the key. A subgraph, and a node that takes its [`Task`](crate::graph::Task), read the payload if a Send started the
/// task, and otherwise the state. [`NodeDef::cache_key`](crate::graph::NodeDef::cache_key) sets another key.
///
/// The cache does not hold these results:
///
/// * Errors, and commands for the parent graph.
/// * Results for which the node or its subgraph used an answer to a question, or a signal.
/// * Results for which the node read the context or the configuration of the run. If the `cache_key` function also
///   reads the context or the configuration, the cache holds such results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The time for which a result is reused.
    pub ttl: Duration,
}

impl From<Duration> for Cache {
    fn from(ttl: Duration) -> Self {
        Self { ttl }
    }
}
