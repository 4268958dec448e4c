//! The budget of a whole hierarchy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::price::ModelPrice;
use hier_checkpoint::message::{Usage, Usd};
use hier_checkpoint::sync::lock;

/// A number of tokens that every model can answer with.
const SHORT_ANSWER: u64 = 4_096;
const COST: &str = "cost";

/// Limits the model calls, tokens, cost and agent steps of a whole run. No agent of the hierarchy can exceed it or use up
/// what the others need, because it is divided when a subagent with a policy is called.
///
/// A subagent may spend what its supervisor has left, minus a reserve for the supervisor's report: one model call, and
/// a tenth of the tokens, cost and steps. Parallel subagents get equal shares, and unspent shares stay with the supervisor. A
/// subagent without a policy spends its supervisor's share.
///
/// When an agent's share is used up, the agent ends with a partial report, as at `max_iterations`, and its supervisor
/// continues. When the whole budget is used up, all agents end, and so does the run.
///
/// A budget belongs to one run. Create a new one for the [`BaseContext`](crate::BaseContext) of each run.
///
/// ```
/// use hier_agents::{Budget, Prices};
/// use hier_testkit::ScriptedModel;
/// use hier_agents::prelude::*;
///
/// let budget = Budget::new().model_calls(200).cost(2.00);
/// let context = BaseContext::new(ScriptedModel::new([])).budget(budget).prices(Prices::published());
/// # let _ = context;
/// ```
#[derive(Debug, Default)]
pub struct Budget {
    model_calls: BudgetAccount,
    tokens: BudgetAccount,
    /// In picodollars.
    cost: BudgetAccount,
    steps: BudgetAccount,
    /// The budget that this is a share of.
    above: Option<Arc<Self>>,
    /// The last division into shares.
    divided: Mutex<Option<Division>>,
}

/// Equal shares of parallel subagents.
#[derive(Debug)]
struct Division {
    /// The id of the answer that calls them.
    answer: Arc<str>,
    share: Share,
}

/// The limits of a subagent.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    model_calls: Option<u64>,
    tokens: Option<u64>,
    cost: Option<u64>,
    steps: Option<u64>,
}

/// The limit and the use of one resource.
#[derive(Debug, Default)]
struct BudgetAccount {
    limit: Option<u64>,
    spent: AtomicU64,
}

/// The resources that were spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The number of requests to models.
    pub model_calls: u64,
    /// The number of input and output tokens, as reported by the providers.
    pub tokens: u64,
    /// The cost of the answers. Answers of models without a price are not counted.
    pub cost: Usd,
    /// The number of agent nodes that ran.
    pub steps: u64,
}

/// Returns the part of a resource that a supervisor may pass on.
fn but_a_tenth(left: u64) -> u64 {
    left - left.div_ceil(10)
}

impl BudgetAccount {
    fn limited(limit: impl Into<Option<u64>>) -> Self {
        Self { limit: limit.into(), spent: AtomicU64::new(0) }
    }

    fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Spends one unit if one is left.
    fn spend_one(&self) -> bool {
        let more = |spent: u64| self.limit.is_none_or(|limit| spent < limit).then(|| spent.saturating_add(1));
        self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn refund_one(&self) {
        self.spent.fetch_sub(1, Ordering::Relaxed);
    }

    fn add(&self, amount: u64) {
        let more = |spent: u64| Some(spent.saturating_add(amount));
        // The update always succeeds.
        let _ = self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    fn left(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.spent()))
    }
}

impl Budget {
    /// Creates a budget without limits, which only counts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the number of requests to models.
    #[must_use]
    pub fn model_calls(mut self, limit: u64) -> Self {
        self.model_calls = BudgetAccount::limited(limit);
        self
    }

    /// Limits the number of input and output tokens. Requests limit their answers to the remaining tokens. The cost of
    /// a request is known only afterwards, so the last one may exceed the budget.
    #[must_use]
    pub fn tokens(mut self, limit: u64) -> Self {
        self.tokens = BudgetAccount::limited(limit);
        self
    }

    /// Limits the cost in US dollars. Each model that is asked needs a price in
    /// [`BaseContext::prices`](crate::BaseContext::prices); a request to another one fails with
    /// [`UnknownPrice`](crate::UnknownPrice) before it is sent. Requests limit their answers to what the remaining
    /// amount buys. The cost of a request is known only afterwards, so the last one may exceed the budget.
    ///
    /// A negative amount or NaN is 0, and no model is asked.
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost = BudgetAccount::limited(Usd::from_dollars(usd).picodollars());
        self
    }

    /// Limits the number of agent nodes that may run before no model is asked again.
    #[must_use]
    pub fn steps(mut self, limit: u64) -> Self {
        self.steps = BudgetAccount::limited(limit);
        self
    }

    /// Returns the resources that were spent so far.
    pub fn spent(&self) -> Spent {
        Spent {
            model_calls: self.model_calls.spent(),
            tokens: self.tokens.spent(),
            cost: Usd::from_picodollars(self.cost.spent()),
            steps: self.steps.spent(),
        }
    }

    /// Returns the share of one of `among` subagents that this answer of a model calls.
    pub(crate) fn share(self: &Arc<Self>, answer: Option<&Arc<str>>, among: u64) -> Arc<Self> {
        let share = match answer.filter(|_| among > 1) {
            None => self.shares(1),
            Some(answer) => {
                // The first subagent divides, because the remaining budget may have changed when the others start.
                let mut divided = lock(&self.divided);
                match divided.as_ref().filter(|division| division.answer == *answer) {
                    Some(division) => division.share,
                    None => divided.insert(Division { answer: answer.clone(), share: self.shares(among) }).share,
                }
            }
        };
        Arc::new(Self {
            model_calls: BudgetAccount::limited(share.model_calls),
            tokens: BudgetAccount::limited(share.tokens),
            cost: BudgetAccount::limited(share.cost),
            steps: BudgetAccount::limited(share.steps),
            above: Some(self.clone()),
            divided: Mutex::default(),
        })
    }

    /// Returns one of `among` equal shares of the remaining budget.
    fn shares(&self, among: u64) -> Share {
        Share {
            model_calls: self.model_calls.left().map(|left| left.saturating_sub(1) / among),
            tokens: self.tokens.left().map(|left| but_a_tenth(left) / among),
            cost: self.cost.left().map(|left| but_a_tenth(left) / among),
            steps: self.steps.left().map(|left| but_a_tenth(left) / among),
        }
    }

    /// Iterates over this share, the budget that it is a share of, and so on up to the whole.
    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.above.as_deref())
    }

    /// Counts a node.
    pub(crate) fn count_step(&self) {
        self.levels().for_each(|budget| budget.steps.add(1));
    }

    /// Spends one model call, if one is left and nothing else is used up.
    pub(crate) fn spend_call(&self) -> bool {
        let is_used_up =
            |budget: &Self| [&budget.steps, &budget.tokens, &budget.cost].iter().any(|it| it.left() == Some(0));
        if self.levels().any(is_used_up) {
            return false;
        }
        // If another agent takes the last call of an outer level meanwhile, the inner levels are restored.
        let refused = self.levels().enumerate().find(|(_, budget)| !budget.model_calls.spend_one());
        if let Some((taken, _)) = refused {
            self.levels().take(taken).for_each(|budget| budget.model_calls.refund_one());
        }
        refused.is_none()
    }

    /// Returns true if this number of models may still be asked.
    pub(crate) fn has_calls(&self, calls: u64) -> bool {
        let is_left = |account: &BudgetAccount, wanted| account.left().is_none_or(|left| left >= wanted);
        self.levels().all(|budget| {
            is_left(&budget.model_calls, calls)
                && [&budget.steps, &budget.tokens, &budget.cost].into_iter().all(|account| is_left(account, 1))
        })
    }

    /// Returns true if the cost is limited.
    pub(crate) fn limits_cost(&self) -> bool {
        self.levels().any(|budget| budget.cost.limit.is_some())
    }

    /// Describes the resource that is used up.
    pub(crate) fn used_up(&self) -> Option<String> {
        self.levels().find_map(|budget| {
            let accounts = [
                ("steps", &budget.steps),
                ("tokens", &budget.tokens),
                (COST, &budget.cost),
                ("model calls", &budget.model_calls),
            ];
            let (what, account) = accounts.into_iter().find(|(_, account)| account.left() == Some(0))?;
            let limit = account.limit.unwrap_or_default();
            let limit = if what == COST { Usd::from_picodollars(limit).to_string() } else { limit.to_string() };
            let whose =
                if budget.above.is_some() { "the agent's share of the budget" } else { "the budget of the whole run" };
            Some(format!("{whose} is used up ({what}: {limit})"))
        })
    }

    /// Returns the maximum length of an answer of a model with this price, if few tokens or little money are left.
    /// Providers reject a number that exceeds their model's maximum, so a larger remainder is not sent.
    pub(crate) fn longest_answer(&self, price: Option<&ModelPrice>) -> Option<u32> {
        let tokens = self.levels().filter_map(|budget| budget.tokens.left()).min();
        let money = self.levels().filter_map(|budget| budget.cost.left()).min().map(Usd::from_picodollars);
        let bought = money.zip(price).and_then(|(money, price)| price.output_tokens_for(money));
        let left = tokens.into_iter().chain(bought).min();
        left.filter(|left| *left <= SHORT_ANSWER).and_then(|left| u32::try_from(left).ok())
    }

    /// Counts the cost of an answer.
    pub(crate) fn add_usage(&self, usage: Usage) {
        let cost = usage.cost.unwrap_or_default().picodollars();
        self.levels().for_each(|budget| {
            budget.tokens.add(usage.total());
            budget.cost.add(cost);
        });
    }
}
