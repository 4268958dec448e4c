//! Checks answers against the schemas that the protocol allows: objects of texts, numbers, booleans and choices.

use serde_json::Value;

/// Checks an answer. Returns the problem, if any. The server checks keywords beyond the protocol.
pub(crate) fn check(answer: &Value, schema: &Value) -> Result<(), String> {
    let Some(fields) = answer.as_object() else { return Err("must be an object, or null to decline".to_owned()) };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<&str> = required.filter(|name| !fields.contains_key(*name)).collect();
    if !missing.is_empty() {
        return Err(format!("`{}` is missing", missing.join("`, `")));
    }
    for (name, value) in fields {
        let Some(field) = schema["properties"].get(name) else {
            if schema["additionalProperties"] == Value::Bool(false) {
                return Err(format!("unknown field `{name}`"));
            }
            continue;
        };
        fits(value, field).map_err(|why| format!("`{name}` {why}"))?;
    }
    Ok(())
}

fn fits(value: &Value, field: &Value) -> Result<(), String> {
    match field["type"].as_str() {
        Some("string") => text(value, field),
        Some("integer") if value.as_i64().is_none() && value.as_u64().is_none() => Err("is not an integer".to_owned()),
        Some("number" | "integer") => number(value, field),
        Some("boolean") if !value.is_boolean() => Err("is not a boolean".to_owned()),
        Some("array") => choices(value, field),
        _ => Ok(()),
    }
}

fn text(value: &Value, field: &Value) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Err("is not a string".to_owned()) };
    if let Some(known) = offered(field)
        && !known.contains(&text)
    {
        return Err(format!("is not one of `{}`", known.join("`, `")));
    }
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    match (field["minLength"].as_u64(), field["maxLength"].as_u64()) {
        (Some(least), _) if length < least => Err(format!("has fewer than {least} characters")),
        (_, Some(most)) if length > most => Err(format!("has more than {most} characters")),
        _ => Ok(()),
    }
}

fn number(value: &Value, field: &Value) -> Result<(), String> {
    let Some(number) = value.as_f64() else { return Err("is not a number".to_owned()) };
    match (field["minimum"].as_f64(), field["maximum"].as_f64()) {
        (Some(least), _) if number < least => Err(format!("is less than {least}")),
        (_, Some(most)) if number > most => Err(format!("is more than {most}")),
        _ => Ok(()),
    }
}

fn choices(value: &Value, field: &Value) -> Result<(), String> {
    let Some(chosen) = value.as_array() else { return Err("is not a list".to_owned()) };
    let known = offered(&field["items"]);
    for choice in chosen {
        let Some(text) = choice.as_str() else { return Err("contains an item that is not a string".to_owned()) };
        if let Some(known) = &known
            && !known.contains(&text)
        {
            return Err(format!("contains `{text}`, which is not one of `{}`", known.join("`, `")));
        }
    }
    let count = u64::try_from(chosen.len()).unwrap_or(u64::MAX);
    match (field["minItems"].as_u64(), field["maxItems"].as_u64()) {
        (Some(least), _) if count < least => Err(format!("has fewer than {least} items")),
        (_, Some(most)) if count > most => Err(format!("has more than {most} items")),
        _ => Ok(()),
    }
}

/// Returns the allowed texts if the field is a choice.
fn offered(field: &Value) -> Option<Vec<&str>> {
    if let Some(plain) = field["enum"].as_array() {
        return Some(plain.iter().filter_map(Value::as_str).collect());
    }
    let titled = field["oneOf"].as_array().or_else(|| field["anyOf"].as_array())?;
    Some(titled.iter().filter_map(|choice| choice["const"].as_str()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_checked_against_the_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "maxLength": 5},
                "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "share": {"type": "number"},
                "sure": {"type": "boolean"},
                "size": {"type": "string", "enum": ["s", "m"]},
                "color": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}]},
                "tags": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1},
            },
            "required": ["name"],
        });
        let wrong = |answer: Value| check(&answer, &schema).unwrap_err();
        assert_eq!(
            check(&json!({"name": "Anna", "age": 3, "share": 0.5, "size": "m", "tags": ["a"], "other": 1}), &schema),
            Ok(())
        );
        assert_eq!(wrong(json!("Anna")), "must be an object, or null to decline");
        assert_eq!(wrong(json!({})), "`name` is missing");
        assert_eq!(wrong(json!({"name": "A"})), "`name` has fewer than 2 characters");
        assert_eq!(wrong(json!({"name": "Annabelle"})), "`name` has more than 5 characters");
        assert_eq!(wrong(json!({"name": "Anna", "age": 1.5})), "`age` is not an integer");
        assert_eq!(wrong(json!({"name": "Anna", "age": 151})), "`age` is more than 150");
        assert_eq!(wrong(json!({"name": "Anna", "share": "x"})), "`share` is not a number");
        assert_eq!(wrong(json!({"name": "Anna", "sure": 1})), "`sure` is not a boolean");
        assert_eq!(wrong(json!({"name": "Anna", "size": "l"})), "`size` is not one of `s`, `m`");
        assert_eq!(wrong(json!({"name": "Anna", "color": "g"})), "`color` is not one of `r`");
        assert_eq!(wrong(json!({"name": "Anna", "tags": ["b"]})), "`tags` contains `b`, which is not one of `a`");
        assert_eq!(wrong(json!({"name": "Anna", "tags": ["a", "a"]})), "`tags` has more than 1 items");
    }
}
