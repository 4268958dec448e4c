//! Counts of the answers that models give to a call, for the layers around the call.

use std::ops::AddAssign;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use hier_checkpoint::message::{Usage, Usd};
use hier_checkpoint::sync::lock;

/// A number of answers, with their tokens and cost. Answers with an unknown cost add nothing to the cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answers {
    pub(super) count: u64,
    pub(super) tokens: u64,
    pub(super) cost: Usd,
}

impl Answers {
    pub(crate) fn one(usage: Usage) -> Self {
        Self { count: 1, tokens: usage.total(), cost: usage.cost.unwrap_or_default() }
    }
}

impl AddAssign for Answers {
    fn add_assign(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.cost += more.cost;
    }
}

/// Counts the answers to a call, including answers that no layer returns, such as summaries. The innermost end of the
/// layers adds each answer. A layer that needs the count of its inner layers passes its own counter to them. It then
/// adds the total of this counter to the counter that it received.
#[derive(Debug, Default)]
pub(crate) struct AnswerCounter(Mutex<Answers>);

impl AnswerCounter {
    pub(crate) fn add(&self, more: Answers) {
        *lock(&self.0) += more;
    }

    pub(super) fn get(&self) -> Answers {
        *lock(&self.0)
    }
}
