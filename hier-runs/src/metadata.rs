//! Compares metadata.

use serde_json::Value;

use hier_checkpoint::store::same_number;

/// Returns true if one JSON value contains another, like `@>` in Postgres. An object contains another if it has every key of the other,
/// with a value that contains the other's. A list contains another if each item of the other is contained in one of its items. Numbers
/// are compared by value in any notation. Anything else contains only itself.
pub fn contains(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            want.iter().all(|(key, want)| have.get(key).is_some_and(|have| contains(have, want)))
        }
        (Value::Array(have), Value::Array(want)) => {
            want.iter().all(|want| have.iter().any(|have| contains(have, want)))
        }
        (Value::Number(have), Value::Number(want)) => same_number(have, want),
        (have, want) => have == want,
    }
}
