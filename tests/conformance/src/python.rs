//! JSON text as Python writes it: `json.dumps(value, sort_keys=True)`.

use std::fmt::Write;

use serde_json::{Number, Value};

/// Returns the JSON text, with sorted keys, the separators `, ` and `: `, and non-ASCII characters escaped.
pub(crate) fn dumps(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value);
    text
}

fn write(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&self::number(number)),
        Value::String(value) => string(text, value),
        Value::Array(items) => {
            text.push('[');
            list(text, items, write);
            text.push(']');
        }
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            text.push('{');
            list(text, entries, |text, (key, value)| {
                string(text, key);
                text.push_str(": ");
                write(text, value);
            });
            text.push('}');
        }
    }
}

fn list<T>(text: &mut String, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut String, T)) {
    for (number, value) in items.into_iter().enumerate() {
        if number > 0 {
            text.push_str(", ");
        }
        item(text, value);
    }
}

fn string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text.push('"');
}

/// Formats a number as Python does: floats below 1e-4 and from 1e16 get an exponent with a sign and two or more digits.
fn number(number: &Number) -> String {
    let Some(value) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let shortest = format!("{value:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return shortest };
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::dumps;

    #[test]
    fn text_equals_pythons() {
        let value = json!({"b": [1, -2.5, true, null], "a": {"ü😀": "\"\\\n\u{7f}"}});
        assert_eq!(dumps(&value), r#"{"a": {"\u00fc\ud83d\ude00": "\"\\\n\u007f"}, "b": [1, -2.5, true, null]}"#);
    }

    #[test]
    fn floats_print_as_in_python() {
        let texts = [1.0, 0.0001, 0.000_01, 1e15, 1e16, 1.5e-7, 0.0].map(|float| dumps(&json!(float)));
        assert_eq!(texts, ["1.0", "0.0001", "1e-05", "1000000000000000.0", "1e+16", "1.5e-07", "0.0"]);
    }
}
