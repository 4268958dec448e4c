//! Histograms of requests to models, after OpenTelemetry's conventions for generative AI.
//!
//! Without the feature `metrics`, nothing is recorded. The instruments belong to the meter provider that is installed
//! when the first request ends.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::{ChatModel, ModelError};
use hier_checkpoint::message::ChatResponse;

/// Measures a request to a model. If the timer is dropped before it has finished, the request counts as cancelled.
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
pub(super) struct RequestTimer<'a> {
    model: &'a dyn ChatModel,
    start: Instant,
    first_chunk: Option<Duration>,
    is_recorded: bool,
}

#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
enum RequestEnd<'a> {
    Answer(&'a ChatResponse),
    /// The kind of the error.
    Error(&'static str),
}

impl<'a> RequestTimer<'a> {
    pub(super) fn start(model: &'a dyn ChatModel) -> Self {
        Self { model, start: Instant::now(), first_chunk: None, is_recorded: false }
    }

    pub(super) fn note_chunk(&mut self) {
        self.first_chunk.get_or_insert_with(|| self.start.elapsed());
    }

    pub(super) fn finish(mut self, answer: &Result<ChatResponse, ModelError>) {
        self.is_recorded = true;
        self.record(&match answer {
            Ok(response) => RequestEnd::Answer(response),
            Err(error) => RequestEnd::Error(error_type(error)),
        });
    }

    fn record(&self, end: &RequestEnd<'_>) {
        #[cfg(feature = "metrics")]
        instruments::record(self, end);
        #[cfg(not(feature = "metrics"))]
        let _ = (self, end);
    }
}

impl Drop for RequestTimer<'_> {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.record(&RequestEnd::Error("cancelled"));
        }
    }
}

fn error_type(error: &ModelError) -> &'static str {
    match error {
        ModelError::Unavailable { .. } => "unavailable",
        ModelError::Refused { .. } => "refused",
        ModelError::TooLong { .. } => "too_long",
        ModelError::BadAnswer { .. } => "bad_answer",
        ModelError::Recording { .. } | ModelError::ScriptExhausted { .. } => "_OTHER",
    }
}

#[cfg(feature = "metrics")]
mod instruments {
    use std::sync::LazyLock;

    use opentelemetry::metrics::Histogram;
    use opentelemetry::{KeyValue, global};

    use super::{RequestEnd, RequestTimer};

    /// Bounds that the conventions give for durations, in seconds.
    const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
    /// Bounds that the conventions give for tokens: the powers of four.
    const TOKENS: [f64; 14] = [
        1.0,
        4.0,
        16.0,
        64.0,
        256.0,
        1_024.0,
        4_096.0,
        16_384.0,
        65_536.0,
        262_144.0,
        1_048_576.0,
        4_194_304.0,
        16_777_216.0,
        67_108_864.0,
    ];
    const DOLLARS: [f64; 12] = [0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0];

    struct Instruments {
        duration: Histogram<f64>,
        first_chunk: Histogram<f64>,
        tokens: Histogram<u64>,
        cost: Histogram<f64>,
    }

    static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(|| {
        let meter = global::meter("hier");
        let histogram = |name, unit, bounds: &[f64], what| {
            meter.f64_histogram(name).with_unit(unit).with_boundaries(bounds.to_vec()).with_description(what).build()
        };
        Instruments {
            duration: histogram("gen_ai.client.operation.duration", "s", &SECONDS, "Duration of requests to models."),
            first_chunk: histogram(
                "gen_ai.client.operation.time_to_first_chunk",
                "s",
                &SECONDS,
                "Time until the first chunk of a streamed reply.",
            ),
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_boundaries(TOKENS.to_vec())
                .with_description("Number of input and output tokens of requests to models.")
                .build(),
            cost: histogram("gen_ai.usage.cost", "USD", &DOLLARS, "Cost of replies of models with a known price."),
        }
    });

    pub(super) fn record(timer: &RequestTimer<'_>, end: &RequestEnd<'_>) {
        let Instruments { duration, first_chunk, tokens, cost } = &*INSTRUMENTS;
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", timer.model.provider().to_owned()),
            KeyValue::new("gen_ai.request.model", timer.model.name().to_owned()),
        ];
        match end {
            RequestEnd::Answer(response) => {
                attributes.extend(response.model.clone().map(|model| KeyValue::new("gen_ai.response.model", model)));
            }
            RequestEnd::Error(kind) => attributes.push(KeyValue::new("error.type", *kind)),
        }
        duration.record(timer.start.elapsed().as_secs_f64(), &attributes);
        let RequestEnd::Answer(response) = end else { return };
        if let Some(first) = timer.first_chunk {
            first_chunk.record(first.as_secs_f64(), &attributes);
        }
        let Some(usage) = response.message.usage() else { return };
        if let Some(amount) = usage.cost {
            cost.record(amount.dollars(), &attributes);
        }
        for (kind, count) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            let kind = KeyValue::new("gen_ai.token.type", kind);
            tokens.record(count, &[&*attributes, &[kind]].concat());
        }
    }
}
