//! The tests of the whole contract, for any store.
//!
//! Whoever writes a store runs them against it:
//!
//! ```
//! use hier_core::store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let report = hier_testkit::store::run(async |options| Ok(MemoryStore::new(options))).await;
//! assert!(report.passed(), "{report}");
//! # }
//! ```
//!
//! or, to see each case under its own name, goes through [`cases`]. Each case needs a store that is empty, configured with
//! the case's `options`, and that nobody else uses meanwhile.

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
use crate::contract::Failure;

/// The store that a case is run against.
type Subject = Arc<dyn Store>;

/// One rule of the contract.
pub type Case = contract::Case<dyn Store, fn() -> Result<StoreOptions, StoreError>>;

impl Case {
    /// How the store for this case is configured.
    pub fn options(&self) -> Result<StoreOptions, StoreError> {
        (self.config)()
    }

    /// Runs the case against a store that is empty and that nobody else uses. A panic of the store is a failure, and so is
    /// taking longer than a minute.
    ///
    /// Needs a tokio runtime with time enabled.
    pub async fn run(&self, store: impl Store) -> Result<(), Failure> {
        self.on(Arc::new(store)).await
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::unexpected(error)
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
    Report::of(cases(), async |case| {
        let store = match case.options() {
            Ok(options) => new_store(options).await,
            Err(error) => Err(error),
        };
        match store {
            Ok(store) => case.run(store).await,
            Err(error) => Err(Failure(format!("no store to test: {error}"))),
        }
    })
    .await
}

/// How a store did.
pub type Report = contract::Report<Case>;
