use std::collections::HashSet;

use serde_json::{Number, Value};

use hier_checkpoint::store::same_number;

/// Maximum length of a list that is searched without an index, which would cost more than it saves.
const FEW: usize = 16;

/// Returns true if the JSON value `have` contains `want`, like `@>` in Postgres.
///
/// * An object contains another object if it has all keys of the other object, and if the value of each of these keys
///   contains the other object's value.
/// * A list contains another list if, for each item of the other list, the first list has an item that contains this
///   item.
/// * Other values contain only themselves. Numbers are compared by value: 4 equals 4.0.
///
/// The time grows with the lengths of both values, apart from lists and objects that are items of lists: each of these
/// is compared with all of `have`. A caller whose `want` comes from a client limits their number ([`nested_values`]).
pub fn contains(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            want.iter().all(|(key, want)| have.get(key).is_some_and(|have| contains(have, want)))
        }
        (Value::Array(have), Value::Array(want)) => has_items(have, want),
        (Value::Number(have), Value::Number(want)) => same_number(have, want),
        (have, want) => have == want,
    }
}

/// Returns the number of lists and objects that are items of lists, and of the values in them.
pub fn nested_values(want: &Value) -> usize {
    match want {
        Value::Array(items) => items.iter().filter(|item| is_nested(item)).map(values_in).sum(),
        Value::Object(fields) => fields.values().map(nested_values).sum(),
        _ => 0,
    }
}

/// Returns the number of values in a value, including itself.
fn values_in(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values_in).sum(),
        Value::Object(fields) => fields.values().map(values_in).sum(),
        _ => 0,
    }
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

fn has_items(have: &[Value], want: &[Value]) -> bool {
    if have.len() <= FEW || want.len() <= FEW {
        return want.iter().all(|want| have.iter().any(|have| contains(have, want)));
    }
    let mut plain = HashSet::with_capacity(have.len());
    for item in have {
        match item {
            Value::Number(number) => plain.extend(number_keys(number)),
            item => plain.extend(key(item)),
        }
    }
    let nested: Vec<&Value> = have.iter().filter(|have| is_nested(have)).collect();
    want.iter().all(|want| match want {
        // A float equals the integers and floats that are rounded to it. An integer equals itself and these floats.
        Value::Number(number) => match number_keys(number) {
            [Key::Float(_), rounded] => plain.contains(&rounded),
            [whole, Key::Rounded(bits)] => plain.contains(&whole) || plain.contains(&Key::Float(bits)),
            _ => false,
        },
        want => match key(want) {
            Some(key) => plain.contains(&key),
            None => nested.iter().any(|have| contains(have, want)),
        },
    })
}

/// A plain value in the index of a list.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Null,
    Bool(bool),
    Text(&'a str),
    Whole(i128),
    /// The bits of a number that is not an integer of 64 bits.
    Float(u64),
    /// The bits of the float to which a number is rounded.
    Rounded(u64),
}

/// Returns the key of a plain value that is not a number.
fn key(value: &Value) -> Option<Key<'_>> {
    match value {
        Value::Null => Some(Key::Null),
        Value::Bool(value) => Some(Key::Bool(*value)),
        Value::String(text) => Some(Key::Text(text)),
        _ => None,
    }
}

/// Returns the keys of a number, which agree with [`same_number`].
fn number_keys(number: &Number) -> [Key<'static>; 2] {
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    // −0 and 0 are the same.
    let bits = (number.as_f64().unwrap_or_default() + 0.0).to_bits();
    [whole.map_or(Key::Float(bits), Key::Whole), Key::Rounded(bits)]
}

#[cfg(test)]
#[path = "../tests/unit/metadata.rs"]
mod tests;
