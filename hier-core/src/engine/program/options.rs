//! Options of a node.

use std::time::Duration;

/// The checkpoints of a graph that a node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checkpoints {
    /// Checkpoints per call: each call starts with a new state, and continues where it stopped if the step runs again.
    #[default]
    PerCall,
    /// Checkpoints per thread: the graph keeps its state between calls.
    PerThread,
    /// No checkpoints: a call that stopped starts again.
    None,
}

/// The number of attempts of a failing node, and the waits between them.
///
/// The wait before attempt n + 1 is `interval × factor^(n−1)`, at most `cap`, plus a random part of up to `jitter` times the wait. Only
/// transient errors are retried (see [`NodeError`](crate::NodeError)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// The number of attempts, including the first. 0 and 1 mean no retry.
    pub attempts: u32,
    /// The first wait.
    pub interval: Duration,
    /// The growth of the wait from attempt to attempt.
    pub factor: f64,
    /// The longest wait without jitter.
    pub cap: Duration,
    /// The maximum random part, as a fraction of the wait.
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

    /// Returns the wait after this many failures, with jitter.
    pub fn pause(&self, failures: u32) -> Duration {
        let factor = 1.0 + self.jitter.max(0.0) * fastrand::f64();
        Duration::try_from_secs_f64(self.wait(failures).as_secs_f64() * factor).unwrap_or(Duration::MAX)
    }

    /// Returns the wait after this many failures, without jitter.
    pub fn wait(&self, failures: u32) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.interval.as_secs_f64() * self.factor.powi(exponent);
        // A negative factor or an overflow waits for the cap, so that a mistake never causes busy retries.
        Duration::try_from_secs_f64(seconds).map_or(self.cap, |wait| wait.min(self.cap))
    }
}

impl From<u32> for Retry {
    fn from(attempts: u32) -> Self {
        Self::attempts(attempts)
    }
}

/// The cache of a node's results for equal inputs.
///
/// The key is the node and what its arguments read: the payload of a Send, the channels of its views, or all channels with a value if it
/// takes the state. Managed and untracked channels are not part of it. For a node that takes its [`Task`](crate::graph::Task) or is a
/// graph, the key is the payload, or else the state. [`NodeDef::cache_key`](crate::graph::NodeDef::cache_key) replaces the key.
///
/// The results live in the memory of the compiled graph, 10,000 at most.
///
/// Results that may belong to one person are not cached. If the node or its subgraph used an answer, the result is never cached. If it used
/// the context or the configuration, the result is cached only if the function of `cache_key` used them, too. Failures are not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The time to live of a result.
    pub ttl: Duration,
}

impl From<Duration> for Cache {
    fn from(ttl: Duration) -> Self {
        Self { ttl }
    }
}
