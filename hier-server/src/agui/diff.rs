//! Differences between two states, as JSON Patch (RFC 6902).

use serde_json::{Value, json};

/// Returns the operations that turn `old` into `new`. Compares objects field by field, and other values as a whole.
pub(super) fn diff(old: &Value, new: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    walk("", old, new, &mut operations);
    operations
}

fn walk(path: &str, old: &Value, new: &Value, operations: &mut Vec<Value>) {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        if old != new {
            operations.push(json!({ "op": "replace", "path": path, "value": new }));
        }
        return;
    };
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        operations.push(json!({ "op": "remove", "path": format!("{path}/{}", escape(name)) }));
    }
    for (name, value) in after {
        let path = format!("{path}/{}", escape(name));
        match before.get(name) {
            Some(old) => walk(&path, old, value, operations),
            None => operations.push(json!({ "op": "add", "path": path, "value": value })),
        }
    }
}

/// Escapes a name for a JSON Pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changed_field_is_an_operation() {
        let old = json!({ "a": 1, "b": { "x": [1], "y": 2 }, "gone": 0, "same": true });
        let new = json!({ "a": 2, "b": { "x": [1, 2], "y": 2 }, "new/one": "~", "same": true });
        assert_eq!(
            diff(&old, &new),
            [
                json!({ "op": "remove", "path": "/gone" }),
                json!({ "op": "replace", "path": "/a", "value": 2 }),
                json!({ "op": "replace", "path": "/b/x", "value": [1, 2] }),
                json!({ "op": "add", "path": "/new~1one", "value": "~" }),
            ]
        );
        assert!(diff(&old, &old).is_empty());
    }
}
