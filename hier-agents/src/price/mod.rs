//! Prices of models, and the costs of their replies.
//!
//! [`ModelPrice`] turns the [`Usage`] of a reply into money. The rule is the same for all providers, because their
//! adapters report usage in one form: the input tokens include those that were read from the cache or written to it,
//! and the output tokens include those of the reasoning. Each token is priced once.

mod published;
mod read;

use std::collections::BTreeMap;

use crate::model::ChatModel;
use crate::options::{ModelOptions, PromptCache};
use hier_checkpoint::message::{Usage, Usd};
use hier_spec::nearest;

pub use published::PUBLISHED_PRICES_DATE;

/// The price of a model, in US dollars per million tokens. Prices are exact to six decimal places.
///
/// ```
/// use hier_agents::{ModelPrice, Usage, Usd};
///
/// const PRICE: ModelPrice = ModelPrice::new(3.0, 15.0).cached_input(0.3).cache_write(3.75);
///
/// // 1,000 input tokens, 800 of them from the cache, and 100 output tokens.
/// let usage = Usage::new(1_000, 100).with_cached(800);
/// assert_eq!(PRICE.cost(usage), Usd::from_dollars(0.002_34));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct ModelPrice {
    rates: Rates,
    /// The number of input tokens beyond which a request has other rates.
    long_prompts: Option<(u64, Rates)>,
}

/// Picodollars per token, which are microdollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rates {
    input: u64,
    output: u64,
    cached_input: Option<u64>,
    cache_write: Option<u64>,
    long_cache_write: Option<u64>,
    reasoning: Option<u64>,
}

/// The highest price per million tokens, in US dollars.
const HIGHEST: f64 = 1_000_000.0;

const fn is_price(usd: f64) -> bool {
    usd >= 0.0 && usd <= HIGHEST
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the asserted range
const fn rate(usd: f64) -> u64 {
    assert!(is_price(usd), "a price is a number of US dollars per million tokens, from 0 to 1,000,000");
    (usd * 1_000_000.0).round() as u64
}

impl ModelPrice {
    /// The price of a model that costs nothing, such as a local one.
    pub const FREE: Self = Self::new(0.0, 0.0);

    /// Creates a price from the prices of input and output tokens, in US dollars per million tokens.
    ///
    /// # Panics
    ///
    /// Panics if a price is negative, not a number, or above 1,000,000 dollars. The other functions of this type that
    /// take a price panic in the same cases. In a constant, such a price is a compile error. Deserializing such a price
    /// returns an error instead.
    pub const fn new(input: f64, output: f64) -> Self {
        let rates = Rates {
            input: rate(input),
            output: rate(output),
            cached_input: None,
            cache_write: None,
            long_cache_write: None,
            reasoning: None,
        };
        Self { rates, long_prompts: None }
    }

    /// Sets the price of input tokens that the provider reads from its cache. Defaults to the price of input tokens.
    pub const fn cached_input(mut self, usd: f64) -> Self {
        self.rates.cached_input = Some(rate(usd));
        self
    }

    /// Sets the price of input tokens that the provider writes to its cache. Defaults to the price of input tokens.
    pub const fn cache_write(mut self, usd: f64) -> Self {
        self.rates.cache_write = Some(rate(usd));
        self
    }

    /// Sets the price of input tokens that the provider writes to its cache for a request with [`PromptCache::Long`].
    /// Defaults to the price of other cache writes.
    pub const fn long_cache_write(mut self, usd: f64) -> Self {
        self.rates.long_cache_write = Some(rate(usd));
        self
    }

    /// Sets the price of reasoning tokens. Defaults to the price of output tokens.
    pub const fn reasoning(mut self, usd: f64) -> Self {
        self.rates.reasoning = Some(rate(usd));
        self
    }

    /// Sets a second price for long requests. If a request has more than `input_tokens` input tokens, `price` applies
    /// to all of its tokens.
    ///
    /// # Panics
    ///
    /// Panics if this price or `price` already has a second price.
    pub const fn above(mut self, input_tokens: u64, price: Self) -> Self {
        assert!(
            !self.has_long_prompts() && !price.has_long_prompts(),
            "a price can have only one second price, for requests above one number of input tokens"
        );
        self.long_prompts = Some((input_tokens, price.rates));
        self
    }

    pub(super) const fn has_long_prompts(&self) -> bool {
        self.long_prompts.is_some()
    }

    /// Returns the cost of a reply with this usage. For tokens that the provider wrote to its cache, this function uses
    /// the price of [`cache_write`](Self::cache_write), not of [`long_cache_write`](Self::long_cache_write).
    pub fn cost(&self, usage: Usage) -> Usd {
        let rates = match self.long_prompts {
            Some((tokens, rates)) if usage.input_tokens > tokens => rates,
            _ => self.rates,
        };
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let reasoning = usage.reasoning_tokens.min(usage.output_tokens);
        let parts = [
            (usage.input_tokens - cached - written, rates.input),
            (cached, rates.cached_input.unwrap_or(rates.input)),
            (written, rates.cache_write.unwrap_or(rates.input)),
            (usage.output_tokens - reasoning, rates.output),
            (reasoning, rates.reasoning.unwrap_or(rates.output)),
        ];
        let sum: u128 = parts.iter().map(|(tokens, rate)| u128::from(*tokens) * u128::from(*rate)).sum();
        Usd::from_picodollars(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    pub(crate) fn for_request(mut self, options: &ModelOptions) -> Self {
        if options.cache == Some(PromptCache::Long) {
            let long = |rates: &mut Rates| rates.cache_write = rates.long_cache_write.or(rates.cache_write);
            long(&mut self.rates);
            if let Some((_, rates)) = &mut self.long_prompts {
                long(rates);
            }
        }
        self
    }

    /// Returns the number of output tokens that this amount buys, at least one. Returns `None` if output tokens cost
    /// nothing.
    pub(crate) fn output_tokens_for(&self, amount: Usd) -> Option<u64> {
        let Rates { output, reasoning, .. } = self.rates;
        amount.picodollars().checked_div(output.max(reasoning.unwrap_or(0))).map(|tokens| tokens.max(1))
    }
}

/// The prices of models by name, for [`BaseContext::prices`](crate::BaseContext::prices).
///
/// Use the name that [`ChatModel::name`] returns. A price also applies to dated snapshots of the model that have no
/// price of their own, such as `gpt-6-2026-01-31`, `claude-opus-5-20260724` and `claude-opus-5@20260724`. If the price
/// depends on the provider, put the provider's name ([`ChatModel::provider`]) in front: `azure.ai.openai:gpt-6`.
///
/// In JSON and other serde formats, the table is a map from names to prices:
///
/// ```
/// use hier_agents::{ModelPrice, Prices};
///
/// let prices: Prices = serde_json::from_str(r#"{
///     "house-model": { "input": 0.5, "cached_input": 0.05, "output": 2 },
///     "draft-model": { "input": 0, "output": 0 }
/// }"#)?;
/// assert_eq!(prices.get("house-model"), Some(ModelPrice::new(0.5, 2.0).cached_input(0.05)));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, ModelPrice>);

impl Prices {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a table with list prices of some models, as their providers published them on [`PUBLISHED_PRICES_DATE`].
    /// The table does not include discounts, prices for priority or batch requests, or taxes.
    ///
    /// Prices change. Check the prices of your models, and set new prices with [`model`](Self::model).
    pub fn published() -> Self {
        Self(published::PUBLISHED_PRICES.iter().map(|(name, price)| ((*name).to_owned(), *price)).collect())
    }

    /// Sets the price of a model.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, price: ModelPrice) -> Self {
        self.0.insert(name.into(), price);
        self
    }

    /// Returns the price that the table contains for exactly this name, or `None` if it contains none.
    pub fn get(&self, name: &str) -> Option<ModelPrice> {
        self.0.get(name).copied()
    }

    /// Returns the price of a model. If the table has no price for a dated snapshot, returns the price of the model
    /// without the date.
    ///
    /// # Errors
    ///
    /// Fails if the table has no price for the model.
    pub fn price_of(&self, model: &dyn ChatModel) -> Result<ModelPrice, UnknownPrice> {
        let (provider, name) = (model.provider(), model.name());
        let names = [Some(name), without_date(name)];
        let found =
            names.into_iter().flatten().find_map(|name| self.get(&format!("{provider}:{name}")).or(self.get(name)));
        found.ok_or_else(|| UnknownPrice::new(self, model))
    }
}

/// Returns the name without the date of a snapshot at its end.
fn without_date(name: &str) -> Option<&str> {
    let is_date = |text: &str| {
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        digits == 8 && (text.len() == 8 || (text.len() == 10 && text.split('-').map(str::len).eq([4, 2, 2])))
    };
    let mut separators = name.match_indices(['-', '@']);
    separators.find(|(place, _)| is_date(&name[place + 1..])).map(|(place, _)| &name[..place])
}

/// The error of a request to a model without a price, if a cost limit applies to the request. hier does not send the
/// request.
///
/// Use [`UnknownPrice::find_in`] to find this error in a [`RunError`](hier_core::RunError).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the run has a cost limit, but the model `{model}` has no price{hint}: set \
     `BaseContext::prices(Prices::published().model(\"{model}\", ModelPrice::new(input, output)))`, in US dollars per \
     million tokens; the published prices are those of {PUBLISHED_PRICES_DATE}"
)]
pub struct UnknownPrice {
    model: String,
    hint: String,
}

impl UnknownPrice {
    pub(crate) fn new(prices: &Prices, model: &dyn ChatModel) -> Self {
        let near = nearest(model.name(), prices.0.keys().map(String::as_str));
        let hint = near.map(|near| format!(" (`{near}` has one)")).unwrap_or_default();
        Self { model: model.name().to_owned(), hint }
    }

    /// Returns the name of the model that has no price.
    pub fn model(&self) -> &str {
        &self.model
    }
}

#[cfg(test)]
mod tests;
