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

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use hier_core::checkpoint::{Checkpointer, SaverError};

use crate::contract;
use crate::contract::Failure;

/// The saver that a case is run against.
type Subject = Arc<dyn Checkpointer>;

/// One rule of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// The part of the contract: `put`, `writes`, `list`, …
    pub group: &'static str,
    /// The rule, as a name of a function.
    pub name: &'static str,
    run: fn(Subject) -> BoxFuture<'static, Result<(), Failure>>,
}

impl Case {
    /// Runs the case against a saver that is empty and that nobody else uses. A panic of the saver is a failure, and so is
    /// taking longer than a minute.
    ///
    /// Needs a tokio runtime with time enabled.
    pub async fn run(&self, saver: impl Checkpointer) -> Result<(), Failure> {
        contract::within_limits((self.run)(Arc::new(saver))).await
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `group::name`.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.group, self.name)
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
    let mut report = Report::default();
    for case in cases() {
        let result = match new_saver().await {
            Ok(saver) => case.run(saver).await,
            Err(error) => Err(Failure(format!("no saver to test: {error}"))),
        };
        report.results.push((case, result));
    }
    report
}

/// How a saver did.
pub type Report = contract::Report<Case>;
