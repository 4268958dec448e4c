//! Schemas with alternatives.

use serde_json::{Map, Value, json};

use super::SchemaNotes;

/// Merges the schemas of `allOf` into one. Returns `None` if that is impossible.
pub(super) fn merged(fields: &Map<String, Value>, parts: &[Value]) -> Option<Value> {
    let mut merged: Map<String, Value> = fields.iter().filter(|(name, _)| *name != "allOf").map(owned).collect();
    for part in parts {
        for (name, value) in part.as_object()? {
            match (merged.get_mut(name), value) {
                (None, _) => _ = merged.insert(name.clone(), value.clone()),
                (Some(known), value) if known == value => {}
                // The outer description is closer to the use of the type.
                (Some(_), _) if name == "description" || name == "title" => {}
                (Some(Value::Object(known)), Value::Object(more))
                    if name == "properties" && more.keys().all(|field| !known.contains_key(field)) =>
                {
                    known.extend(more.clone());
                }
                (Some(Value::Array(known)), Value::Array(more)) if name == "required" => known.extend(more.clone()),
                _ => return None,
            }
        }
    }
    Some(Value::Object(merged))
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

/// Returns the allowed values if the schema lists them by `const`, by `enum`, or by alternatives with these keywords.
/// Adds the descriptions of single values to the notes.
pub(super) fn constants(fields: &Map<String, Value>, notes: &mut SchemaNotes) -> Option<Value> {
    let mut values = Vec::new();
    match ["oneOf", "anyOf"].iter().find_map(|name| fields.get(*name)) {
        None => values = listed(fields)?,
        Some(choices) => {
            let mut descriptions = Vec::new();
            for choice in choices.as_array()? {
                let choice = choice.as_object()?;
                let constants = listed(choice)?;
                if let (Some(about), [value]) = (choice.get("description").and_then(Value::as_str), &*constants) {
                    descriptions.push(format!("{value}: {about}"));
                }
                values.extend(constants);
            }
            notes.notes.extend(descriptions);
        }
    }
    let mut kinds: Vec<&str> = Vec::new();
    for value in &values {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::String(_) => "string",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::Array(_) | Value::Object(_) => return None,
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let kind = if let [kind] = &kinds[..] { json!(kind) } else { json!(kinds) };
    Some(json!({ "type": kind, "enum": values }))
}

fn listed(fields: &Map<String, Value>) -> Option<Vec<Value>> {
    match (fields.get("const"), fields.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) if !values.is_empty() => Some(values.clone()),
        _ => None,
    }
}

/// Replaces a list of types by a choice.
pub(super) fn split_types(schema: Value) -> Value {
    let Some(Value::Array(kinds)) = schema.get("type").cloned() else { return schema };
    let Value::Object(mut fields) = schema else { return schema };
    let description = fields.remove("description");
    let of_kind = |kind: &Value| {
        if kind == "null" {
            return json!({ "type": "null" });
        }
        let mut fields = fields.clone();
        fields.insert("type".to_owned(), kind.clone());
        if let Some(Value::Array(values)) = fields.get_mut("enum") {
            values.retain(|value| is_of(value, kind));
        }
        Value::Object(fields)
    };
    let mut choice = json!({ "anyOf": kinds.iter().map(of_kind).collect::<Vec<_>>() });
    if let Some(description) = description {
        choice["description"] = description;
    }
    choice
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => false,
    }
}

pub(super) fn accepts_null(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    match (schema.get("type"), schema.get("anyOf")) {
        (Some(Value::Array(kinds)), _) => kinds.iter().any(is_null),
        (Some(kind), _) => is_null(kind),
        (None, Some(Value::Array(choices))) => choices.iter().any(accepts_null),
        _ => false,
    }
}
