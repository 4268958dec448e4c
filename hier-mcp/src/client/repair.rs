//! Repairs the schemas of servers that are not valid JSON Schema of 2020-12.
//!
//! Providers refuse a whole request for one invalid keyword of one tool. Servers write such schemas manually, or with
//! libraries for older drafts. A repair keeps the meaning where the meaning is known, and otherwise allows more: the
//! server checks the arguments that it receives.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The names of JSON types.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Other spellings of types, each with the type.
const TYPE_ALIASES: [(&str, &str); 12] = [
    ("bool", "boolean"),
    ("date", "string"),
    ("dict", "object"),
    ("double", "number"),
    ("file", "string"),
    ("float", "number"),
    ("int", "integer"),
    ("list", "array"),
    ("long", "integer"),
    ("map", "object"),
    ("str", "string"),
    ("text", "string"),
];
/// Keywords whose value is a schema.
const SCHEMAS: [&str; 10] = [
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas.
const SCHEMA_MAPS: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];
const NUMBERS: [&str; 4] = ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"];
const COUNTS: [&str; 8] =
    ["maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength", "minProperties"];
const TEXTS: [&str; 9] =
    ["$anchor", "$comment", "$dynamicRef", "$id", "$ref", "description", "format", "pattern", "title"];
const FLAGS: [&str; 4] = ["deprecated", "readOnly", "uniqueItems", "writeOnly"];

/// The maximum number of references that lead to each other.
const LONGEST_CHAIN: usize = 32;

/// Returns the schema with repaired keywords. A schema that providers accept is returned unchanged.
pub(crate) fn repaired(schema: &Value) -> Value {
    // The first pass repairs the keywords, because this may move a schema to which a reference points.
    let known = node(schema.clone(), None);
    node(known.clone(), Some(&known))
}

/// Repairs a schema. With a root, also removes references that do not resolve within the root.
fn node(schema: Value, root: Option<&Value>) -> Value {
    let Value::Object(fields) = schema else {
        // Apart from objects, only `true` and `false` are schemas.
        return if schema.is_boolean() { schema } else { json!({}) };
    };
    let mut repaired = Map::new();
    for (name, value) in modern(fields) {
        if let Some(value) = keyword(&name, value, root) {
            repaired.insert(name, value);
        }
    }
    let is_list =
        |kind: &Value| kind == "array" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("array")));
    if repaired.get("type").is_some_and(is_list) && !repaired.contains_key("items") {
        // OpenAI refuses a list without the type of its items.
        repaired.insert("items".to_owned(), json!({}));
    }
    Value::Object(repaired)
}

/// Replaces the keywords of older drafts.
fn modern(mut fields: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(_)) = fields.get("items") {
        let places = fields.remove("items").unwrap_or_default();
        let rest = fields.remove("additionalItems").unwrap_or_else(|| json!({}));
        fields.insert("prefixItems".to_owned(), places);
        fields.insert("items".to_owned(), rest);
    }
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if fields.get(flag) == Some(&Value::Bool(true))
            && let Some(number) = fields.remove(limit)
        {
            fields.insert(flag.to_owned(), number);
        }
    }
    // In Draft 3 and OpenAPI, each field declares itself as required or nullable.
    let is_required = |field: &Value| field.get("required") == Some(&Value::Bool(true));
    let own = fields.get("properties").and_then(Value::as_object).into_iter().flatten();
    let own: Vec<Value> = own.filter(|(_, field)| is_required(field)).map(|(name, _)| json!(name)).collect();
    if !own.is_empty() && !fields.get("required").is_some_and(Value::is_array) {
        fields.insert("required".to_owned(), Value::Array(own));
    }
    if fields.remove("nullable") == Some(Value::Bool(true))
        && let Some(Value::String(kind)) = fields.get("type")
    {
        let kinds = json!([kind, "null"]);
        fields.insert("type".to_owned(), kinds);
    }
    fields
}

/// Returns the value of a keyword, or `None` if the keyword cannot be kept.
fn keyword(name: &str, value: Value, root: Option<&Value>) -> Option<Value> {
    match name {
        "type" => kinds(value),
        "required" => texts(value),
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()).then_some(value),
        "$ref" => value.as_str().is_some_and(|to| root.is_none_or(|root| resolves(to, root))).then_some(value),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0).then_some(value),
        name if SCHEMAS.contains(&name) => (!value.is_null()).then(|| node(value, root)),
        name if SCHEMA_LISTS.contains(&name) => match value {
            Value::Array(several) if !several.is_empty() => {
                Some(several.into_iter().map(|one| node(one, root)).collect())
            }
            _ => None,
        },
        name if SCHEMA_MAPS.contains(&name) => match value {
            Value::Object(several) => Some(several.into_iter().map(|(name, one)| (name, node(one, root))).collect()),
            _ => None,
        },
        name if NUMBERS.contains(&name) => value.is_number().then_some(value),
        name if COUNTS.contains(&name) => {
            value.as_f64().is_some_and(|count| count >= 0.0 && count.fract() == 0.0).then_some(value)
        }
        name if TEXTS.contains(&name) => value.is_string().then_some(value),
        name if FLAGS.contains(&name) => value.is_boolean().then_some(value),
        _ => Some(value),
    }
}

/// Returns the types that exist.
fn kinds(value: Value) -> Option<Value> {
    match value {
        Value::String(kind) => kind_of(&kind).map(|kind| json!(kind)),
        Value::Array(several) => {
            let mut kinds: Vec<&str> = Vec::new();
            for kind in several.iter().filter_map(Value::as_str) {
                // Without a known type, every value is allowed.
                let kind = kind_of(kind)?;
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            (!kinds.is_empty()).then(|| json!(kinds))
        }
        _ => None,
    }
}

fn kind_of(kind: &str) -> Option<&'static str> {
    let kind = kind.to_ascii_lowercase();
    let alias = TYPE_ALIASES.iter().find(|(alias, _)| *alias == kind).map(|(_, kind)| *kind);
    alias.or_else(|| TYPES.into_iter().find(|known| *known == kind))
}

fn texts(value: Value) -> Option<Value> {
    let Value::Array(several) = value else { return None };
    let mut known = BTreeSet::new();
    let is_first = |text: &Value| text.as_str().is_some_and(|text| known.insert(text.to_owned()));
    Some(several.into_iter().filter(is_first).collect())
}

/// Returns false for a reference that leads to nothing, or through other references back to itself.
fn resolves(reference: &str, root: &Value) -> bool {
    let mut reference = reference;
    for _ in 0..LONGEST_CHAIN {
        let pointer = reference.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        // Keeps anchors, and references to other documents, which the caller rejects.
        let Some(pointer) = pointer else { return true };
        let Some(found) = root.pointer(&unescaped(pointer)) else { return false };
        let Some(next) = found.get("$ref").and_then(Value::as_str) else { return true };
        reference = next;
    }
    false
}

/// Decodes the percent signs of a fragment. A sequence that is not an escape stays as it is.
fn unescaped(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let [first, more @ ..] = rest {
        let hex = more.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the repaired schema of a single field.
    fn field(field: &Value) -> Value {
        let schema = json!({ "type": "object", "properties": { "a": field } });
        repaired(&schema)["properties"]["a"].clone()
    }

    #[test]
    fn valid_schema_is_unchanged() {
        let valid = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "list": { "type": "array", "items": { "type": ["string", "null"] }, "minItems": 1, "uniqueItems": true },
                "tuple": { "type": "array", "prefixItems": [{ "type": "string" }, true], "items": false },
                "number": { "type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5, "default": 1 },
                "choice": { "oneOf": [{ "const": null }, { "$ref": "#/$defs/Size" }, { "$ref": "#" }] },
                "required": { "type": "boolean", "x-order": 3, "examples": [true] },
                "odd": { "$ref": "#/$defs/a~1b%20c" },
            },
            "required": ["list"],
            "additionalProperties": false,
            "$defs": { "Size": { "enum": ["s", "m"] }, "a/b c": {} },
        });
        assert_eq!(repaired(&valid), valid);
    }

    #[test]
    fn lists_say_what_they_contain() {
        assert_eq!(field(&json!({ "type": "array" })), json!({ "type": "array", "items": {} }));
        assert_eq!(field(&json!({ "type": ["array", "null"] })), json!({ "type": ["array", "null"], "items": {} }));
        assert_eq!(
            field(
                &json!({ "type": "array", "items": [{ "type": "int" }, { "type": "array" }], "additionalItems": false })
            ),
            json!({ "type": "array", "prefixItems": [{ "type": "integer" }, { "type": "array", "items": {} }], "items": false })
        );
        assert_eq!(field(&json!({ "type": "array", "items": null })), json!({ "type": "array", "items": {} }));
    }

    #[test]
    fn keywords_of_older_drafts_are_replaced() {
        assert_eq!(
            field(&json!({ "type": "number", "minimum": 0, "exclusiveMinimum": true, "exclusiveMaximum": false })),
            json!({ "type": "number", "exclusiveMinimum": 0 })
        );
        assert_eq!(field(&json!({ "type": "string", "nullable": true })), json!({ "type": ["string", "null"] }));
        let schema =
            json!({ "type": "object", "properties": { "a": { "type": "string", "required": true }, "b": {} } });
        let expected =
            json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": {} }, "required": ["a"] });
        assert_eq!(repaired(&schema), expected);
    }

    #[test]
    fn invalid_keywords_are_repaired_or_removed() {
        let cases = [
            (json!({ "type": "any" }), json!({})),
            (json!({ "type": ["string", "any"] }), json!({})),
            (json!({ "type": "String" }), json!({ "type": "string" })),
            (json!({ "type": [] }), json!({})),
            (json!({ "type": ["int", "integer"] }), json!({ "type": ["integer"] })),
            (json!({ "type": null, "description": null, "enum": [] }), json!({})),
            (json!({ "minLength": "3", "maxLength": -1, "pattern": 5, "multipleOf": 0 }), json!({})),
            (json!({ "required": ["a", "a", 3] }), json!({ "required": ["a"] })),
            (json!({ "anyOf": [], "allOf": {} }), json!({})),
            (json!({ "properties": [], "required": [] }), json!({ "required": [] })),
            (json!({ "$ref": "#/$defs/Missing", "title": "A" }), json!({ "title": "A" })),
            (json!("a field"), json!({})),
            (
                json!({ "additionalProperties": { "type": "dict" } }),
                json!({ "additionalProperties": { "type": "object" } }),
            ),
        ];
        for (given, expected) in cases {
            assert_eq!(field(&given), expected, "{given}");
        }
        // The name of a field is not a keyword.
        let named = json!({ "type": "object", "properties": { "type": { "type": "string" }, "items": { "type": "array", "items": {} } } });
        assert_eq!(repaired(&named), named);
    }

    #[test]
    fn references_that_lead_nowhere_are_removed() {
        let chain = |length: usize| {
            let next = |number: usize| json!({ "$ref": format!("#/$defs/d{}", number + 1) });
            let mut defs: Map<String, Value> = (0..length).map(|number| (format!("d{number}"), next(number))).collect();
            defs.insert(format!("d{length}"), json!({ "type": "string" }));
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": defs })
        };
        assert_eq!(repaired(&chain(3)), chain(3));
        assert_eq!(repaired(&chain(1_000))["properties"]["a"], json!({}));
        assert_eq!(repaired(&json!({ "$ref": "#" })), json!({}));
        let circle = json!({
            "type": "object",
            "properties": { "a": { "$ref": "#/$defs/b", "title": "A" }, "c": { "$ref": "#/$defs/list" } },
            "$defs": {
                "b": { "$ref": "#/$defs/c" },
                "c": { "$ref": "#/$defs/b" },
                "list": { "type": "array", "items": { "$ref": "#/$defs/list" } },
            },
        });
        let known = repaired(&circle);
        assert_eq!(known["properties"], json!({ "a": { "title": "A" }, "c": { "$ref": "#/$defs/list" } }));
        assert_eq!((&known["$defs"]["b"], &known["$defs"]["list"]), (&json!({}), &circle["$defs"]["list"]));
        // The repair moves the schema to which the reference points.
        let moved = json!({
            "type": "array", "items": [{ "type": "string" }], "contains": { "$ref": "#/items/0" },
        });
        assert_eq!(repaired(&moved)["contains"], json!({}));
    }
}
