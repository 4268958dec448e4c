//! JSON Schemas, prepared for a comparison: does a type accept every value of another type?
//!
//! If serde and JSON Schema differ, the comparison follows serde: unknown fields are ignored, and a number with a
//! decimal point is not an integer.

use serde_json::{Map, Value};

/// The schema that accepts every value.
pub(super) static ANYTHING: Value = Value::Bool(true);

/// The pattern of keys that are unsigned integers.
pub(super) const UNSIGNED: &str = r"^\d+$";
/// The pattern of keys that are integers.
pub(super) const SIGNED: &str = r"^-?\d+$";

/// The definitions of named types.
pub(super) type Types = Map<String, Value>;

/// Annotations, which do not restrict values.
const ANNOTATIONS: &[&str] =
    &["$comment", "$schema", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"];

/// Removes annotations, and sorts the keys.
pub(super) fn plain(schema: Value) -> Value {
    let Value::Object(object) = schema else { return schema };
    let mut fields: Vec<(String, Value)> = object.into_iter().collect();
    fields.retain(|(key, _)| !ANNOTATIONS.contains(&key.as_str()));
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    let inner = |key: &str, value: Value| match (key, value) {
        ("properties" | "patternProperties" | "$defs", Value::Object(named)) => {
            let mut named: Vec<(String, Value)> = named.into_iter().map(|(name, it)| (name, plain(it))).collect();
            named.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(named.into_iter().collect())
        }
        ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => list.into_iter().map(plain).collect(),
        ("required", Value::Array(mut list)) => {
            list.sort_by_key(ToString::to_string);
            Value::Array(list)
        }
        ("const" | "enum", value) => value,
        (_, value) => plain(value),
    };
    Value::Object(
        fields
            .into_iter()
            .map(|(key, value)| {
                let value = inner(&key, value);
                (key, value)
            })
            .collect(),
    )
}

const DEFINITIONS: &str = "#/$defs/";

/// Moves the definitions in a schema to `types`. If `types` has another type with the name of one of them, the
/// definitions get names with a number.
pub(super) fn move_definitions(types: &mut Types, schema: &mut Value) {
    let Some(Value::Object(own)) = schema.as_object_mut().and_then(|schema| schema.remove("$defs")) else { return };
    for number in 1.. {
        let rename = |name: &str| if number == 1 { name.to_owned() } else { format!("{name}{number}") };
        let renamed: Types = own.iter().map(|(name, own)| (rename(name), with_names(own, &rename))).collect();
        if renamed.iter().all(|(name, own)| types.get(name).is_none_or(|known| known == own)) {
            types.extend(renamed);
            *schema = with_names(schema, &rename);
            return;
        }
    }
}

/// Returns the schema with other names of the types that it refers to.
fn with_names(schema: &Value, rename: &dyn Fn(&str) -> String) -> Value {
    let inner = |(key, value): (&String, &Value)| {
        let value = match (key.as_str(), value) {
            ("$ref", Value::String(to)) if to.starts_with(DEFINITIONS) => {
                Value::String(format!("{DEFINITIONS}{}", rename(to.trim_start_matches(DEFINITIONS))))
            }
            ("properties" | "patternProperties", Value::Object(named)) => {
                named.iter().map(|(name, schema)| (name.clone(), with_names(schema, rename))).collect()
            }
            ("const" | "enum", value) => value.clone(),
            (_, value) => with_names(value, rename),
        };
        (key.clone(), value)
    };
    match schema {
        Value::Object(fields) => Value::Object(fields.iter().map(inner).collect()),
        Value::Array(list) => list.iter().map(|schema| with_names(schema, rename)).collect(),
        other => other.clone(),
    }
}

/// A schema with the definitions that it refers to.
#[derive(Clone, Copy)]
pub(super) struct Typed<'a> {
    pub(super) schema: &'a Value,
    pub(super) types: &'a Types,
}

impl<'a> Typed<'a> {
    fn at(self, schema: &'a Value) -> Self {
        Self { schema, ..self }
    }

    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.schema.get(key)
    }

    /// Follows references and lists with a single alternative. An unknown reference accepts every value.
    pub(super) fn resolved(self) -> Self {
        let mut at = self;
        // A chain of references without an end accepts every value.
        for _ in 0..32 {
            let single = ["allOf", "anyOf", "oneOf"].iter().find_map(|key| match at.get(key)?.as_array()?.as_slice() {
                [only] if at.schema.as_object().is_some_and(|object| object.len() == 1) => Some(only),
                _ => None,
            });
            match named(at.schema).map(|name| at.types.get(name)).or(single.map(Some)) {
                Some(schema) => at = at.at(schema.unwrap_or(&ANYTHING)),
                None => return at,
            }
        }
        at.at(&ANYTHING)
    }

    pub(super) fn list(self, key: &str) -> Option<impl Iterator<Item = Self> + use<'a>> {
        Some(self.get(key)?.as_array()?.iter().map(move |schema| self.at(schema)))
    }

    pub(super) fn branches(self) -> Option<Vec<Self>> {
        ["anyOf", "oneOf"].iter().find_map(|key| Some(self.list(key)?.collect()))
    }

    pub(super) fn field(self, key: &str, name: &str) -> Option<Self> {
        Some(self.at(self.get(key)?.get(name)?))
    }

    pub(super) fn fields(self) -> impl Iterator<Item = (&'a str, Self)> {
        let fields = self.get("properties").and_then(Value::as_object).into_iter().flatten();
        fields.map(move |(name, schema)| (name.as_str(), self.at(schema)))
    }

    pub(super) fn requires(self, name: &str) -> bool {
        self.required().any(|required| required == name)
    }

    pub(super) fn required(self) -> impl Iterator<Item = &'a str> {
        self.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the schema of the fields that are not listed, or `None` if the type does not restrict them.
    pub(super) fn others(self) -> Option<Self> {
        self.get("additionalProperties").filter(|schema| **schema != ANYTHING).map(|schema| self.at(schema))
    }

    /// Returns the patterns of keys that are not listed, and the schemas of their values.
    pub(super) fn patterns(self) -> impl Iterator<Item = (&'a str, Self)> {
        let patterns = self.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
        patterns.map(move |(keys, schema)| (keys.as_str(), self.at(schema)))
    }

    /// Returns the schema of a field, or `None` if the type does not restrict it.
    pub(super) fn field_named(self, name: &str) -> Option<Self> {
        let matches = |keys: &str| match keys {
            UNSIGNED => name.parse::<u128>().is_ok(),
            SIGNED => name.parse::<i128>().is_ok(),
            _ => true,
        };
        let by_pattern = || self.patterns().find(|(keys, _)| matches(keys)).map(|(_, schema)| schema);
        self.field("properties", name).or_else(by_pattern).or_else(|| self.others())
    }

    /// Returns the JSON types that the schema names, or `None` if the schema does not name types.
    pub(super) fn kinds(self) -> Option<Vec<&'a str>> {
        match self.get("type")? {
            Value::String(kind) => Some(vec![kind]),
            Value::Array(kinds) => Some(kinds.iter().filter_map(Value::as_str).collect()),
            _ => None,
        }
    }

    /// Returns the values that the schema lists.
    pub(super) fn constants(self) -> Option<Vec<&'a Value>> {
        self.get("const").map(|value| vec![value]).or_else(|| Some(self.get("enum")?.as_array()?.iter().collect()))
    }

    /// Returns the smallest and the greatest integer that the bounds and the format of the schema allow.
    pub(super) fn range(self) -> (i128, i128) {
        let by_format = match self.get("format").and_then(Value::as_str) {
            Some("int8") => (i8::MIN.into(), i8::MAX.into()),
            Some("int16") => (i16::MIN.into(), i16::MAX.into()),
            Some("int32") => (i32::MIN.into(), i32::MAX.into()),
            Some("int64" | "int") => (i64::MIN.into(), i64::MAX.into()),
            Some("uint8") => (0, u8::MAX.into()),
            Some("uint16") => (0, u16::MAX.into()),
            Some("uint32") => (0, u32::MAX.into()),
            Some("uint64" | "uint") => (0, u64::MAX.into()),
            Some("uint128") => (0, i128::MAX),
            _ => (i128::MIN, i128::MAX),
        };
        let bound = |key| self.get(key).and_then(integer);
        (
            bound("minimum").map_or(by_format.0, |it| it.max(by_format.0)),
            bound("maximum").map_or(by_format.1, |it| it.min(by_format.1)),
        )
    }

    pub(super) fn length(self, key: &str) -> Option<u64> {
        self.get(key).and_then(Value::as_u64)
    }
}

/// Returns the name of the type to which a schema refers.
pub(super) fn named(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str).map(|name| name.trim_start_matches(DEFINITIONS))
}

/// Reads an integer. An integer of more than 64 bits is stored as text.
pub(super) fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) if number.is_f64() => None,
        Value::Number(number) => number.to_string().parse().ok(),
        Value::String(digits) => digits.parse().ok(),
        _ => None,
    }
}

/// Returns the place of a field in a value, such as `.lines[].amount`.
pub(super) fn inside(place: &str, field: &str) -> String {
    format!("{place}.{field}")
}
