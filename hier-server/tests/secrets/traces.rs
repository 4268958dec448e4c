//! Records every span and event of the process, at every level.

use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static TEXT: Mutex<String> = Mutex::new(String::new());
static COUNT: AtomicU64 = AtomicU64::new(0);

struct Recorder;

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

fn add(name: &str, record: impl FnOnce(&mut Fields<'_>)) {
    // The visited values may trace, too, so that the lock is taken afterwards.
    let mut line = name.to_owned();
    record(&mut Fields(&mut line));
    let mut text = TEXT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    text.push_str(&line);
    text.push('\n');
    COUNT.fetch_add(1, Ordering::Relaxed);
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        add(span.metadata().name(), |fields| span.record(fields));
        Id::from_u64(COUNT.load(Ordering::Relaxed).max(1))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        add("record", |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        add(event.metadata().target(), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Begins to record.
pub(crate) fn record() {
    tracing::subscriber::set_global_default(Recorder).expect("there is no other subscriber");
}

/// Returns what was recorded, and the number of spans and events.
pub(crate) fn recorded() -> (String, u64) {
    (TEXT.lock().expect("the text").clone(), COUNT.load(Ordering::Relaxed))
}
