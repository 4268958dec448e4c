//! Server-sent events, as bytes.

use std::fmt::Write;

use serde::Serialize;

/// What is sent while nothing happens, so that nobody on the way closes the connection.
pub(crate) const HEARTBEAT: &str = ": heartbeat\n\n";

/// One event. The data is compact JSON, which has no line breaks.
pub(crate) fn frame(event: &str, data: &impl Serialize, id: Option<&str>) -> String {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    let mut text = String::with_capacity(event.len() + data.len() + 32);
    // Names of events are ours and node names: a line break in one would end the line.
    let event = event.replace(['\n', '\r'], " ");
    let _ = write!(text, "event: {event}\ndata: {data}\n");
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_frame_has_its_name_data_and_id_in_order() {
        assert_eq!(frame("values", &json!({ "n": 1 }), None), "event: values\ndata: {\"n\":1}\n\n");
        assert_eq!(frame("values", &1, Some("3-0")), "event: values\ndata: 1\nid: 3-0\n\n");
    }

    #[test]
    fn line_breaks_cannot_end_a_frame_early() {
        assert_eq!(frame("a\ndata: x", &"b\nc", None), "event: a data: x\ndata: \"b\\nc\"\n\n");
    }
}
