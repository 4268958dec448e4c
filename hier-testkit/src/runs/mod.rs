//! A test suite for authors of run stores ([`RunStore`]). A run store is also a saver, so run the suite
//! [`checkpoint`](crate::checkpoint) too.
//!
//! ```no_run
//! use hier_core::runs::MemoryRuns;
//!
//! # #[tokio::main]
//! # async fn main() {
//! let report = hier_testkit::runs::run_suite(async || Ok(MemoryRuns::new())).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! To run each case as a separate test, call `Case::run` for each of the [`cases`] with a new, empty store.

mod added;
mod claims;
mod desk;
mod documents;
mod events;
mod kit;
mod queue;
mod recovery;
mod rollback;
mod threads;
mod wakes;
mod work;

use std::sync::Arc;

use hier_core::checkpoint::SaverError;
use hier_core::runs::{RunStore, RunsError};

use crate::contract;
use crate::contract::ContractViolation;

type Subject = Arc<dyn RunStore>;

/// A case of the test suite for run stores.
pub type Case = contract::Case<dyn RunStore>;

impl Case {
    /// Runs the case with this run store, which must be empty and not in use elsewhere. The result is a violation if
    /// the case panics or takes more than a minute.
    ///
    /// Needs a tokio runtime with a timer.
    pub async fn run(&self, store: impl RunStore) -> Result<(), ContractViolation> {
        self.on(Arc::new(store)).await
    }
}

impl From<RunsError> for ContractViolation {
    fn from(error: RunsError) -> Self {
        Self::unexpected(error)
    }
}

/// Returns all cases of the suite. Cases of one group are adjacent.
pub fn cases() -> impl Iterator<Item = Case> {
    let groups = [
        queue::CASES,
        claims::CASES,
        added::CASES,
        events::CASES,
        threads::CASES,
        documents::CASES,
        work::CASES,
        recovery::CASES,
        rollback::CASES,
        wakes::CASES,
    ];
    groups.into_iter().flatten().copied()
}

/// Runs all cases, several at the same time. Calls `new_store` once for each case. The function must return an empty
/// run store. The stores must not share data.
pub async fn run_suite<S: RunStore>(new_store: impl AsyncFn() -> Result<S, SaverError>) -> Report {
    Report::run_cases(cases(), async |case| match new_store().await {
        Ok(store) => case.run(store).await,
        Err(error) => Err(ContractViolation(format!("no store to test: {error}"))),
    })
    .await
}

/// The results of the test suite for run stores.
pub type Report = contract::Report<Case>;
