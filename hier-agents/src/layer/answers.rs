//! Counts of the answers that models give to a call, for the layers around the call.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

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
/// adds this counter to the counter that it received, even if the call has failed.
#[derive(Debug, Default)]
pub(crate) struct AnswerCounter {
    counted: Mutex<CountedAnswers>,
    /// The answers of failed calls that a layer has not stored yet, by the key of the layer. An outer layer may repeat
    /// the call, and the inner layer then stores these answers with the reply.
    unstored: Arc<Mutex<BTreeMap<String, CountedAnswers>>>,
}

#[derive(Clone, Debug, Default)]
struct CountedAnswers {
    once: Answers,
    /// The answers of recorded steps, by the ids of the records. A call that repeats a failed call finds the records
    /// again, and must not count their answers twice.
    recorded: BTreeMap<Uuid, Answers>,
}

impl CountedAnswers {
    fn add_all(&mut self, Self { once, recorded }: Self) {
        self.once += once;
        self.recorded.extend(recorded);
    }
}

impl AnswerCounter {
    /// Creates a counter for the inner layers of a call that this counter counts.
    pub(super) fn inner(&self) -> Self {
        Self { counted: Mutex::default(), unstored: self.unstored.clone() }
    }

    pub(crate) fn add(&self, more: Answers) {
        lock(&self.counted).once += more;
    }

    /// Adds the answers of a recorded step, unless they are counted already.
    pub(super) fn add_recorded(&self, record: Uuid, answers: Answers) {
        lock(&self.counted).recorded.insert(record, answers);
    }

    pub(super) fn add_all(&self, inner: &Self) {
        let more = lock(&inner.counted).clone();
        lock(&self.counted).add_all(more);
    }

    /// Keeps the answers of a failed call of this layer until a repeated call succeeds.
    pub(super) fn keep_unstored(&self, layer: &str) {
        let counted = lock(&self.counted).clone();
        lock(&self.unstored).entry(layer.to_owned()).or_default().add_all(counted);
    }

    /// Adds the answers of earlier calls of this layer that have failed.
    pub(super) fn add_unstored(&self, layer: &str) {
        let earlier = lock(&self.unstored).remove(layer).unwrap_or_default();
        lock(&self.counted).add_all(earlier);
    }

    pub(super) fn get(&self) -> Answers {
        let counted = lock(&self.counted);
        let mut total = counted.once;
        counted.recorded.values().for_each(|answers| total += *answers);
        total
    }
}
