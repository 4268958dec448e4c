use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hier_core::graph::DynGraph;
use hier_core::runs::{Run, RunStore};
use hier_core::store::Store;

/// A function that the worker calls with each run that it has ended.
pub(crate) type OnEnd = dyn Fn(&Run) + Send + Sync;

/// The settings of a worker, which all of its runs share.
pub(crate) struct WorkerContext {
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) graphs: BTreeMap<String, Arc<dyn DynGraph>>,
    pub(crate) memory: Option<Arc<dyn Store>>,
    pub(crate) lease_duration: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) flush_interval: Duration,
    pub(crate) max_attempts: u32,
    pub(crate) max_run_time: Duration,
    pub(crate) max_steps: usize,
    pub(crate) on_end: Option<Arc<OnEnd>>,
    pub(crate) holder: String,
    pub(crate) concurrency: usize,
}
