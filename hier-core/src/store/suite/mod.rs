//! The tests of the whole contract, for any store.
//!
//! Whoever writes a store runs them against it:
//!
//! ```
//! use hier_core::store::{MemoryStore, suite};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let report = suite::run(async |options| Ok(MemoryStore::new(options))).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! or, to see each case under its own name, goes through [`cases`]. Each case needs a store that is empty, configured with
//! the case's [`options`](Case::options), and that nobody else uses meanwhile.

mod batches;
mod defaults;
mod filters;
mod hostile;
mod items;
mod kit;
mod lifetime;
mod meaning;
mod namespaces;
mod search;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::{BoxFuture, Store, StoreError, StoreOptions};

/// How long a case may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// The store that a case is run against.
type Subject = Arc<dyn Store>;

/// One rule of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// The part of the contract: `items`, `search`, `filters`, …
    pub group: &'static str,
    /// The rule, as a name of a function.
    pub name: &'static str,
    options: fn() -> Result<StoreOptions, StoreError>,
    run: fn(Subject) -> BoxFuture<'static, Result<(), Failure>>,
}

impl Case {
    /// How the store for this case is configured.
    pub fn options(&self) -> Result<StoreOptions, StoreError> {
        (self.options)()
    }

    /// Runs the case against a store that is empty and that nobody else uses. A panic of the store is a failure, and so is
    /// taking longer than a minute.
    ///
    /// Needs a tokio runtime with time enabled.
    pub async fn run(&self, store: impl Store) -> Result<(), Failure> {
        let running = AssertUnwindSafe((self.run)(Arc::new(store))).catch_unwind();
        match tokio::time::timeout(LIMIT, running).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Failure("the store panicked".to_owned())),
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

/// What a store did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(format!("an error where none was expected: {error}"))
    }
}

/// All cases, group by group.
pub fn cases() -> impl Iterator<Item = Case> {
    let groups = [
        items::CASES,
        batches::CASES,
        search::CASES,
        filters::CASES,
        namespaces::CASES,
        lifetime::CASES,
        defaults::CASES,
        meaning::CASES,
        hostile::CASES,
    ];
    groups.into_iter().flatten().copied()
}

/// Runs all cases, each against a new store.
pub async fn run<S: Store>(new_store: impl AsyncFn(StoreOptions) -> Result<S, StoreError>) -> Report {
    let mut report = Report::default();
    for case in cases() {
        let store = match case.options() {
            Ok(options) => new_store(options).await,
            Err(error) => Err(error),
        };
        let result = match store {
            Ok(store) => case.run(store).await,
            Err(error) => Err(Failure(format!("no store to test: {error}"))),
        };
        report.results.push((case, result));
    }
    report
}

/// How a store did.
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
