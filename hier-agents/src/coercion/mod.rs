//! Compares a model's value with a JSON schema. Models often use another JSON type than the requested one:
//! `5.0` for an integer, `"true"`, a list as text. Such values are converted where their meaning is clear. Everything
//! else is a fault with its path.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

/// Maximum number of comparisons. It stops schemas that contain themselves in several places.
const MOST_STEPS: usize = 20_000;
const MOST_DEPTH: usize = 120;

/// A mismatch between a value and its schema, and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaFault {
    /// A path such as `person.tags[1]`. Empty for the value itself.
    pub(crate) path: String,
    pub(crate) what: FaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Missing,
    /// An unknown field, with a hint at the intended field.
    Unknown(String),
    Misfit(String),
}

impl SchemaFault {
    fn at(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), what: FaultKind::Misfit(what.into()) }
    }

    pub(crate) fn missing(path: &str) -> Self {
        Self { path: path.to_owned(), what: FaultKind::Missing }
    }

    /// Converts a deserialization error of a value at the path `outer`.
    pub(crate) fn from_error(error: &serde_path_to_error::Error<serde_json::Error>, outer: &str) -> Self {
        let path = error.path().to_string();
        Self::at(if path == "." { "" } else { &path }, error.inner().to_string()).within(outer)
    }

    /// Prefixes the path of the fault with `outer`.
    pub(crate) fn within(self, outer: &str) -> Self {
        let path = match (outer, &*self.path) {
            (outer, "") => outer.to_owned(),
            ("", path) => path.to_owned(),
            (outer, path) if path.starts_with('[') => format!("{outer}{path}"),
            (outer, path) => format!("{outer}.{path}"),
        };
        Self { path, ..self }
    }
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.what, &*self.path) {
            (FaultKind::Missing, path) => write!(f, "`{path}` is missing"),
            (FaultKind::Unknown(hint), path) => write!(f, "there is no argument `{path}`{hint}"),
            (FaultKind::Misfit(what), "") => f.write_str(what),
            (FaultKind::Misfit(what), path) => write!(f, "`{path}`: {what}"),
        }
    }
}

/// Reads a value that was requested with this schema. The error lists all faults of the value.
pub(crate) fn read_value<T: DeserializeOwned>(value: &Value, schema: &Value) -> Result<T, Vec<SchemaFault>> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| add_type_error(coerce(&mut value.clone(), schema), &error, ""))
}

/// Converts a value that does not match the schema to the value that was probably intended. Returns `None` if the value
/// fits or if no conversion is clear.
pub(crate) fn coerced(value: &Value, schema: &Value) -> Option<Value> {
    let mut fitted = value.clone();
    coerce(&mut fitted, schema);
    (fitted != *value).then_some(fitted)
}

/// Converts the value to the types of the schema where its meaning is clear, and returns the remaining faults.
pub(crate) fn coerce(value: &mut Value, schema: &Value) -> Vec<SchemaFault> {
    let mut walk = Walk { root: schema, faults: Vec::new(), steps: 0 };
    walk.value(value, schema, "", 0);
    walk.faults
}

/// Adds the error of deserializing the value at the path `outer`. The error replaces a known fault at its path, because
/// the type knows more about the value than the schema.
pub(crate) fn add_type_error(
    mut faults: Vec<SchemaFault>,
    error: &serde_path_to_error::Error<serde_json::Error>,
    outer: &str,
) -> Vec<SchemaFault> {
    let fault = SchemaFault::from_error(error, outer);
    let (path, what) = (fault.path.clone(), error.inner().to_string());
    let field = what.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    if field.is_some_and(|field| faults.iter().any(|fault| fault.path == inside(&path, field))) {
        return faults;
    }
    match faults.iter_mut().find(|known| known.path == path) {
        Some(known) => *known = fault,
        None => faults.insert(0, fault),
    }
    faults
}

/// Returns the path of a field.
fn inside(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

struct Walk<'s> {
    /// The schema in which references are looked up.
    root: &'s Value,
    faults: Vec<SchemaFault>,
    steps: usize,
}

impl<'s> Walk<'s> {
    fn value(&mut self, value: &mut Value, schema: &'s Value, path: &str, depth: usize) {
        self.steps += 1;
        if self.steps > MOST_STEPS || depth > MOST_DEPTH {
            return;
        }
        let Value::Object(rules) = schema else { return };
        let depth = depth + 1;
        if let Some(reference) = rules.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            if let Some(target) = target {
                self.value(value, target, path, depth);
            }
        }
        for schema in rules.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.value(value, schema, path, depth);
        }
        for kinds in ["anyOf", "oneOf"].into_iter().filter_map(|word| rules.get(word)?.as_array()) {
            self.one_of(value, kinds, path, depth);
        }
        let options = rules.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        if let Some(options) = options.or_else(|| rules.get("const").map(std::slice::from_ref)) {
            self.option(value, options, path);
            return;
        }
        let types: Vec<&str> = match rules.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !types.is_empty() && !types.iter().any(|name| is_of(value, name)) {
            let meant = types.iter().find_map(|name| self.meant(value, name, schema, path, depth));
            let Some(meant) = meant else {
                let wanted: Vec<&str> = types.iter().map(|name| type_in_words(name)).collect();
                let what = format!("it is {}, and must be {}", type_of(value), wanted.join(" or "));
                return self.faults.push(SchemaFault::at(path, what));
            };
            *value = meant;
        }
        match value {
            Value::Object(_) => self.fields(value, schema, path, depth),
            Value::Array(items) => {
                let first = rules.get("prefixItems").and_then(Value::as_array);
                let rest = rules.get("items");
                for (place, item) in items.iter_mut().enumerate() {
                    let schema = first.and_then(|first| first.get(place)).or(rest);
                    if let Some(schema) = schema {
                        self.value(item, schema, &format!("{path}[{place}]"), depth);
                    }
                }
            }
            Value::Number(number) => {
                let bound = |word: &str| rules.get(word).and_then(Value::as_f64);
                let number = number.as_f64().unwrap_or_default();
                if let Some(least) = bound("minimum").filter(|least| number < *least) {
                    self.faults.push(SchemaFault::at(path, format!("it must be at least {least}")));
                }
                if let Some(most) = bound("maximum").filter(|most| number > *most) {
                    self.faults.push(SchemaFault::at(path, format!("it must be at most {most}")));
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, value: &mut Value, schema: &'s Value, path: &str, depth: usize) {
        let Value::Object(fields) = value else { return };
        let properties = schema.get("properties").and_then(Value::as_object);
        let more = schema.get("additionalProperties");
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                self.faults.push(SchemaFault::missing(&inside(path, name)));
            }
        }
        for (name, value) in fields.iter_mut() {
            let path = inside(path, name);
            match (properties.and_then(|properties| properties.get(name)), more) {
                (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => self.value(value, schema, &path, depth),
                (None, Some(Value::Bool(false))) => {
                    let known = properties.into_iter().flat_map(serde_json::Map::keys).map(String::as_str);
                    let hint = hier_spec::did_you_mean(name, known);
                    self.faults.push(SchemaFault { path, what: FaultKind::Unknown(hint) });
                }
                _ => {}
            }
        }
    }

    /// Converts the value to one of several kinds: the first kind that it fits unchanged, or else the first kind that
    /// it fits after conversion. If the value fits no kind and only one kind is possible, the faults of this kind
    /// count.
    fn one_of(&mut self, value: &mut Value, kinds: &'s [Value], path: &str, depth: usize) {
        let mut meant = None;
        let mut least: Option<Vec<SchemaFault>> = None;
        let mut possible = 0;
        for kind in kinds {
            let mut tried = value.clone();
            match self.tried(&mut tried, kind, path, depth) {
                faults if faults.is_empty() => {
                    if tried == *value {
                        return;
                    }
                    meant.get_or_insert(tried);
                }
                faults if self.is_possible(value, kind) => {
                    possible += 1;
                    least = Some(faults);
                }
                _ => {}
            }
        }
        match (meant, least) {
            (Some(meant), _) => *value = meant,
            (None, Some(faults)) if possible == 1 => self.faults.extend(faults),
            // The error of deserialization describes the fault.
            _ => {}
        }
    }

    /// Compares a copy of a value, and returns the faults of the copy. The steps count towards [`MOST_STEPS`].
    fn tried(&mut self, value: &mut Value, schema: &'s Value, path: &str, depth: usize) -> Vec<SchemaFault> {
        let faults = std::mem::take(&mut self.faults);
        self.value(value, schema, path, depth);
        std::mem::replace(&mut self.faults, faults)
    }

    /// Returns true if a value may be meant as this variant: the variant is not null, and the tag fields of the value
    /// have the variant's values.
    fn is_possible(&self, value: &Value, kind: &Value) -> bool {
        let kind = kind
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|at| self.root.pointer(at.strip_prefix('#')?))
            .unwrap_or(kind);
        if kind.get("type") == Some(&"null".into()) {
            return false;
        }
        let mut fields = kind.get("properties").and_then(Value::as_object).into_iter().flatten();
        fields.all(|(name, schema)| schema.get("const").is_none_or(|tag| value.get(name) == Some(tag)))
    }

    /// Converts the value to the only option with the same text. Otherwise adds a fault.
    fn option(&mut self, value: &mut Value, options: &[Value], path: &str) {
        if options.contains(value) {
            return;
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_scalar = !value.is_array() && !value.is_object() && !value.is_null();
        let mut same = options.iter().filter(|option| is_scalar && text(option) == text(value));
        if let (Some(option), None) = (same.next(), same.next()) {
            *value = option.clone();
            return;
        }
        let known: Vec<String> = options.iter().take(20).map(|option| format!("`{}`", text(option))).collect();
        self.faults.push(SchemaFault::at(path, format!("it must be one of {}", known.join(", "))));
    }

    /// Converts a value of another type to this type if its meaning is clear.
    fn meant(&mut self, value: &Value, name: &str, schema: &'s Value, path: &str, depth: usize) -> Option<Value> {
        let text = value.as_str().map(str::trim);
        let is_scalar = matches!(name, "integer" | "number" | "boolean" | "string");
        if let Some([item]) = value.as_array().map(Vec::as_slice).filter(|_| is_scalar) {
            return if is_of(item, name) { Some(item.clone()) } else { self.meant(item, name, schema, path, depth) };
        }
        match name {
            "integer" => match (value.as_f64(), text) {
                (Some(number), _) => whole(number),
                (None, Some(text)) => integer(text).or_else(|| whole(text.parse().ok()?)),
                _ => None,
            },
            "number" => {
                let text = text?;
                integer(text).or_else(|| Number::from_f64(text.parse().ok()?).map(Value::Number))
            }
            "boolean" => match text? {
                text if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
                text if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
                _ => None,
            },
            "object" => serde_json::from_str(text?).ok().filter(Value::is_object),
            "array" => {
                let listed = text.and_then(|text| serde_json::from_str(text).ok()).filter(Value::is_array);
                listed.or_else(|| {
                    // A value that fits as an item is a list of one item.
                    let items = schema.get("items").filter(|_| !value.is_null())?;
                    let mut item = value.clone();
                    let fits = self.tried(&mut item, items, path, depth).is_empty() && self.steps <= MOST_STEPS;
                    fits.then(|| Value::Array(vec![item]))
                })
            }
            _ => None,
        }
    }
}

fn integer(text: &str) -> Option<Value> {
    text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from)).ok()
}

/// Returns a number without a fraction as an integer.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // it is checked
fn whole(number: f64) -> Option<Value> {
    // Beyond this limit not every integer can be represented.
    const MOST: f64 = (1_u64 << 53) as f64;
    (number.fract() == 0.0 && number.abs() <= MOST).then(|| Value::from(number as i64))
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        // An unknown type name allows everything.
        _ => true,
    }
}

fn type_in_words(name: &str) -> &str {
    match name {
        "boolean" => "true or false",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
