//! Shared parts of the suites that test the contracts of savers and stores.

use std::fmt::{self, Debug};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;

/// How long a case may take before it counts as hanging.
const LIMIT: Duration = Duration::from_mins(1);

/// A violation of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub(crate) fn unexpected(error: impl fmt::Display) -> Self {
        Self(format!("an error where none was expected: {error}"))
    }
}

/// One rule of a contract, tested against a `T`: `dyn Checkpointer`, `dyn Store`, … `O` is how that is configured.
pub struct Case<T: ?Sized + 'static, O = ()> {
    /// The part of the contract: `put`, `search`, `queue`, …
    pub group: &'static str,
    /// The rule, as a name of a function.
    pub name: &'static str,
    pub(crate) config: O,
    pub(crate) test: fn(Arc<T>) -> BoxFuture<'static, Outcome>,
}

impl<T: ?Sized, O> Case<T, O> {
    /// Tests it. A panic is a failure, and so is taking longer than a minute.
    pub(crate) async fn on(&self, subject: Arc<T>) -> Outcome {
        within_limits((self.test)(subject)).await
    }
}

impl<T: ?Sized, O: Copy> Clone for Case<T, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized, O: Copy> Copy for Case<T, O> {}

impl<T: ?Sized, O> Debug for Case<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `group::name`.
impl<T: ?Sized, O> fmt::Display for Case<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.group, self.name)
    }
}

/// The cases of a group, of a suite's type, by the names of their functions.
macro_rules! cases {
    ($case:ty, $group:literal: $($name:ident),+ $(,)?) => {
        cases!($case, $group, (); $($name),+);
    };
    ($case:ty, $group:literal, $options:expr; $($name:ident),+ $(,)?) => {
        pub(super) const CASES: &[$case] = &[$($crate::contract::Case {
            group: $group,
            name: stringify!($name),
            config: $options,
            test: |subject| Box::pin($name(subject)),
        }),+];
    };
}
pub(crate) use cases;

/// The result of a case.
pub(crate) type Outcome = Result<(), Failure>;

/// Lets a case run. A panic is a failure, and so is taking longer than a minute.
pub(crate) async fn within_limits(case: impl Future<Output = Outcome>) -> Outcome {
    match tokio::time::timeout(LIMIT, AssertUnwindSafe(case).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Failure("it panicked".to_owned())),
        Err(_) => Err(Failure(format!("still not done after {LIMIT:?}"))),
    }
}

/// Fails if the two differ.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, found: &T, wanted: &T) -> Outcome {
    if found == wanted { Ok(()) } else { Err(Failure(format!("{what}: {found:?} instead of {wanted:?}"))) }
}

/// Fails if this does not hold.
pub(crate) fn holds(what: &str, it: bool) -> Outcome {
    if it { Ok(()) } else { Err(Failure(format!("it does not hold that {what}"))) }
}

/// What should be there.
pub(crate) fn some<T>(what: &str, it: Option<T>) -> Result<T, Failure> {
    it.ok_or_else(|| Failure(format!("{what} is missing")))
}

/// The results of a suite's cases.
#[derive(Clone, Debug)]
pub struct Report<C> {
    /// The result of each case.
    pub results: Vec<(C, Result<(), Failure>)>,
}

impl<C> Report<C> {
    /// Runs these cases one after the other.
    pub(crate) async fn of(cases: impl Iterator<Item = C>, run: impl AsyncFn(&C) -> Outcome) -> Self {
        let mut report = Self::default();
        for case in cases {
            let result = run(&case).await;
            report.results.push((case, result));
        }
        report
    }

    /// Whether every case passed, and there were some.
    pub fn passed(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|(_, result)| result.is_ok())
    }
}

impl<C> Default for Report<C> {
    fn default() -> Self {
        Self { results: Vec::new() }
    }
}

/// A line for each failure, and one with the count.
impl<C: fmt::Display> fmt::Display for Report<C> {
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
