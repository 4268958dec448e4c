//! Cost of answers, in tokens.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// The cost of a model's answer, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt, including cached ones.
    pub input_tokens: u64,
    /// Tokens of the answer, including its reasoning.
    pub output_tokens: u64,
    /// The part of the input tokens that the provider read from its cache at a lower price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// The part of the input tokens that the provider wrote to its cache at a higher price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// The part of the output tokens that the model used for reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Creates the usage of an answer.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    /// Sets the input tokens that were read from the provider's cache.
    #[must_use]
    pub fn with_cached(self, cached_tokens: u64) -> Self {
        Self { cached_tokens, ..self }
    }

    /// Sets the input tokens that were written to the provider's cache.
    #[must_use]
    pub fn with_cache_write(self, cache_write_tokens: u64) -> Self {
        Self { cache_write_tokens, ..self }
    }

    /// Sets the output tokens that were used for reasoning.
    #[must_use]
    pub fn with_reasoning(self, reasoning_tokens: u64) -> Self {
        Self { reasoning_tokens, ..self }
    }

    /// Returns the number of all tokens: prompt and answer.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
