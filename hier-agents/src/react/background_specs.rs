//! The tools of an agent with subagents in the background, as its model sees them.

use hier_spec::agent::{CANCEL_SUBAGENT, CHECK_SUBAGENTS, MESSAGE_SUBAGENT, WAIT_FOR_SUBAGENTS};
use serde_json::{Value, json};

use crate::model::ToolSpec;

pub(super) fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    let mut parameters = json!({"type": "object", "required": required});
    parameters["properties"] = properties;
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
}

pub(super) fn specs() -> [ToolSpec; 4] {
    let handle = json!({"type": "string", "description": "The handle of the subagent, such as `researcher-1`."});
    let handles = json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "The handles of the subagents. All that are running if you omit it.",
    });
    let seconds = json!({
        "type": "number",
        "description": "The longest time to wait, in seconds. No limit if you omit it.",
    });
    let message = json!({"type": "string", "description": "The message."});
    [
        tool(
            CHECK_SUBAGENTS,
            "Shows which background subagents are running, and the reports of those that have ended. Does not wait.",
            json!({"handles": handles}),
            &[],
        ),
        tool(
            WAIT_FOR_SUBAGENTS,
            "Waits until background subagents have ended, and returns their reports.",
            json!({"handles": handles, "seconds": seconds}),
            &[],
        ),
        tool(
            MESSAGE_SUBAGENT,
            "Sends a message to a running background subagent, which reads it before its next step.",
            json!({"handle": handle, "message": message}),
            &["handle", "message"],
        ),
        tool(
            CANCEL_SUBAGENT,
            "Cancels a background subagent. Its work is lost.",
            json!({"handle": handle}),
            &["handle"],
        ),
    ]
}
