//! Reads prices from configuration files.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{HIGHEST, ModelPrice, Prices, is_price};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFields {
    input: Amount,
    output: Amount,
    cached_input: Option<Amount>,
    cache_write: Option<Amount>,
    long_cache_write: Option<Amount>,
    reasoning: Option<Amount>,
    above: Option<LongPrompts>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongPrompts {
    input_tokens: u64,
    price: ModelPrice,
}

/// A number of US dollars that is a price.
#[derive(Clone, Copy)]
struct Amount(f64);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        if is_price(usd) {
            return Ok(Self(usd));
        }
        Err(D::Error::custom(format!(
            "`{usd}` is not a price: write US dollars per million tokens, from 0 to {HIGHEST}"
        )))
    }
}

type Setter = fn(ModelPrice, f64) -> ModelPrice;

impl<'de> Deserialize<'de> for ModelPrice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = PriceFields::deserialize(deserializer)?;
        let optional: [(Option<Amount>, Setter); 4] = [
            (fields.cached_input, Self::cached_input),
            (fields.cache_write, Self::cache_write),
            (fields.long_cache_write, Self::long_cache_write),
            (fields.reasoning, Self::reasoning),
        ];
        let mut price = Self::new(fields.input.0, fields.output.0);
        for (amount, set) in optional {
            price = amount.map_or(price, |Amount(usd)| set(price, usd));
        }
        Ok(match fields.above {
            Some(LongPrompts { price: long, .. }) if long.has_long_prompts() => {
                return Err(D::Error::custom(
                    "`above` cannot contain another `above`: a model has at most two prices, so remove the inner one",
                ));
            }
            Some(LongPrompts { input_tokens, price: long }) => price.above(input_tokens, long),
            None => price,
        })
    }
}

impl<'de> Deserialize<'de> for Prices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(Self)
    }
}
