//! Parts that the test suites for savers, stores and run stores share.

use std::fmt::{self, Debug};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};

/// The time limit of a case.
const LIMIT: Duration = Duration::from_mins(1);

/// The number of cases that run at the same time. More cases would delay each other, and some cases measure time.
const AT_A_TIME: usize = 6;

/// A violation of a rule that a case tests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ContractViolation(pub(crate) String);

impl ContractViolation {
    pub(crate) fn unexpected(error: impl fmt::Display) -> Self {
        Self(format!("unexpected error: {error}"))
    }
}

/// A test of one rule that all implementations of a trait must follow. `T` is the trait, such as `dyn Checkpointer`.
/// `O` is the type of the options with which the caller must create the tested object.
pub struct Case<T: ?Sized + 'static, O = ()> {
    /// The name of the group of rules, such as `put`, `search` or `queue`.
    pub group: &'static str,
    /// The name of the test function, which describes the rule.
    pub name: &'static str,
    pub(crate) config: O,
    pub(crate) test: fn(Arc<T>) -> BoxFuture<'static, CaseResult>,
}

impl<T: ?Sized, O> Case<T, O> {
    /// Runs the case. A panic is a violation, and so is a case that takes more than a minute.
    pub(crate) async fn on(&self, subject: Arc<T>) -> CaseResult {
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

impl<T: ?Sized, O> fmt::Display for Case<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.group, self.name)
    }
}

/// Defines the cases of a group. Each case has the name of its function.
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

pub(crate) type CaseResult = Result<(), ContractViolation>;

/// Runs a case. A panic is a violation, and so is a case that takes more than a minute.
pub(crate) async fn within_limits(case: impl Future<Output = CaseResult>) -> CaseResult {
    match tokio::time::timeout(LIMIT, AssertUnwindSafe(case).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(ContractViolation("the case panicked".to_owned())),
        Err(_) => Err(ContractViolation(format!("the case did not end within {LIMIT:?}"))),
    }
}

/// Fails if the values differ.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, found: &T, wanted: &T) -> CaseResult {
    if found == wanted { Ok(()) } else { Err(ContractViolation(format!("{what}: {found:?} instead of {wanted:?}"))) }
}

/// Fails if the condition is false. `what` states the rule.
pub(crate) fn holds(what: &str, it: bool) -> CaseResult {
    if it { Ok(()) } else { Err(ContractViolation(format!("violated rule: {what}"))) }
}

/// Fails if the value is missing.
pub(crate) fn some<T>(what: &str, it: Option<T>) -> Result<T, ContractViolation> {
    it.ok_or_else(|| ContractViolation(format!("{what} is missing")))
}

/// The results of a test suite.
#[derive(Clone, Debug)]
pub struct Report<C> {
    /// The result of each case.
    pub results: Vec<(C, Result<(), ContractViolation>)>,
}

impl<C> Report<C> {
    /// Runs several cases at the same time, because most cases wait.
    pub(crate) async fn run_cases(cases: impl Iterator<Item = C>, run: impl AsyncFn(&C) -> CaseResult) -> Self {
        let run = &run;
        let results = stream::iter(cases.enumerate().map(async |(at, case)| (at, run(&case).await, case)));
        let mut results: Vec<_> = results.buffer_unordered(AT_A_TIME).collect().await;
        results.sort_by_key(|&(at, ..)| at);
        Self { results: results.into_iter().map(|(_, result, case)| (case, result)).collect() }
    }

    /// Returns true if the report contains at least one case and all cases passed.
    pub fn passed(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|(_, result)| result.is_ok())
    }
}

impl<C> Default for Report<C> {
    fn default() -> Self {
        Self { results: Vec::new() }
    }
}

/// Prints one line for each violation, and the number of cases.
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
