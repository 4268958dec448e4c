use serde_json::Value;

use hier_checkpoint::store::same_number;

/// Returns true if the JSON value `have` contains `want`, like `@>` in Postgres.
///
/// * An object contains another object if it has all keys of the other object, and if the value of each of these keys
///   contains the other object's value.
/// * A list contains another list if, for each item of the other list, the first list has an item that contains this
///   item.
/// * Other values contain only themselves. Numbers are compared by value: 4 equals 4.0.
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
