//! The list prices of some models.
//!
//! An entry needs a page of the provider that names the model's id and all its prices. Sources:
//! * Anthropic: <https://platform.claude.com/docs/en/about-claude/pricing>, and the model's own page, such as
//!   <https://platform.claude.com/docs/en/models/opus-5-5/overview>
//! * OpenAI: the model's page, such as <https://developers.openai.com/api/docs/models/gpt-6.2-sol>

use super::ModelPrice;

/// The date, as year-month-day, on which the prices of [`Prices::published`](super::Prices::published) were compared
/// with the documentation of the providers.
pub const PUBLISHED_PRICES_DATE: &str = "2026-11-26";

/// A price of Anthropic: input, output, cache reads, and cache writes for five minutes and for one hour.
const fn anthropic(input: f64, output: f64, read: f64, write: f64, long_write: f64) -> ModelPrice {
    ModelPrice::new(input, output).cached_input(read).cache_write(write).long_cache_write(long_write)
}

pub(super) const PUBLISHED_PRICES: &[(&str, ModelPrice)] = &[
    ("claude-opus-5-5", anthropic(4.0, 20.0, 0.2, 5.0, 8.0)),
    ("claude-opus-5", anthropic(5.0, 25.0, 0.5, 6.25, 10.0)),
    ("claude-opus-4-8", anthropic(5.0, 25.0, 0.5, 6.25, 10.0)),
    ("claude-opus-4-6", anthropic(5.0, 25.0, 0.5, 6.25, 10.0)),
    ("claude-opus-4-5", anthropic(5.0, 25.0, 0.5, 6.25, 10.0)),
    ("claude-sonnet-5", anthropic(2.0, 10.0, 0.2, 2.5, 4.0)),
    ("claude-sonnet-4-6", anthropic(3.0, 15.0, 0.3, 3.75, 6.0)),
    ("claude-haiku-4-5", anthropic(1.0, 5.0, 0.1, 1.25, 2.0)),
    (
        "gpt-6.2-sol",
        ModelPrice::new(2.0, 10.0)
            .cached_input(0.1)
            .cache_write(2.5)
            .long_cache_write(5.0)
            .above(272_000, ModelPrice::new(4.0, 15.0).cached_input(0.2).cache_write(5.0).long_cache_write(10.0)),
    ),
];
