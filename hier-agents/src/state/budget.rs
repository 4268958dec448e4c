//! What a whole hierarchy may spend.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hier_checkpoint::message::Usage;
use hier_checkpoint::sync::lock;

/// As many tokens every model can answer with.
const SHORT_ANSWER: u64 = 4_096;

/// What a whole run may spend: model calls, tokens, steps of agents. No agent of the tree can exceed it, and none can use up
/// what the others need: it is divided where a subagent with a policy is called.
///
/// A subagent may spend what its supervisor has left, less one model call and a tenth of the tokens and steps, by which the
/// supervisor can still report. Subagents that are called side by side have equal shares of that; what one does not spend
/// stays with the supervisor. A subagent without a policy spends what its supervisor has. Where an agent's share is used up
/// it ends with what it has, as one does that exceeds its iterations, and its supervisor goes on; where the whole is used
/// up, so do all, and the run ends.
///
/// It belongs to one run: put a fresh one into the [`BaseContext`](crate::BaseContext) of each.
///
/// ```
/// use hier_agents::Budget;
/// use hier_testkit::ScriptedModel;
/// use hier_agents::prelude::*;
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
    /// What this is a share of.
    above: Option<Arc<Self>>,
    /// How it was divided last.
    divided: Mutex<Option<Division>>,
}

/// Equal shares for subagents that are called side by side.
#[derive(Debug)]
struct Division {
    /// The answer of the model that calls them.
    answer: Arc<str>,
    share: Share,
}

/// What one subagent may spend, as far as it is limited.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    model_calls: Option<u64>,
    tokens: Option<u64>,
    steps: Option<u64>,
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

/// What a supervisor gives away of what it has.
fn but_a_tenth(left: u64) -> u64 {
    left - left.div_ceil(10)
}

impl Account {
    fn limited(limit: impl Into<Option<u64>>) -> Self {
        Self { limit: limit.into(), spent: AtomicU64::new(0) }
    }

    fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Takes one, if there is one left.
    fn take(&self) -> bool {
        let more = |spent: u64| self.limit.is_none_or(|limit| spent < limit).then(|| spent.saturating_add(1));
        self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self) {
        self.spent.fetch_sub(1, Ordering::Relaxed);
    }

    fn add(&self, amount: u64) {
        let more = |spent: u64| Some(spent.saturating_add(amount));
        // It always changes it.
        let _ = self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
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

    /// The share of a subagent that is one of `among` which this answer of a model calls.
    pub(crate) fn share(self: &Arc<Self>, answer: Option<&Arc<str>>, among: u64) -> Arc<Self> {
        let share = match answer.filter(|_| among > 1) {
            None => self.shares(1),
            Some(answer) => {
                // The first of them divides; by the time that the others come, it may have spent something.
                let mut divided = lock(&self.divided);
                match divided.as_ref().filter(|division| division.answer == *answer) {
                    Some(division) => division.share,
                    None => divided.insert(Division { answer: answer.clone(), share: self.shares(among) }).share,
                }
            }
        };
        Arc::new(Self {
            model_calls: Account::limited(share.model_calls),
            tokens: Account::limited(share.tokens),
            steps: Account::limited(share.steps),
            above: Some(self.clone()),
            divided: Mutex::default(),
        })
    }

    /// One of so many equal shares of what is left.
    fn shares(&self, among: u64) -> Share {
        Share {
            model_calls: self.model_calls.left().map(|left| left.saturating_sub(1) / among),
            tokens: self.tokens.left().map(|left| but_a_tenth(left) / among),
            steps: self.steps.left().map(|left| but_a_tenth(left) / among),
        }
    }

    /// This share, what it is a share of, and so on up to the whole.
    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.above.as_deref())
    }

    /// Counts a node.
    pub(crate) fn step(&self) {
        self.levels().for_each(|budget| budget.steps.add(1));
    }

    /// Takes one call of a model, if there is one left and nothing else is used up.
    pub(crate) fn take_call(&self) -> bool {
        if self.levels().any(|budget| budget.steps.left() == Some(0) || budget.tokens.left() == Some(0)) {
            return false;
        }
        // Another agent may take the last one of a level further up meanwhile: then what was taken is given back.
        let refused = self.levels().enumerate().find(|(_, budget)| !budget.model_calls.take());
        if let Some((taken, _)) = refused {
            self.levels().take(taken).for_each(|budget| budget.model_calls.give_back());
        }
        refused.is_none()
    }

    /// Whether a model may be asked this often.
    pub(crate) fn has_calls(&self, calls: u64) -> bool {
        let is_left = |account: &Account, wanted| account.left().is_none_or(|left| left >= wanted);
        self.levels().all(|budget| {
            is_left(&budget.model_calls, calls) && is_left(&budget.steps, 1) && is_left(&budget.tokens, 1)
        })
    }

    /// What is used up.
    pub(crate) fn used_up(&self) -> Option<String> {
        self.levels().find_map(|budget| {
            let accounts = [("steps", &budget.steps), ("tokens", &budget.tokens), ("model calls", &budget.model_calls)];
            let (what, account) = accounts.into_iter().find(|(_, account)| account.left() == Some(0))?;
            let limit = account.limit.unwrap_or_default();
            let whose =
                if budget.above.is_some() { "the agent's share of the budget" } else { "the budget of the whole run" };
            Some(format!("{whose} is used up ({what}: {limit})"))
        })
    }

    /// How long an answer may be, where so little is left that it has to be said: providers refuse a number that is greater
    /// than what their model can answer.
    pub(crate) fn longest_answer(&self) -> Option<u32> {
        let left = self.levels().filter_map(|budget| budget.tokens.left()).min();
        left.filter(|left| *left <= SHORT_ANSWER).and_then(|left| u32::try_from(left).ok())
    }

    /// Counts what an answer cost.
    pub(crate) fn pay(&self, usage: Usage) {
        self.levels().for_each(|budget| budget.tokens.add(usage.total()));
    }
}
