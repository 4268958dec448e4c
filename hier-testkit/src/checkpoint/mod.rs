//! The tests of the whole contract, for any saver.
//!
//! Whoever writes a saver runs them against it:
//!
//! ```
//! use hier_core::checkpoint::MemorySaver;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let report = hier_testkit::checkpoint::run(async || Ok(MemorySaver::new())).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! or, to see each case under its own name, goes through [`cases`]. Each case needs a saver that is empty and that nobody
//! else uses meanwhile: some of them delete from all threads.

mod chains;
mod copy;
mod delete;
mod hostile;
mod kit;
mod leases;
mod lifetime;
mod list;
mod mail;
mod prune;
mod put;
mod references;
mod writes;

use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, SaverError};

use crate::contract;
use crate::contract::Failure;

/// The saver that a case is run against.
type Subject = Arc<dyn Checkpointer>;

/// One rule of the contract.
pub type Case = contract::Case<dyn Checkpointer>;

impl Case {
    /// Runs the case against a saver that is empty and that nobody else uses. A panic of the saver is a failure, and so is
    /// taking longer than a minute.
    ///
    /// Needs a tokio runtime with time enabled.
    pub async fn run(&self, saver: impl Checkpointer) -> Result<(), Failure> {
        self.on(Arc::new(saver)).await
    }
}

impl From<SaverError> for Failure {
    fn from(error: SaverError) -> Self {
        Self::unexpected(error)
    }
}

/// All cases, group by group.
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
        mail::CASES,
        hostile::CASES,
    ];
    groups.into_iter().flatten().copied()
}

/// Runs all cases, each against a new saver.
pub async fn run<S: Checkpointer>(new_saver: impl AsyncFn() -> Result<S, SaverError>) -> Report {
    Report::of(cases(), async |case| match new_saver().await {
        Ok(saver) => case.run(saver).await,
        Err(error) => Err(Failure(format!("no saver to test: {error}"))),
    })
    .await
}

/// How a saver did.
pub type Report = contract::Report<Case>;
