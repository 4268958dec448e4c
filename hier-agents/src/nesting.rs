//! Arguments of calls that are nested too deep to be stored: they are cut where an answer comes in, and refused where the
//! call would be made.
//!
//! A conversation is stored, and what could not be read must not be written: one such call would end a durable run, again
//! and again. What is left after the cut is still an object, so that providers take the conversation back, and still too
//! deep, so that the tool is never called with half of what the model meant.

use serde_json::Value;

use hier_checkpoint::message::{Body, Message, ToolCall};

/// How deep the arguments of a call may be nested, in lists and objects. The rest of what the codec reads is for what they
/// lie in: the call, its message, the conversation.
const DEPTH: usize = 100;

/// Cuts the arguments of a message's calls one level below what a tool takes.
pub(super) fn cut(message: &mut Message) {
    let Body::Assistant { calls, .. } = &mut message.body else { return };
    for call in calls.iter_mut().filter(|call| is_nested(&call.args, DEPTH + 1)) {
        shorten(&mut call.args, DEPTH + 1);
    }
}

/// Why a call is not made, if its arguments are nested too deep.
pub(super) fn mistake(call: &ToolCall) -> Option<String> {
    is_nested(&call.args, DEPTH).then(|| {
        format!("the arguments of `{}` are nested more than {DEPTH} deep: give them flatter, or as a text", call.name)
    })
}

/// Whether a value is nested deeper than this. Without recursion: a value may be deeper than the stack.
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

/// Makes a text of everything below so many levels.
fn shorten(value: &mut Value, levels: usize) {
    match (value, levels.checked_sub(1)) {
        (Value::Array(list), Some(left)) => list.iter_mut().for_each(|value| shorten(value, left)),
        (Value::Object(object), Some(left)) => object.values_mut().for_each(|value| shorten(value, left)),
        (value @ (Value::Array(_) | Value::Object(_)), None) => *value = Value::String(value.to_string()),
        _ => {}
    }
}
