//! Values to bytes and back: a conversation, numbers, a long text.

use std::hint::black_box;

use criterion::Criterion;
use hier_agents::prelude::*;
use hier_agents::{Message, Messages};
use hier_core::checkpoint::codec;
use hier_core::message::ToolCall;
use serde::de::DeserializeOwned;
use serde_json::json;

pub(crate) fn benches(criterion: &mut Criterion) {
    let call = ToolCall::new("weather", json!({ "town": "Vienna", "days": 7 })).with_id("call_1");
    let messages: Messages = (0..25)
        .flat_map(|town| {
            [
                Message::user(format!("What is the weather in town {town}?")),
                Message::calls("", [call.clone()]),
                Message::tool(&call, "sunny, 23 degrees, light wind from the west"),
                Message::assistant("It is sunny, with 23 degrees."),
            ]
        })
        .collect();
    value(criterion, "100 messages", &messages);
    value(criterion, "1,000 integers", &(0..1_000).map(|number| number * number).collect::<Vec<u64>>());
    value(criterion, "1,000 floats", &(0..1_000).map(|number| f64::from(number) / 3.0).collect::<Vec<f64>>());
    value(criterion, "a text of 100 KB", &"x".repeat(100_000));
}

fn value<T: Serialize + DeserializeOwned>(criterion: &mut Criterion, name: &str, value: &T) {
    let mut group = criterion.benchmark_group("the codec");
    let bytes = codec::encode(value).expect("bytes");
    group.bench_function(format!("{name}, encoded"), |bencher| bencher.iter(|| codec::encode(black_box(value))));
    group.bench_function(format!("{name}, decoded"), |bencher| bencher.iter(|| codec::decode::<T>(black_box(&bytes))));
    group.finish();
}
