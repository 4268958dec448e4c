//! Checks the bounds that a schema sets beyond its types. Deserializing a value does not check them, and providers that
//! enforce a schema support only some of them. A repeated item in a set counts once and is not a fault.

use serde_json::{Map, Value};

/// Maximum nesting of schemas that are checked.
const DEEPEST: usize = 200;

/// Returns the bounds of this schema that the value breaks, each with the path of the offending value.
pub(super) fn broken(schema: &Value, value: &Value) -> Vec<String> {
    let mut check = BoundsCheck { root: schema, faults: Vec::new() };
    check.value(schema, value, "", DEEPEST);
    check.faults
}

struct BoundsCheck<'a> {
    root: &'a Value,
    faults: Vec<String>,
}

impl<'a> BoundsCheck<'a> {
    fn value(&mut self, schema: &'a Value, value: &Value, path: &str, left: usize) {
        let Some(fields) = schema.as_object().filter(|_| left > 0) else { return };
        let left = left - 1;
        let reference = fields.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        if let Some(named) = reference.and_then(|pointer| self.root.pointer(pointer)) {
            self.value(named, value, path, left);
        }
        for part in list(fields, "allOf") {
            self.value(part, value, path, left);
        }
        for name in ["anyOf", "oneOf"] {
            self.choice(list(fields, name), value, path, left);
        }
        match value {
            Value::Number(number) => self.number(fields, number.as_f64(), path),
            Value::String(text) => {
                let count = text.chars().count();
                self.count(fields, ("minLength", "maxLength"), count, "characters", path);
            }
            Value::Array(items) => {
                self.count(fields, ("minItems", "maxItems"), items.len(), "items", path);
                self.items(fields, items, path, left);
            }
            Value::Object(inner) => {
                self.count(fields, ("minProperties", "maxProperties"), inner.len(), "fields", path);
                for (name, field) in inner {
                    let known = fields.get("properties").and_then(|properties| properties.get(name));
                    let Some(schema) = known.or_else(|| fields.get("additionalProperties")) else { continue };
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.value(schema, field, &path, left);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Checks that the value fits one of the schemas. Otherwise adds the broken bounds of the first schema of the
    /// value's kind.
    fn choice(&mut self, several: &'a [Value], value: &Value, path: &str, left: usize) {
        let mut first = None;
        for schema in several.iter().filter(|schema| self.is_of(schema, value, left)) {
            let mut check = Self { root: self.root, faults: Vec::new() };
            check.value(schema, value, path, left);
            if check.faults.is_empty() {
                return;
            }
            first.get_or_insert(check.faults);
        }
        self.faults.extend(first.into_iter().flatten());
    }

    /// Returns true if the value matches the type, the constants and the required fields of the schema.
    fn is_of(&self, schema: &Value, value: &Value, left: usize) -> bool {
        let Some(fields) = schema.as_object().filter(|_| left > 0) else { return true };
        let reference = fields.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        if let Some(named) = reference.and_then(|pointer| self.root.pointer(pointer)) {
            return self.is_of(named, value, left - 1);
        }
        let is_kind = |kind: &Value| match kind.as_str() {
            Some("null") => value.is_null(),
            Some("boolean") => value.is_boolean(),
            Some("integer" | "number") => value.is_number(),
            Some("string") => value.is_string(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            _ => true,
        };
        let of_type = match fields.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().any(is_kind),
            Some(kind) => is_kind(kind),
            None => true,
        };
        let of_constant = fields.get("const").is_none_or(|constant| constant == value);
        let of_enum = fields.get("enum").and_then(Value::as_array).is_none_or(|known| known.contains(value));
        let given = value.as_object();
        let has = |name: &Value| name.as_str().is_none_or(|name| given.is_none_or(|given| given.contains_key(name)));
        let of_fields = list(fields, "required").iter().all(has);
        let mut inner = fields.get("properties").and_then(Value::as_object).into_iter().flatten();
        let of_constants = inner.all(|(name, schema)| {
            let field = given.and_then(|given| given.get(name));
            let is_constant = schema.get("const").is_some() || schema.get("enum").is_some();
            field.is_none_or(|field| !is_constant || self.is_of(schema, field, left - 1))
        });
        of_type && of_constant && of_enum && of_fields && of_constants
    }

    fn number(&mut self, fields: &Map<String, Value>, number: Option<f64>, path: &str) {
        let Some(number) = number else { return };
        let bound = |name: &str| fields.get(name).and_then(Value::as_f64);
        let mut faults = Vec::new();
        faults.extend(bound("minimum").filter(|least| number < *least).map(|least| format!("is less than {least}")));
        faults.extend(bound("maximum").filter(|most| number > *most).map(|most| format!("is more than {most}")));
        let least = bound("exclusiveMinimum").filter(|least| number <= *least);
        faults.extend(least.map(|least| format!("must be more than {least}")));
        let most = bound("exclusiveMaximum").filter(|most| number >= *most);
        faults.extend(most.map(|most| format!("must be less than {most}")));
        let factor = bound("multipleOf").filter(|factor| {
            let times = number / factor;
            *factor > 0.0 && (times - times.round()).abs() > 1e-9 * times.abs().max(1.0)
        });
        faults.extend(factor.map(|factor| format!("is not a multiple of {factor}")));
        self.faults.extend(faults.into_iter().map(|fault| about(path, &fault)));
    }

    fn count(&mut self, fields: &Map<String, Value>, names: (&str, &str), count: usize, what: &str, path: &str) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let bound = |name: &str| fields.get(name).and_then(Value::as_u64);
        if let Some(least) = bound(names.0).filter(|least| count < *least) {
            self.faults.push(about(path, &format!("has {count} {what}, but at least {least} are required")));
        }
        if let Some(most) = bound(names.1).filter(|most| count > *most) {
            self.faults.push(about(path, &format!("has {count} {what}, but at most {most} are allowed")));
        }
    }

    fn items(&mut self, fields: &'a Map<String, Value>, items: &[Value], path: &str, left: usize) {
        let places = list(fields, "prefixItems");
        for (at, item) in items.iter().enumerate() {
            let Some(schema) = places.get(at).or_else(|| fields.get("items")) else { continue };
            self.value(schema, item, &format!("{path}[{at}]"), left);
        }
    }
}

fn list<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    fields.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn about(path: &str, fault: &str) -> String {
    if path.is_empty() { format!("it {fault}") } else { format!("`{path}` {fault}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::broken;

    #[test]
    fn bounds_are_checked_with_their_paths() {
        let schema = json!({
            "type": "object",
            "properties": {
                "age": { "type": "integer", "minimum": 0, "maximum": 150 },
                "share": { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.1 },
                "name": { "type": ["string", "null"], "minLength": 2, "maxLength": 3 },
                "tags": { "type": "array", "items": { "type": "string", "maxLength": 1 }, "maxItems": 2, "uniqueItems": true },
                "pair": { "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer", "minimum": 1 }] },
                "map": { "type": "object", "additionalProperties": { "type": "integer", "minimum": 1 }, "minProperties": 1 },
                "next": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] },
                "kind": { "oneOf": [
                    { "type": "object", "properties": { "k": { "const": "a" }, "n": { "type": "integer", "maximum": 1 } }, "required": ["k"] },
                    { "type": "object", "properties": { "k": { "const": "b" }, "n": { "type": "integer", "maximum": 9 } }, "required": ["k"] },
                ] },
            },
        });
        let good = json!({
            "age": 150, "share": 0.3, "name": "äöü", "tags": ["a", "a"], "pair": ["", 1], "map": { "a": 1 },
            "next": { "age": 1 }, "kind": { "k": "b", "n": 9 }, "other": 5,
        });
        assert_eq!(broken(&schema, &good), Vec::<String>::new());
        let cases = [
            (json!({ "age": -1 }), "`age` is less than 0"),
            (json!({ "age": 151 }), "`age` is more than 150"),
            (json!({ "share": 0 }), "`share` must be more than 0"),
            (json!({ "share": 1 }), "`share` must be less than 1"),
            (json!({ "share": 0.25 }), "`share` is not a multiple of 0.1"),
            (json!({ "name": "ä" }), "`name` has 1 characters, but at least 2 are required"),
            (json!({ "name": "äöüß" }), "`name` has 4 characters, but at most 3 are allowed"),
            (json!({ "tags": ["a", "b", "c"] }), "`tags` has 3 items, but at most 2 are allowed"),
            (json!({ "tags": ["ab"] }), "`tags[0]` has 2 characters, but at most 1 are allowed"),
            (json!({ "pair": ["", 0] }), "`pair[1]` is less than 1"),
            (json!({ "map": {} }), "`map` has 0 fields, but at least 1 are required"),
            (json!({ "map": { "a": 0 } }), "`map.a` is less than 1"),
            (json!({ "next": { "next": { "age": -1 } } }), "`next.next.age` is less than 0"),
            (json!({ "kind": { "k": "a", "n": 2 } }), "`kind.n` is more than 1"),
        ];
        for (value, fault) in cases {
            assert_eq!(broken(&schema, &value), [fault], "{value}");
        }
        // Bounds do not apply to values of another type, and null is not a string.
        let other = json!({ "age": "x", "name": null, "kind": 5 });
        assert_eq!(broken(&schema, &other), Vec::<String>::new());
    }
}
