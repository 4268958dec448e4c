//! What a webhook is told.

use std::time::SystemTime;

use hier_core::runs::Run;
use serde_json::{Value, json};

use crate::time::iso;
use crate::wire::places::Places;
use crate::wire::row;

/// The largest body that is sent. One that would be larger is sent without the values.
const LARGEST: usize = 4 << 20;

/// The run as it ended, with what it returned or why it failed. What its context and its configuration hold is left out: a receiver is
/// not who asked for the run, and secrets may be among it.
pub(super) fn payload(places: &Places, run: &Run, now: SystemTime) -> Vec<u8> {
    let mut told = json!(row::run(run));
    if let Some(kwargs) = told.get_mut("kwargs").and_then(Value::as_object_mut) {
        kwargs.remove("config");
        kwargs.remove("context");
    }
    told["run_started_at"] = json!(run.started.map(iso));
    told["run_ended_at"] = json!(run.ended.map(iso));
    told["webhook_sent_at"] = iso(now).into();
    match &run.error {
        Some(error) => told["error"] = json!(error),
        None => told["values"] = row::output(places, run),
    }
    let body = told.to_string().into_bytes();
    if body.len() <= LARGEST {
        return body;
    }
    told["values"] = Value::Null;
    told["values_omitted"] = format!("they are larger than {LARGEST} bytes").into();
    told["kwargs"] = Value::Null;
    told.to_string().into_bytes()
}
