//! A test suite for authors of savers.
//!
//! ```no_run
//! use hier_core::checkpoint::MemorySaver;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let report = hier_testkit::checkpoint::run_suite(async || Ok(MemorySaver::new())).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! To run each case as a separate test, call `Case::run` for each of the [`cases`] with a new, empty saver.

mod chains;
mod copy;
mod delete;
mod hostile;
mod inbox;
mod kit;
mod leases;
mod lifetime;
mod list;
mod prune;
mod put;
mod references;
mod writes;

use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, SaverError};

use crate::contract;
use crate::contract::ContractViolation;

type Subject = Arc<dyn Checkpointer>;

/// A case of the test suite for savers.
pub type Case = contract::Case<dyn Checkpointer>;

impl Case {
    /// Runs the case with this saver, which must be empty and not in use elsewhere. The result is a violation if the
    /// case panics or takes more than a minute.
    ///
    /// Needs a tokio runtime with a timer.
    pub async fn run(&self, saver: impl Checkpointer) -> Result<(), ContractViolation> {
        self.on(Arc::new(saver)).await
    }
}

impl From<SaverError> for ContractViolation {
    fn from(error: SaverError) -> Self {
        Self::unexpected(error)
    }
}

/// Returns all cases of the suite. Cases of one group are adjacent.
pub fn cases() -> impl Iterator<Item = Case> {
    let groups = [
        put::CASES,
        chains::CASES,
        writes::CASES,
        list::CASES,
        leases::CASES,
        delete::CASES,
        copy::CASES,
        prune::CASES,
        references::CASES,
        lifetime::CASES,
        inbox::CASES,
        hostile::CASES,
    ];
    groups.into_iter().flatten().copied()
}

/// Runs all cases, several at the same time. Calls `new_saver` once for each case. The function must return an empty
/// saver. The savers must not share data.
pub async fn run_suite<S: Checkpointer>(new_saver: impl AsyncFn() -> Result<S, SaverError>) -> Report {
    Report::run_cases(cases(), async |case| match new_saver().await {
        Ok(saver) => case.run(saver).await,
        Err(error) => Err(ContractViolation(format!("no saver to test: {error}"))),
    })
    .await
}

/// The results of the test suite for savers.
pub type Report = contract::Report<Case>;
