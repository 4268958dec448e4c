//! The tests of the contract of [`RunStore`], for any store.
//!
//! Whoever writes a store runs them against it, beside the suite for savers:
//!
//! ```
//! use hier_core::runs::MemoryRuns;
//!
//! # #[tokio::main]
//! # async fn main() {
//! let report = hier_testkit::runs::run(async || Ok(MemoryRuns::new())).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! Each case needs a store that is empty and that nobody else uses meanwhile. Most of them are what broke elsewhere: a stale
//! worker that wrote after another had taken over, a thread that stayed busy for ever, a delayed run that began early.

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
use crate::contract::Failure;

/// The store that a case is run against.
type Subject = Arc<dyn RunStore>;

/// One rule of the contract.
pub type Case = contract::Case<dyn RunStore>;

impl Case {
    /// Runs the case against a store that is empty and that nobody else uses. A panic of the store is a failure, and so is
    /// taking longer than a minute.
    ///
    /// Needs a tokio runtime with time enabled.
    pub async fn run(&self, store: impl RunStore) -> Result<(), Failure> {
        self.on(Arc::new(store)).await
    }
}

impl From<RunsError> for Failure {
    fn from(error: RunsError) -> Self {
        Self::unexpected(error)
    }
}

/// All cases, group by group.
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

/// Runs all cases, each against a new store.
pub async fn run<S: RunStore>(new_store: impl AsyncFn() -> Result<S, SaverError>) -> Report {
    Report::of(cases(), async |case| match new_store().await {
        Ok(store) => case.run(store).await,
        Err(error) => Err(Failure(format!("no store to test: {error}"))),
    })
    .await
}

/// How a store did.
pub type Report = contract::Report<Case>;
