//! Handles arguments that are nested too deeply to be stored. They are cut when a reply arrives, and the call is
//! rejected. If a model sends null for a call without arguments, they become an empty object.
//!
//! The conversation is stored. It must not contain a value that the codec cannot read back, because such a value would
//! fail a durable run forever. The cut arguments are still an object, so that providers accept the conversation. They
//! are still one level too deep, so that no tool is called with truncated arguments.

use serde_json::Value;

use hier_checkpoint::message::{Body, Message, ToolCall};

/// Maximum nesting of a call's arguments, in lists and objects. The codec reads deeper values, but the call, its
/// message and the conversation add levels.
const DEPTH: usize = 100;

/// Replaces null by an empty object, and cuts arguments that are nested too deeply. The cut arguments have one level
/// more than the maximum.
pub(crate) fn repair_arguments(message: &mut Message) {
    let Body::Assistant { calls, .. } = &mut message.body else { return };
    for call in calls {
        if call.args.is_null() {
            call.args = Value::Object(serde_json::Map::new());
        } else if is_nested(&call.args, DEPTH + 1) {
            shorten(&mut call.args, DEPTH + 1);
        }
    }
}

/// Describes the mistake if the arguments of a call are nested too deeply.
pub(crate) fn mistake(call: &ToolCall) -> Option<String> {
    is_nested(&call.args, DEPTH).then(|| {
        format!(
            "the arguments of `{}` are nested more than {DEPTH} levels deep: flatten them, or pass a string",
            call.name
        )
    })
}

/// Returns true if a value is nested deeper than `depth`. Does not recurse, because a deep value could overflow the
/// stack.
fn is_nested(value: &Value, depth: usize) -> bool {
    // Most arguments are flat.
    let is_flat = match value {
        Value::Array(list) => !list.iter().any(has_inside),
        Value::Object(object) => !object.values().any(has_inside),
        _ => return false,
    };
    if is_flat && depth > 0 {
        return false;
    }
    let mut open = vec![(value, depth)];
    while let Some((value, left)) = open.pop() {
        let inner: &mut dyn Iterator<Item = &Value> = match value {
            Value::Array(list) => &mut list.iter(),
            Value::Object(object) => &mut object.values(),
            _ => continue,
        };
        let Some(left) = left.checked_sub(1) else { return true };
        open.extend(inner.map(|value| (value, left)));
    }
    false
}

fn has_inside(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// Converts everything below this number of levels to a string.
fn shorten(value: &mut Value, levels: usize) {
    match (value, levels.checked_sub(1)) {
        (Value::Array(list), Some(left)) => list.iter_mut().for_each(|value| shorten(value, left)),
        (Value::Object(object), Some(left)) => object.values_mut().for_each(|value| shorten(value, left)),
        (value @ (Value::Array(_) | Value::Object(_)), None) => *value = Value::String(value.to_string()),
        _ => {}
    }
}
