//! The tests of the whole contract, for any saver.
//!
//! Whoever writes a saver runs them against it:
//!
//! ```
//! use hier_core::checkpoint::{MemorySaver, suite};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let report = suite::run(async || Ok(MemorySaver::new())).await;
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
mod prune;
mod put;
mod writes;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::{BoxFuture, Checkpointer, SaverError};

/// How long a case may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

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
        let running = AssertUnwindSafe((self.run)(Arc::new(saver))).catch_unwind();
        match tokio::time::timeout(LIMIT, running).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Failure("the saver panicked".to_owned())),
            Err(_) => Err(Failure(format!("still not done after {LIMIT:?}"))),
        }
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

/// What a saver did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<SaverError> for Failure {
    fn from(error: SaverError) -> Self {
        Self(format!("an error where none was expected: {error}"))
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
        lifetime::CASES,
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
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The result of each case.
    pub results: Vec<(Case, Result<(), Failure>)>,
}

impl Report {
    /// Whether every case passed, and there were some.
    pub fn passed(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|(_, result)| result.is_ok())
    }
}

/// A line for each failure, and one with the count.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (case, result) in &self.results {
            if let Err(failure) = result {
                writeln!(f, "{case}: {failure}")?;
            }
        }
        let passed = self.results.iter().filter(|(_, result)| result.is_ok()).count();
        write!(f, "{passed} of {} cases passed", self.results.len())
    }
}
