//! A test suite for authors of stores.
//!
//! ```
//! use hier_core::store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let report = hier_testkit::store::run_suite(async |options| Ok(MemoryStore::new(options))).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! To run each case as a separate test, call `Case::run` for each of the [`cases`]. Each case needs a new, empty
//! store with the options that `Case::options` returns.

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

use std::sync::Arc;

use hier_core::store::{Store, StoreError, StoreOptions};

use crate::contract;
use crate::contract::ContractViolation;

type Subject = Arc<dyn Store>;

/// A case of the test suite for stores.
pub type Case = contract::Case<dyn Store, fn() -> Result<StoreOptions, StoreError>>;

impl Case {
    /// Returns the options with which the caller must create the store for [`run`](Self::run).
    pub fn options(&self) -> Result<StoreOptions, StoreError> {
        (self.config)()
    }

    /// Runs the case with this store. The store must have the [`options`](Self::options) of the case, be empty, and not
    /// be in use elsewhere. The result is a violation if the case panics or takes more than a minute.
    ///
    /// Needs a tokio runtime with a timer.
    pub async fn run(&self, store: impl Store) -> Result<(), ContractViolation> {
        self.on(Arc::new(store)).await
    }
}

impl From<StoreError> for ContractViolation {
    fn from(error: StoreError) -> Self {
        Self::unexpected(error)
    }
}

/// Returns all cases of the suite. Cases of one group are adjacent.
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

/// Runs all cases, several at the same time. Calls `new_store` once for each case. The function must return an empty
/// store with the given options. The stores must not share data.
pub async fn run_suite<S: Store>(new_store: impl AsyncFn(StoreOptions) -> Result<S, StoreError>) -> Report {
    Report::run_cases(cases(), async |case| {
        let store = match case.options() {
            Ok(options) => new_store(options).await,
            Err(error) => Err(error),
        };
        match store {
            Ok(store) => case.run(store).await,
            Err(error) => Err(ContractViolation(format!("no store to test: {error}"))),
        }
    })
    .await
}

/// The results of the test suite for stores.
pub type Report = contract::Report<Case>;
