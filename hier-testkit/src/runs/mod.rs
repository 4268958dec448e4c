//! A test suite for run stores ([`RunStore`]). Run the suite for savers too.
//!
//! ```
//! use hier_core::runs::MemoryRuns;
//!
//! # #[tokio::main]
//! # async fn main() {
//! let report = hier_testkit::runs::run_suite(async || Ok(MemoryRuns::new())).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! Each case needs a new, empty store.

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

/// A case of the suite.
pub type Case = contract::Case<dyn RunStore>;

impl Case {
    /// Runs the case against an empty store that nothing else uses. A panic of the store and a run of more than a
    /// minute are violations.
    ///
    /// Needs a tokio runtime with time enabled.
    pub async fn run(&self, store: impl RunStore) -> Result<(), ContractViolation> {
        self.on(Arc::new(store)).await
    }
}

impl From<RunsError> for ContractViolation {
    fn from(error: RunsError) -> Self {
        Self::unexpected(error)
    }
}

/// Returns all cases, in groups.
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

/// Runs all cases, each against a new store. Several stores exist at a time, and they must not share data.
pub async fn run_suite<S: RunStore>(new_store: impl AsyncFn() -> Result<S, SaverError>) -> Report {
    Report::run_cases(cases(), async |case| match new_store().await {
        Ok(store) => case.run(store).await,
        Err(error) => Err(ContractViolation(format!("no store to test: {error}"))),
    })
    .await
}

/// The results of the suite.
pub type Report = contract::Report<Case>;
