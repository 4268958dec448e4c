//! Tool schemas, adapted for models.
//!
//! Providers refuse a whole request for the schema of one tool: one that is not an object of fields, whose field names
//! have unusual characters, or that is not valid. Such a schema is adapted for the model, and the model's arguments are
//! converted back for the server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::repair::repaired;

/// The maximum size of a schema, in bytes of JSON.
const LARGEST: usize = 128 * 1024;
/// The maximum length of a field name that providers accept.
const LONGEST_NAME: usize = 64;
/// The argument that contains the whole value, if the value is one of several kinds.
const VALUE: &str = "value";
/// Keywords of values that are one of several kinds.
const CHOICES: [&str; 9] = ["anyOf", "oneOf", "allOf", "not", "if", "enum", "const", "$ref", "$dynamicRef"];
/// Keywords with schemas of the same value. [`PARTS`] contains the keywords with schemas of its parts.
const SAME: [&str; 7] = ["anyOf", "oneOf", "allOf", "not", "if", "then", "else"];
const PARTS: [&str; 7] =
    ["items", "prefixItems", "additionalProperties", "contains", "$defs", "definitions", "patternProperties"];
/// The maximum number of schemas of one value that are followed.
const MOST: usize = 256;

#[derive(Debug)]
pub(crate) struct AdaptedSchema {
    pub(crate) original: Value,
    /// The schema with the server's names, and valid keywords.
    repaired: Value,
    /// The schema for models: an object of fields.
    pub(crate) shown: Value,
    is_wrapped: bool,
    is_renamed: bool,
}

/// The renamed fields of an object: the server's names, and the names for models.
type RenamedFields = BTreeMap<String, String>;

impl AdaptedSchema {
    /// Adapts a schema. Fails if that is impossible.
    pub(crate) fn new(schema: Map<String, Value>) -> Result<Self, String> {
        let original = Value::Object(schema);
        let length = original.to_string().len();
        if length > LARGEST {
            return Err(format!("its schema has {length} bytes: the limit is {LARGEST}"));
        }
        let repaired = repaired(&original);
        let renamed = rename(&repaired, &RenamedFields::new());
        let is_renamed = renamed != repaired;
        let (mut outside, mut through_fields) = (None, false);
        each_reference(&repaired, &mut |reference| {
            through_fields |= reference.contains("/properties/");
            if !reference.starts_with('#') {
                outside = Some(reference.to_owned());
            }
        });
        if let Some(outside) = outside {
            return Err(format!("its schema refers to `{outside}`, which is not part of it"));
        }
        let is_wrapped = CHOICES.iter().any(|name| repaired.get(name).is_some())
            || repaired.get("type").is_some_and(|kind| kind != "object" && !kind.is_array());
        if through_fields && (is_renamed || is_wrapped) {
            return Err("its schema refers to its own fields, and cannot be adapted".to_owned());
        }
        let shown = if is_wrapped { wrapped(renamed) } else { with_fields(renamed) };
        Ok(Self { original, repaired, shown, is_wrapped, is_renamed })
    }

    /// Converts the arguments of a call to the server's schema.
    pub(crate) fn arguments(&self, given: &Value) -> Value {
        let inner = given.as_object().filter(|fields| self.is_wrapped && fields.len() == 1);
        let given = inner.and_then(|fields| fields.get(VALUE)).unwrap_or(given);
        if !self.is_renamed {
            return given.clone();
        }
        restored(given, &[&self.repaired], &self.repaired)
    }
}

/// Wraps the schema in an object with a single field.
fn wrapped(mut schema: Value) -> Value {
    let mut outer = json!({ "type": "object", "required": [VALUE], "additionalProperties": false });
    // This precedes the move of the shared schemas, because they may also refer to the whole schema.
    point_inside(&mut schema);
    if let Value::Object(fields) = &mut schema {
        fields.remove("$schema");
        for name in ["$defs", "definitions"] {
            if let Some(shared) = fields.remove(name) {
                outer[name] = shared;
            }
        }
    }
    outer["properties"] = json!({ VALUE: schema });
    outer
}

/// Redirects references to the whole schema, and to parts that do not move, to the field [`VALUE`].
fn point_inside(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(reference) if name == "$ref" => point_at_value(reference),
                    field => point_inside(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(point_inside),
        _ => {}
    }
}

fn point_at_value(reference: &mut String) {
    let moves = ["#/$defs/", "#/definitions/"].iter().any(|shared| reference.starts_with(shared));
    let is_pointer = reference == "#" || reference.starts_with("#/");
    if let Some(pointer) = reference.strip_prefix('#').filter(|_| is_pointer && !moves) {
        *reference = format!("#/properties/{VALUE}{pointer}");
    }
}

/// Adds the type and the fields of an object, which providers require.
fn with_fields(mut schema: Value) -> Value {
    if let Value::Object(fields) = &mut schema {
        fields.insert("type".to_owned(), json!("object"));
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

fn each_reference(schema: &Value, look: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(reference) if name == "$ref" => look(reference),
                    field => each_reference(field, look),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, look)),
        _ => {}
    }
}

fn fits(name: &str) -> bool {
    let known = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'-' | b'.');
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(known)
}

/// Returns the fields of an object that must be renamed.
fn names(schema: &Value) -> RenamedFields {
    let mut names = RenamedFields::new();
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return names };
    // The last number of each plain name. Without it, thousands of fields with the same plain name would take quadratic
    // time.
    let mut numbers = BTreeMap::<String, usize>::new();
    let mut taken = BTreeSet::new();
    for name in fields.keys().filter(|name| !fits(name)) {
        let plain = name.chars().map(|letter| {
            let known = letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
            if known { letter } else { '_' }
        });
        let plain: String = plain.take(LONGEST_NAME - 4).collect();
        let plain = if plain.is_empty() { "_".to_owned() } else { plain };
        let number = numbers.entry(plain.clone()).or_default();
        let shown = loop {
            *number += 1;
            let end = if *number == 1 { String::new() } else { format!("_{number}") };
            let shown = format!("{}{end}", &plain[..plain.len().min(LONGEST_NAME - end.len())]);
            if !fields.contains_key(&shown) && taken.insert(shown.clone()) {
                break shown;
            }
        };
        names.insert(name.clone(), shown);
    }
    names
}

/// Renames the fields of a schema. Schemas of the same value may require fields of the outer schema.
fn rename(schema: &Value, outer: &RenamedFields) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut own = outer.clone();
    own.extend(names(schema));
    let shown = |name: &String| own.get(name).unwrap_or(name).clone();
    let inner = |value: &Value, outer: &RenamedFields| match value {
        Value::Array(several) => several.iter().map(|one| rename(one, outer)).collect(),
        one => rename(one, outer),
    };
    let renamed = fields.iter().map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                fields.iter().map(|(name, field)| (shown(name), rename(field, &RenamedFields::new()))).collect()
            }
            ("dependentRequired" | "dependentSchemas", Value::Object(fields)) => {
                fields.iter().map(|(name, field)| (shown(name), required(field, &own))).collect()
            }
            ("required", value) => required(value, &own),
            ("$defs" | "definitions" | "patternProperties", Value::Object(several)) => {
                several.iter().map(|(name, one)| (name.clone(), rename(one, &RenamedFields::new()))).collect()
            }
            (name, value) if SAME.contains(&name) => inner(value, &own),
            (name, value) if PARTS.contains(&name) => inner(value, &RenamedFields::new()),
            (_, value) => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(renamed.collect())
}

/// Renames a list of field names, or renames the fields of a schema of the same value.
fn required(value: &Value, own: &RenamedFields) -> Value {
    match value {
        Value::Array(names) => {
            let shown =
                |name: &Value| name.as_str().and_then(|name| own.get(name)).map_or(name.clone(), |shown| json!(shown));
            names.iter().map(shown).collect()
        }
        schema => rename(schema, own),
    }
}

/// Returns these schemas and all schemas that they include or may include for the same value.
fn views<'a>(schemas: &[&'a Value], root: &'a Value) -> Vec<&'a Value> {
    let mut views: Vec<&Value> = schemas.to_vec();
    let mut at = 0;
    while at < views.len() && views.len() < MOST {
        let schema = views[at];
        at += 1;
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        let named = reference.and_then(|pointer| root.pointer(pointer));
        let same = SAME.iter().filter_map(|name| schema.get(*name)).flat_map(|value| match value {
            Value::Array(several) => several.as_slice(),
            one => std::slice::from_ref(one),
        });
        let more: Vec<&Value> = named.into_iter().chain(same).collect();
        views.extend(
            more.into_iter().filter(|more| !views.iter().any(|known| std::ptr::eq(*known, *more))).collect::<Vec<_>>(),
        );
    }
    views
}

/// Replaces the names for models in a value by the server's names.
fn restored(value: &Value, schemas: &[&Value], root: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let views = views(schemas, root);
            let known: Vec<(&Value, RenamedFields)> = views.iter().map(|view| (*view, names(view))).collect();
            let restored = fields.iter().map(|(shown, field)| {
                let of_name = |(_, names): &(&Value, RenamedFields)| {
                    names.iter().find(|(_, known)| *known == shown).map(|(name, _)| name.clone())
                };
                let name = known.iter().find_map(of_name).unwrap_or_else(|| shown.clone());
                let mut inner: Vec<&Value> =
                    views.iter().filter_map(|view| view.get("properties")?.get(&name)).collect();
                if inner.is_empty() {
                    inner = views.iter().filter_map(|view| view.get("additionalProperties")).collect();
                }
                (name, self::restored(field, &inner, root))
            });
            restored.collect()
        }
        Value::Array(items) => {
            let views = views(schemas, root);
            let place = |at: usize| {
                let of_place = views.iter().filter_map(move |view| view.get("prefixItems")?.get(at));
                of_place.chain(views.iter().filter_map(|view| view.get("items"))).collect::<Vec<_>>()
            };
            items.iter().enumerate().map(|(at, item)| restored(item, &place(at), root)).collect()
        }
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(schema: Value) -> Result<AdaptedSchema, String> {
        let Value::Object(schema) = schema else { panic!("an object") };
        AdaptedSchema::new(schema)
    }

    #[test]
    fn accepted_schema_is_unchanged() {
        let plain =
            json!({ "type": "object", "properties": { "a.b-c_d": { "type": "string" } }, "required": ["a.b-c_d"] });
        let kept = shape(plain.clone()).unwrap();
        assert_eq!(kept.shown, plain);
        let given = json!({ "value": { "$x": 1 } });
        assert_eq!(kept.arguments(&given), given);
        assert_eq!(shape(json!({})).unwrap().shown, json!({ "type": "object", "properties": {} }));
    }

    #[test]
    fn choice_becomes_one_argument() {
        let by = |name: &str| json!({ "properties": { name: { "type": "string" } }, "required": [name] });
        for name in ["anyOf", "oneOf", "allOf"] {
            let schema = json!({
                "type": "object", name: [by("id"), { "$ref": "#/$defs/Other" }, { "$ref": "#" }],
                "$defs": {
                    "Other": by("$other"),
                    "Tree": { "items": { "$ref": "#" }, "contains": { "$ref": format!("#/{name}/0") } },
                },
            });
            let shape = shape(schema).unwrap();
            assert_eq!((&shape.shown["type"], &shape.shown["required"]), (&json!("object"), &json!(["value"])));
            let inner = &shape.shown["properties"]["value"];
            assert_eq!(inner[name][1], json!({ "$ref": "#/$defs/Other" }));
            assert_eq!(inner[name][2], json!({ "$ref": "#/properties/value" }));
            assert_eq!(shape.shown["$defs"]["Tree"]["items"], json!({ "$ref": "#/properties/value" }));
            assert_eq!(shape.shown["$defs"]["Tree"]["contains"]["$ref"], json!(format!("#/properties/value/{name}/0")));
            assert!(shape.shown["$defs"]["Other"]["properties"].get("_other").is_some(), "{:#}", shape.shown);
            assert_eq!(shape.arguments(&json!({ "value": { "_other": "x" } })), json!({ "$other": "x" }));
            assert_eq!(shape.arguments(&json!({ "id": "x" })), json!({ "id": "x" }), "models forget the argument");
        }
    }

    #[test]
    fn field_names_are_adapted() {
        let long = "x".repeat(70);
        let schema = json!({
            "type": "object",
            "properties": {
                "$filter": { "type": "string" }, "_filter": { "type": "string" }, "StartTime<": { "type": "string" },
                "": { "type": "integer" }, long.as_str(): { "type": "integer" }, "größe": { "type": "integer" },
                "list": { "type": "array", "items": { "type": "object", "properties": { "a b": { "type": "null" } } } },
                "map": { "type": "object", "additionalProperties": { "type": "object", "properties": { "$in": true } } },
            },
            "required": ["$filter", "list"],
        });
        let shape = shape(schema.clone()).unwrap();
        assert_eq!(shape.shown["required"], json!(["_filter_2", "list"]));
        for name in shape.shown["properties"].as_object().unwrap().keys() {
            assert!(fits(name), "{name}");
        }
        let server = json!({
            "$filter": "f", "_filter": "g", "StartTime<": "s", "": 1, long.as_str(): 2, "größe": 3,
            "list": [{ "a b": null, "_in": 4 }], "map": { "_filter_2": { "$in": 5 }, "$in": { "a_b": 6 } },
        });
        let model = json!({
            "_filter_2": "f", "_filter": "g", "StartTime_": "s", "_": 1, "x".repeat(60): 2, "gr__e": 3,
            "list": [{ "a_b": null, "_in": 4 }], "map": { "_filter_2": { "_in": 5 }, "$in": { "a_b": 6 } },
        });
        assert_eq!(shape.arguments(&model), server, "keys of maps are the model's own");
    }

    #[test]
    fn invalid_schema_is_repaired_before_it_is_adapted() {
        let schema = json!({
            "type": "dict",
            "properties": { "$pair": { "type": "array", "items": [{ "type": "object", "properties": { "a b": { "type": "int" } } }] } },
            "required": ["$pair"],
        });
        let shape = shape(schema.clone()).unwrap();
        let pair = json!({ "type": "array", "prefixItems": [{ "type": "object", "properties": { "a_b": { "type": "integer" } } }], "items": {} });
        assert_eq!(shape.shown, json!({ "type": "object", "properties": { "_pair": pair }, "required": ["_pair"] }));
        assert_eq!(shape.arguments(&json!({ "_pair": [{ "a_b": 1 }] })), json!({ "$pair": [{ "a b": 1 }] }));
        assert_eq!(shape.original, schema);
    }

    /// The schemas are as large as the limit allows and take as long as possible.
    #[test]
    fn hostile_schemas_are_adapted_quickly() {
        let begun = std::time::Instant::now();
        let odd: Map<String, Value> =
            (0..9_000u32).map(|number| (char::from_u32(0x4e00 + number).unwrap().to_string(), json!({}))).collect();
        let shape = self::shape(json!({ "type": "object", "properties": odd })).unwrap();
        let fields = shape.shown["properties"].as_object().unwrap();
        assert_eq!(fields.len(), 9_000);
        assert!(fields.keys().all(|name| fits(name)));
        let names: Vec<Value> = (0..15_000).map(|number| json!(number.to_string())).collect();
        self::shape(json!({ "type": "object", "required": names })).unwrap();
        // Each definition refers twice to the next one, so that the expanded schema would have 2^60 fields.
        let defs: Map<String, Value> = (0..60)
            .map(|number| {
                let next = json!({ "$ref": format!("#/$defs/d{}", number + 1) });
                (format!("d{number}"), json!({ "type": "object", "properties": { "a b": next, "c": next } }))
            })
            .collect();
        let mut bomb = json!({
            "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } },
            "$defs": { "d60": { "type": "string" } },
        });
        bomb["$defs"].as_object_mut().unwrap().extend(defs);
        let shape = self::shape(bomb).unwrap();
        assert_eq!(
            shape.arguments(&json!({ "a": { "a_b": { "a_b": { "c": 1 } } } })),
            json!({ "a": { "a b": { "a b": { "c": 1 } } } })
        );
        let mut deep = json!({ "a b": 1 });
        for _ in 0..100 {
            deep = json!({ "a b": deep });
        }
        let nested =
            self::shape(json!({ "type": "object", "properties": { "x y": { "$ref": "#" } }, "default": deep }));
        let mut given = json!(1);
        for _ in 0..100 {
            given = json!({ "x_y": given });
        }
        assert!(nested.unwrap().arguments(&given).to_string().contains("x y"));
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }

    #[test]
    fn unadaptable_schemas_are_refused() {
        let far = json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/a.json" } } });
        assert!(shape(far).unwrap_err().contains("`https://example.com/a.json`, which is not part of it"));
        let large = json!({ "type": "object", "description": "x".repeat(LARGEST) });
        assert!(shape(large).unwrap_err().contains("the limit is 131072"));
        let through = json!({ "type": "object", "properties": { "$a": {}, "b": { "$ref": "#/properties/$a" } } });
        assert!(shape(through).unwrap_err().contains("refers to its own fields"));
    }
}
