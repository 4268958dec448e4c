use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::model::{ChatRequest, ModelError};
use hier_checkpoint::message::ChatResponse;

struct Named(&'static str, &'static str);

#[async_trait]
impl ChatModel for Named {
    fn name(&self) -> &str {
        self.1
    }

    fn provider(&self) -> &str {
        self.0
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatResponse, ModelError> {
        Err(ModelError::ScriptExhausted { model: self.1.to_owned(), asked: 1 })
    }
}

const PRICE: ModelPrice =
    ModelPrice::new(1.0, 10.0).cached_input(0.1).cache_write(2.0).long_cache_write(4.0).reasoning(20.0);

fn pico(amount: u64) -> Usd {
    Usd::from_picodollars(amount)
}

#[test]
fn each_token_is_priced_once() {
    let usage = Usage::new(100, 50).with_cached(60).with_cache_write(10).with_reasoning(20);
    let micro = 30 + 6 + 20 + 300 + 400;
    assert_eq!(PRICE.cost(usage), pico(micro * 1_000_000));
    // A token without its own price costs as much as any other input or output token.
    assert_eq!(ModelPrice::new(1.0, 10.0).cost(usage), pico(600 * 1_000_000));
    assert_eq!(ModelPrice::FREE.cost(usage), Usd::ZERO);
}

#[test]
fn impossible_counts_are_bounded_by_the_whole() {
    let wrong = Usage::new(10, 10).with_cached(1_000).with_cache_write(u64::MAX).with_reasoning(1_000);
    assert_eq!(PRICE.cost(wrong), pico((1 + 200) * 1_000_000));
    assert_eq!(PRICE.cost(Usage::new(u64::MAX, u64::MAX)), Usd::MAX);
}

#[test]
fn small_prices_are_exact() {
    let price = ModelPrice::new(0.037_5, 0.15);
    let thousand: Usd = (0..1_000).map(|_| price.cost(Usage::new(1, 0))).sum();
    assert_eq!(thousand, price.cost(Usage::new(1_000, 0)));
    assert_eq!(thousand, pico(37_500_000));
}

#[test]
fn long_prompts_have_their_own_price() {
    let price = ModelPrice::new(1.0, 1.0).above(100, ModelPrice::new(2.0, 3.0));
    assert_eq!(price.cost(Usage::new(100, 1)), pico(101 * 1_000_000));
    assert_eq!(price.cost(Usage::new(101, 1)), pico(205 * 1_000_000));
}

#[test]
fn cache_writes_for_an_hour_have_their_own_price() {
    let usage = Usage::new(10, 0).with_cache_write(10);
    let cost = |cache| PRICE.for_request(&ModelOptions::new().cache(cache)).cost(usage);
    assert_eq!(cost(PromptCache::Short), pico(20 * 1_000_000));
    assert_eq!(cost(PromptCache::Long), pico(40 * 1_000_000));
}

#[test]
fn name_covers_its_snapshots_and_a_provider_takes_precedence() {
    let price = |dollars| ModelPrice::new(dollars, 0.0);
    let prices = Prices::new()
        .model("gpt-9", price(1.0))
        .model("aws.bedrock:gpt-9", price(2.0))
        .model("gpt-9-2027-01-31", price(3.0));
    let found = |provider, name| prices.price_of(&Named(provider, name)).ok();
    assert_eq!(found("openai", "gpt-9"), Some(price(1.0)));
    assert_eq!(found("aws.bedrock", "gpt-9"), Some(price(2.0)));
    assert_eq!(found("openai", "gpt-9-2027-01-31"), Some(price(3.0)));
    for name in ["gpt-9-2028-01-31", "gpt-9-20280131", "gpt-9@20280131"] {
        assert_eq!(found("openai", name), Some(price(1.0)), "{name}");
        assert_eq!(found("aws.bedrock", name), Some(price(2.0)), "{name}");
    }
    for name in ["gpt-9-mini", "gpt-9-20", "gpt-9-2028-1-31", "gpt", "-20280131", "gpt-9-20280131-x", "gpt-9-é0280131"]
    {
        assert_eq!(found("openai", name), None, "{name}");
    }
}

#[test]
fn published_prices_are_unique_and_plausible() {
    let prices = Prices::published();
    assert_eq!(prices.0.len(), published::PUBLISHED_PRICES.len());
    for (name, price) in &prices.0 {
        let Rates { input, output, cached_input, cache_write, long_cache_write, .. } = price.rates;
        assert!(input < output && cached_input < Some(input), "{name}");
        assert!(Some(input) < cache_write && cache_write < long_cache_write, "{name}");
    }
    let long = Usage::new(300_000, 1_000).with_cached(100_000);
    let cost = prices.get("gpt-6.2-sol").unwrap().cost(long);
    assert_eq!(cost, Usd::from_dollars(0.2 * 4.0 + 0.1 * 0.2 + 0.001 * 15.0));
}

#[test]
fn date_of_published_prices_is_a_date() {
    let parts: Vec<u32> = PUBLISHED_PRICES_DATE.split('-').map(|part| part.parse().unwrap()).collect();
    let [year, month, day] = parts[..] else { panic!("year, month and day: {PUBLISHED_PRICES_DATE}") };
    assert!(year >= 2026 && (1..=12).contains(&month) && (1..=31).contains(&day) && PUBLISHED_PRICES_DATE.len() == 10);
}

#[test]
fn unknown_model_is_named_with_the_fix() {
    let error = Prices::new().model("gpt-9", ModelPrice::FREE).price_of(&Named("openai", "gtp-9")).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the run has a cost limit, but the model `gtp-9` has no price (`gpt-9` has one): set"));
    assert!(text.contains(".model(\"gtp-9\", ModelPrice::new(input, output))"), "{text}");
    assert!(text.ends_with(&format!("the published prices are those of {PUBLISHED_PRICES_DATE}")), "{text}");
    assert_eq!(error.model(), "gtp-9");
}

#[test]
fn configuration_is_checked() {
    let read = |price| serde_json::from_value::<ModelPrice>(price).map_err(|error| error.to_string());
    let above = json!({ "input_tokens": 100, "price": { "input": 2, "output": 3 } });
    let twice = json!({ "input_tokens": 50, "price": { "input": 1, "output": 2, "above": above } });
    let all = json!({
        "input": 1, "output": 10, "cached_input": 0.1, "cache_write": 2, "long_cache_write": 4, "reasoning": 20, "above": above,
    });
    assert_eq!(read(all), Ok(PRICE.above(100, ModelPrice::new(2.0, 3.0))));
    let wrong = [
        (json!({ "input": -1, "output": 0 }), "`-1` is not a price: write US dollars per million tokens"),
        (json!({ "input": 1e9, "output": 0 }), "is not a price"),
        (json!({ "input": 1 }), "missing field `output`"),
        (json!({ "input": 1, "output": 1, "cache": 1 }), "unknown field `cache`"),
        (json!({ "input": "1", "output": 1 }), "invalid type: string"),
        (json!({ "input": 1, "output": 1, "above": twice }), "`above` cannot contain another `above`"),
    ];
    for (price, message) in wrong {
        let error = read(price).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
