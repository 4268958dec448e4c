//! Metrics of the runs of a worker. Without the feature `metrics`, nothing is recorded.
//!
//! The instruments belong to the meter provider that is installed when the first run starts.

use tokio::time::Instant;

use hier_core::runs::Run;

/// Measures the attempt to execute a run. A timer that is dropped before [`finish`](Self::finish) records the result
/// [`LOST`].
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
pub(super) struct RunTimer<'a> {
    run: &'a Run,
    start: Instant,
    is_recorded: bool,
}

/// The result of an attempt after which the run returned to the queue.
pub(super) const REQUEUED: &str = "requeued";
/// The result of an attempt that lost its lease or its database, or that was dropped.
pub(super) const LOST: &str = "lost";

impl<'a> RunTimer<'a> {
    pub(super) fn start(run: &'a Run) -> Self {
        #[cfg(feature = "metrics")]
        instruments::record_start(run, std::time::SystemTime::now());
        Self { run, start: Instant::now(), is_recorded: false }
    }

    pub(super) fn finish(mut self, status: &'static str) {
        self.record_end(status);
    }

    fn record_end(&mut self, status: &'static str) {
        self.is_recorded = true;
        #[cfg(feature = "metrics")]
        instruments::record_end(self.run, status, self.start.elapsed());
        #[cfg(not(feature = "metrics"))]
        let _ = status;
    }
}

impl Drop for RunTimer<'_> {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.record_end(LOST);
        }
    }
}

#[cfg(feature = "metrics")]
mod instruments {
    use std::sync::LazyLock;
    use std::time::{Duration, SystemTime};

    use opentelemetry::metrics::{Histogram, UpDownCounter};
    use opentelemetry::{KeyValue, global};

    use hier_core::runs::Run;

    /// The boundaries of the histograms, from a tenth of a millisecond to a day.
    const SECONDS: [f64; 17] = [
        0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0,
        86_400.0,
    ];

    struct Instruments {
        wait: Histogram<f64>,
        duration: Histogram<f64>,
        running: UpDownCounter<i64>,
    }

    static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(|| {
        let meter = global::meter("hier");
        let histogram = |name, what| {
            meter.f64_histogram(name).with_unit("s").with_boundaries(SECONDS.to_vec()).with_description(what).build()
        };
        Instruments {
            wait: histogram("hier.run.wait", "Time from the moment at which a run was due to its first start."),
            duration: histogram("hier.run.duration", "Duration of the attempts to execute runs."),
            running: meter
                .i64_up_down_counter("hier.run.running")
                .with_unit("{run}")
                .with_description("Runs that workers of this process execute.")
                .build(),
        }
    });

    fn graph(run: &Run) -> KeyValue {
        KeyValue::new("hier.graph", run.graph.clone())
    }

    pub(super) fn record_start(run: &Run, now: SystemTime) {
        INSTRUMENTS.running.add(1, &[graph(run)]);
        if run.attempts <= 1 {
            let waited = now.duration_since(run.starts.max(run.created)).unwrap_or_default();
            INSTRUMENTS.wait.record(waited.as_secs_f64(), &[graph(run)]);
        }
    }

    pub(super) fn record_end(run: &Run, status: &'static str, took: Duration) {
        INSTRUMENTS.running.add(-1, &[graph(run)]);
        let status = KeyValue::new("hier.run.status", status);
        INSTRUMENTS.duration.record(took.as_secs_f64(), &[graph(run), status]);
    }
}
