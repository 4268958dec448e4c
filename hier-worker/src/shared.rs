//! The parts of a worker that all its runs use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hier_core::graph::DynGraph;
use hier_core::runs::{Run, RunStore};
use hier_core::store::Store;

/// A function that is called with each run that has ended here.
pub(crate) type Ended = dyn Fn(&Run) + Send + Sync;

/// What all runs of a worker share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) graphs: BTreeMap<String, Arc<dyn DynGraph>>,
    pub(crate) memory: Option<Arc<dyn Store>>,
    pub(crate) lasts: Duration,
    pub(crate) poll: Duration,
    pub(crate) flush: Duration,
    pub(crate) attempts: u32,
    pub(crate) max_run_time: Duration,
    pub(crate) max_steps: usize,
    pub(crate) ended: Option<Arc<Ended>>,
    pub(crate) holder: String,
    pub(crate) concurrency: usize,
}
