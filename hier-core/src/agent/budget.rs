//! What a whole hierarchy may spend.

use std::sync::atomic::{AtomicU64, Ordering};

use super::message::Usage;

/// What a whole run may spend: model calls, tokens, steps of agents. All agents of the tree draw from it, whoever comes
/// first; none can exceed it. Where it is used up, each agent ends with what it has, as one does that exceeds its
/// iterations, and so the run ends.
///
/// It belongs to one run: put a fresh one into the [`BaseContext`](super::BaseContext) of each.
///
/// ```
/// use hier_core::agent::{Budget, ScriptedModel};
/// use hier_core::prelude::*;
///
/// let budget = Budget::new().model_calls(200).tokens(1_000_000);
/// let context = BaseContext::new(ScriptedModel::new([])).budget(budget);
/// # let _ = context;
/// ```
#[derive(Debug, Default)]
pub struct Budget {
    model_calls: Account,
    tokens: Account,
    steps: Account,
}

/// One thing that is counted.
#[derive(Debug, Default)]
struct Account {
    limit: Option<u64>,
    spent: AtomicU64,
}

/// What was spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// How often a model was asked.
    pub model_calls: u64,
    /// What was sent and answered, where the provider tells it.
    pub tokens: u64,
    /// How many nodes of agents ran.
    pub steps: u64,
}

impl Account {
    fn limited(limit: u64) -> Self {
        Self { limit: Some(limit), spent: AtomicU64::new(0) }
    }

    fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Takes one, if there is one left.
    fn take(&self) -> bool {
        let more = |spent| self.limit.is_none_or(|limit| spent < limit).then_some(spent + 1);
        self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn left(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.spent()))
    }
}

impl Budget {
    /// No limits: it only counts.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often models may be asked.
    #[must_use]
    pub fn model_calls(mut self, limit: u64) -> Self {
        self.model_calls = Account::limited(limit);
        self
    }

    /// How many tokens may be sent and answered. An answer is asked to be no longer than what is left; what a question
    /// costs is known only afterwards, so the last one may go beyond.
    #[must_use]
    pub fn tokens(mut self, limit: u64) -> Self {
        self.tokens = Account::limited(limit);
        self
    }

    /// How many nodes of agents may run before no model is asked any more.
    #[must_use]
    pub fn steps(mut self, limit: u64) -> Self {
        self.steps = Account::limited(limit);
        self
    }

    /// What was spent so far.
    pub fn spent(&self) -> Spent {
        Spent { model_calls: self.model_calls.spent(), tokens: self.tokens.spent(), steps: self.steps.spent() }
    }

    /// Counts a node.
    pub(super) fn step(&self) {
        self.steps.spent.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one call of a model, if there is one left and nothing else is used up.
    pub(super) fn take_call(&self) -> bool {
        self.steps.left() != Some(0) && self.tokens.left() != Some(0) && self.model_calls.take()
    }

    /// What is used up.
    pub(super) fn used_up(&self) -> Option<String> {
        let accounts = [("steps", &self.steps), ("tokens", &self.tokens), ("model calls", &self.model_calls)];
        let (what, account) = accounts.into_iter().find(|(_, account)| account.left() == Some(0))?;
        let limit = account.limit.unwrap_or_default();
        Some(format!("the budget of the whole run is used up ({what}: {limit})"))
    }

    /// How long an answer may be.
    pub(super) fn longest_answer(&self) -> Option<u32> {
        self.tokens.left().map(|left| u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Counts what an answer cost.
    pub(super) fn pay(&self, usage: Usage) {
        self.tokens.spent.fetch_add(usage.input_tokens + usage.output_tokens, Ordering::Relaxed);
    }
}
