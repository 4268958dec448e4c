use std::time::SystemTime;

use hier_core::runs::Run;
use serde_json::{Value, json};

use crate::time::iso;
use crate::wire::message_paths::MessagePaths;
use crate::wire::row;

/// Maximum size of the body, in bytes. A larger body is sent without the values and the request.
const LARGEST: usize = 4 << 20;

/// Formats the run with its output or error. Omits the run's context and configuration, because they may contain
/// secrets that the receiver of the webhook must not read.
pub(super) fn payload(message_paths: &MessagePaths, run: &Run, now: SystemTime) -> Vec<u8> {
    let mut body = json!(row::run(message_paths, run));
    if let Some(kwargs) = body.get_mut("kwargs").and_then(Value::as_object_mut) {
        kwargs.remove("config");
        kwargs.remove("context");
    }
    body["run_started_at"] = json!(run.started.map(iso));
    body["run_ended_at"] = json!(run.ended.map(iso));
    body["webhook_sent_at"] = iso(now).into();
    match &run.error {
        Some(error) => body["error"] = json!(error),
        None => body["values"] = row::output(message_paths, run),
    }
    let bytes = body.to_string().into_bytes();
    if bytes.len() <= LARGEST {
        return bytes;
    }
    body["values"] = Value::Null;
    body["values_omitted"] = format!("they are larger than {LARGEST} bytes").into();
    body["kwargs"] = Value::Null;
    body.to_string().into_bytes()
}
