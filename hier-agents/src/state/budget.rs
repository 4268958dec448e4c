//! The budget of a whole hierarchy.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::price::ModelPrice;
use hier_checkpoint::message::{Usage, Usd};
use hier_checkpoint::sync::lock;

/// A length of a reply, in tokens, that every model supports.
const SHORT_ANSWER: u64 = 4_096;
const COST: &str = "cost";

/// A limit on the model calls, the tokens, the cost and the executed nodes of all agents in a run. Each subagent
/// receives a share of the budget, so that no agent can use up the resources that the others need.
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
///
/// A budget belongs to one run. Create a new budget for the [`BaseContext`](crate::BaseContext) of each run.
///
/// * **A subagent with a policy** may spend the rest of its supervisor's budget, except for a reserve for the
///   supervisor's report. The reserve is one model call, and a tenth of the remaining tokens, cost and nodes. Parallel
///   subagents get equal shares. When a subagent ends, the unspent part of its share returns to the supervisor.
/// * **A subagent without a policy** spends its supervisor's share.
/// * **Background subagents** that the supervisor's model starts in one reply get equal shares, and the supervisor
///   keeps a share of the same size. A subagent's share stays reserved until the subagent ends.
///
/// When an agent has spent its share, it ends with a partial report
/// ([`AgentLimit::Budget`](crate::AgentLimit::Budget)), and its supervisor continues. When the whole budget is spent,
/// all agents end, and therefore the run ends.
#[derive(Debug, Default)]
pub struct Budget {
    model_calls: BudgetAccount,
    tokens: BudgetAccount,
    /// In picodollars.
    cost: BudgetAccount,
    steps: BudgetAccount,
    /// The larger budget, if this budget is a share of it.
    above: Option<Arc<Self>>,
    /// The call for which the budgets above have reserved this share. They do not limit a reserved share.
    reserved_for: Option<ReservedCall>,
    /// The last division of this budget into shares.
    divided: Mutex<Option<Division>>,
    /// The rests of reserved shares that were returned. A call that continues gets its rest again.
    rests: Mutex<BTreeMap<ReservedCall, Share>>,
}

/// The ids of an answer and of its call that starts a background subagent.
type ReservedCall = (Option<Arc<str>>, Arc<str>);

/// Equal shares of parallel subagents.
#[derive(Debug)]
struct Division {
    /// The id of the answer that calls the subagents.
    answer: Arc<str>,
    share: Share,
}

/// The limits of a subagent, in the order of [`Budget::accounts`].
type Share = [Option<u64>; 4];

/// The limit and the use of one resource.
#[derive(Debug, Default)]
struct BudgetAccount {
    limit: Option<u64>,
    spent: AtomicU64,
    /// The amount that counts against the limit: reserved shares in full, and all other spending.
    committed: AtomicU64,
}

/// The resources that a run has spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The number of model requests.
    pub model_calls: u64,
    /// The number of input and output tokens, as reported by the providers.
    pub tokens: u64,
    /// The cost of all replies whose cost is known. The cost is unknown if the model has no price and does not report
    /// its costs.
    pub cost: Usd,
    /// The number of times that a node of an agent has run. Nodes of other graphs do not count.
    pub steps: u64,
}

/// Returns the part of a resource that a supervisor may pass on.
fn but_a_tenth(left: u64) -> u64 {
    left - left.div_ceil(10)
}

impl BudgetAccount {
    fn limited(limit: impl Into<Option<u64>>) -> Self {
        Self { limit: limit.into(), ..Self::default() }
    }

    fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Spends one unit if one is left.
    fn spend_one(&self) -> bool {
        let more =
            |committed: u64| self.limit.is_none_or(|limit| committed < limit).then(|| committed.saturating_add(1));
        let is_left = self.committed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if is_left {
            self.note(1);
        }
        is_left
    }

    fn refund_one(&self) {
        self.spent.fetch_sub(1, Ordering::Relaxed);
        self.committed.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts an amount as spent, independent of the limit.
    fn note(&self, amount: u64) {
        change(&self.spent, |spent| spent.saturating_add(amount));
    }

    fn commit(&self, amount: u64) {
        change(&self.committed, |committed| committed.saturating_add(amount));
    }

    /// Counts an amount against the limit, at most the amount that is left. Returns the counted amount.
    fn take_up_to(&self, amount: u64) -> u64 {
        let mut taken = 0;
        change(&self.committed, |committed| {
            taken = amount.min(self.limit.unwrap_or(u64::MAX).saturating_sub(committed));
            committed.saturating_add(taken)
        });
        taken
    }

    fn release(&self, amount: u64) {
        change(&self.committed, |committed| committed.saturating_sub(amount));
    }

    /// Returns the unspent amount of a share.
    fn rest(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.spent()))
    }

    /// Releases the unspent part of a reserved share. If the share was exceeded, counts the excess.
    fn settle(&self, share: &Self) {
        let Some(reserved) = share.limit else { return };
        change(&self.committed, |committed| committed.saturating_add(share.spent()).saturating_sub(reserved));
    }

    fn left(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.committed.load(Ordering::Relaxed)))
    }
}

fn change(count: &AtomicU64, mut to: impl FnMut(u64) -> u64) {
    // The update always succeeds.
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(to(old)));
}

impl Drop for Budget {
    /// Returns the rest of a reserved share.
    fn drop(&mut self) {
        let Some((above, call)) = self.above.as_ref().zip(self.reserved_for.take()) else { return };
        lock(&above.rests).insert(call, self.accounts().map(BudgetAccount::rest));
        for budget in above.limiting() {
            budget.accounts().into_iter().zip(self.accounts()).for_each(|(account, share)| account.settle(share));
        }
    }
}

impl Budget {
    /// Creates a budget without limits, which only counts what the run spends.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the number of model requests of all agents and nodes of the run together.
    #[must_use]
    pub fn model_calls(mut self, limit: u64) -> Self {
        self.model_calls = BudgetAccount::limited(limit);
        self
    }

    /// Limits the number of input and output tokens. When at most 4,096 tokens remain, hier also limits the length of
    /// each reply to the remaining tokens. The usage of a request is known only after the reply, so the last request
    /// can exceed the limit.
    #[must_use]
    pub fn tokens(mut self, limit: u64) -> Self {
        self.tokens = BudgetAccount::limited(limit);
        self
    }

    /// Limits the cost in US dollars. When the remaining amount pays for at most 4,096 output tokens, hier also limits
    /// the length of each reply to these tokens. The cost of a request is known only after the reply, so the last
    /// request can exceed the limit. A negative amount or NaN counts as 0: agents make no model requests.
    ///
    /// Each model needs a price in [`BaseContext::prices`](crate::BaseContext::prices), unless it
    /// [reports its costs](crate::ChatModel::reports_cost). Otherwise the request fails with
    /// [`UnknownPrice`](crate::UnknownPrice) before it is sent.
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost = BudgetAccount::limited(Usd::from_dollars(usd).picodollars());
        self
    }

    /// Limits the number of times that nodes of agents run. For example, each model request and each tool call of an
    /// agent runs a node. Nodes of other graphs do not count. At the limit, agents make no further model requests.
    #[must_use]
    pub fn steps(mut self, limit: u64) -> Self {
        self.steps = BudgetAccount::limited(limit);
        self
    }

    /// Returns the resources that the run has spent so far.
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
        Arc::new(self.limited_to(self.division(answer, if answer.is_some() { among } else { 1 })))
    }

    /// Reserves the share of one of `among` background subagents that this answer of a model starts. The share is at
    /// most the amount that is left, and the supervisor keeps a share of the same size. Dropping the share returns the
    /// rest of it, with which the call can continue.
    pub(crate) fn reserve(self: &Arc<Self>, answer: Option<&Arc<str>>, call: &Arc<str>, among: u64) -> Arc<Self> {
        let call = (answer.cloned(), call.clone());
        let rest = lock(&self.rests).remove(&call);
        let mut reserved = rest.unwrap_or_else(|| self.division(answer, among.saturating_add(1)));
        for (account, amount) in reserved.iter_mut().enumerate() {
            *amount = amount.map(|amount| self.commit_up_to(account, amount));
        }
        let mut share = self.limited_to(reserved);
        share.reserved_for = Some(call);
        Arc::new(share)
    }

    /// Commits an amount at all levels that limit this budget, at most the amount that is left at each of them. Returns
    /// the committed amount.
    fn commit_up_to(&self, account: usize, mut amount: u64) -> u64 {
        let mut taken = Vec::new();
        for budget in self.limiting() {
            amount = budget.accounts()[account].take_up_to(amount);
            taken.push(amount);
        }
        self.limiting().zip(taken).for_each(|(budget, taken)| budget.accounts()[account].release(taken - amount));
        amount
    }

    /// Returns the share of one of `among` subagents that this answer calls.
    fn division(&self, answer: Option<&Arc<str>>, among: u64) -> Share {
        match answer.filter(|_| among > 1) {
            None => self.shares(among.max(1)),
            Some(answer) => {
                // The first subagent divides, because the remaining budget may have changed when the others start.
                let mut divided = lock(&self.divided);
                match divided.as_ref().filter(|division| division.answer == *answer) {
                    Some(division) => division.share,
                    None => divided.insert(Division { answer: answer.clone(), share: self.shares(among) }).share,
                }
            }
        }
    }

    fn limited_to(self: &Arc<Self>, share: Share) -> Self {
        let [model_calls, tokens, cost, steps] = share.map(BudgetAccount::limited);
        Self {
            model_calls,
            tokens,
            cost,
            steps,
            above: Some(self.clone()),
            reserved_for: None,
            divided: Mutex::default(),
            rests: Mutex::default(),
        }
    }

    fn accounts(&self) -> [&BudgetAccount; 4] {
        [&self.model_calls, &self.tokens, &self.cost, &self.steps]
    }

    /// Returns one of `among` equal shares of the remaining budget.
    fn shares(&self, among: u64) -> Share {
        let [model_calls, others @ ..] = self.accounts().map(BudgetAccount::left);
        let [tokens, cost, steps] = others.map(|left| Some(but_a_tenth(left?) / among));
        [model_calls.map(|left| left.saturating_sub(1) / among), tokens, cost, steps]
    }

    /// Iterates over this share and the larger budgets that contain it, up to the whole budget.
    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.above.as_deref())
    }

    /// Iterates over the levels whose rest limits this budget: up to the whole budget, or up to a reserved share.
    fn limiting(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.above.as_deref().filter(|_| budget.reserved_for.is_none()))
    }

    /// Counts an amount as spent at all levels, and against the limits that apply to this budget.
    fn count(&self, account: fn(&Self) -> &BudgetAccount, amount: u64) {
        self.levels().for_each(|budget| account(budget).note(amount));
        self.limiting().for_each(|budget| account(budget).commit(amount));
    }

    pub(crate) fn count_step(&self) {
        self.count(|budget| &budget.steps, 1);
    }

    /// Spends one model call, if a call is left and no other resource is used up.
    pub(crate) fn spend_call(&self) -> bool {
        let is_used_up =
            |budget: &Self| [&budget.steps, &budget.tokens, &budget.cost].iter().any(|it| it.left() == Some(0));
        if self.limiting().any(is_used_up) {
            return false;
        }
        // If another agent takes the last call of an outer level meanwhile, the inner levels are restored.
        let refused = self.limiting().enumerate().find(|(_, budget)| !budget.model_calls.spend_one());
        match refused {
            Some((taken, _)) => self.limiting().take(taken).for_each(|budget| budget.model_calls.refund_one()),
            None => self.levels().skip(self.limiting().count()).for_each(|budget| budget.model_calls.note(1)),
        }
        refused.is_none()
    }

    /// Returns true if this number of model calls is left and no other resource is used up.
    pub(crate) fn has_calls(&self, calls: u64) -> bool {
        let is_left = |account: &BudgetAccount, wanted| account.left().is_none_or(|left| left >= wanted);
        self.limiting().all(|budget| {
            is_left(&budget.model_calls, calls)
                && [&budget.steps, &budget.tokens, &budget.cost].into_iter().all(|account| is_left(account, 1))
        })
    }

    pub(crate) fn limits_cost(&self) -> bool {
        self.limiting().any(|budget| budget.cost.limit.is_some())
    }

    /// Describes the resource that is used up.
    pub(crate) fn used_up(&self) -> Option<String> {
        self.limiting().find_map(|budget| {
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
        let tokens = self.limiting().filter_map(|budget| budget.tokens.left()).min();
        let money = self.limiting().filter_map(|budget| budget.cost.left()).min().map(Usd::from_picodollars);
        let bought = money.zip(price).and_then(|(money, price)| price.output_tokens_for(money));
        let left = tokens.into_iter().chain(bought).min();
        left.filter(|left| *left <= SHORT_ANSWER).and_then(|left| u32::try_from(left).ok())
    }

    pub(crate) fn add_usage(&self, usage: Usage) {
        let cost = usage.cost.unwrap_or_default().picodollars();
        self.count(|budget| &budget.tokens, usage.total());
        self.count(|budget| &budget.cost, cost);
    }
}
