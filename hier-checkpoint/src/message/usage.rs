//! The cost of replies, in tokens and in money.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use super::Usd;

/// The token usage of a model call, and its cost if the price of the model is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// The number of tokens in the request, including cached tokens.
    pub input_tokens: u64,
    /// The number of tokens in the reply, including reasoning.
    pub output_tokens: u64,
    /// The number of input tokens that the provider read from its cache. Their price is lower than that of other input
    /// tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// The number of input tokens that the provider wrote to its cache. Their price is higher than that of other input
    /// tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// The number of output tokens that the model used for reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// The cost of all tokens. `None` if the price of the model is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Usd>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Creates the usage of a model call, without a cost.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    /// Sets the number of input tokens that were read from the provider's cache.
    #[must_use]
    pub fn with_cached(self, cached_tokens: u64) -> Self {
        Self { cached_tokens, ..self }
    }

    /// Sets the number of input tokens that were written to the provider's cache.
    #[must_use]
    pub fn with_cache_write(self, cache_write_tokens: u64) -> Self {
        Self { cache_write_tokens, ..self }
    }

    /// Sets the number of output tokens that were used for reasoning.
    #[must_use]
    pub fn with_reasoning(self, reasoning_tokens: u64) -> Self {
        Self { reasoning_tokens, ..self }
    }

    /// Sets the cost of all tokens.
    #[must_use]
    pub fn with_cost(self, cost: Usd) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// Returns the cost, or `None` if the tokens have no known price.
    fn known_cost(self) -> Option<Usd> {
        self.cost.or_else(|| (self.total() == 0).then_some(Usd::ZERO))
    }

    /// Returns the sum of input and output tokens.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Adds tokens and costs. The sum has a cost only if both costs are known. An empty usage costs nothing.
impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let is_priced = self.cost.is_some() || other.cost.is_some();
        let cost = self.known_cost().zip(other.known_cost()).map(|(own, other)| own + other);
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            cost: cost.filter(|_| is_priced),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_has_a_cost_if_all_parts_have_one() {
        let (priced, free) =
            (Usage::new(1, 1).with_cost(Usd::from_dollars(0.5)), Usage::new(1, 1).with_cost(Usd::ZERO));
        let (unknown, none) = (Usage::new(1, 1), Usage::default());
        assert_eq!((none + priced).cost, Some(Usd::from_dollars(0.5)));
        assert_eq!((priced + priced + free).cost, Some(Usd::from_dollars(1.0)));
        assert_eq!(((priced + unknown).cost, (unknown + priced + priced).cost), (None, None));
        assert_eq!(((none + none).cost, (none + unknown).cost), (None, None));
    }
}
