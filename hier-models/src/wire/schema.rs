//! Fits the schemas of answers to the subset of JSON Schema that a provider accepts.
//!
//! A provider refuses a whole request for one unknown keyword. [`SchemaSubset::fit`] keeps the keywords of the subset,
//! and describes all other keywords in the description. It returns `None` if the subset cannot describe the values. A
//! fitted schema may allow more than the original, so the answer is checked against the original afterwards.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

mod choice;
mod limits;

use limits::SchemaLimits;

/// The part of JSON Schema that a provider accepts.
pub(super) struct SchemaSubset {
    /// Constraints that are sent unchanged.
    keywords: &'static [&'static str],
    formats: &'static [&'static str],
    allows: &'static [SchemaFeature],
    limits: SchemaLimits,
}

/// A feature that a provider may accept in addition to objects with known fields, lists and plain values.
#[derive(Clone, Copy, PartialEq)]
enum SchemaFeature {
    Open,
    /// Fields may be missing. Without this feature, every field is required, and null stands for a missing field.
    Missing,
    TypeLists,
    Recursion,
    /// The root may describe something other than an object.
    AnyRoot,
    Tuples,
}

/// The subset of OpenAI's `strict` mode.
pub(super) const OPENAI: SchemaSubset = SchemaSubset {
    keywords: &[
        "pattern",
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minItems",
        "maxItems",
    ],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
    allows: &[SchemaFeature::TypeLists, SchemaFeature::Recursion],
    limits: SchemaLimits::NONE,
};

pub(super) const ANTHROPIC: SchemaSubset = SchemaSubset {
    keywords: &[],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"],
    allows: &[SchemaFeature::Missing],
    limits: SchemaLimits { optional_fields: 24, choices: 16 },
};

pub(super) const GEMINI: SchemaSubset = SchemaSubset {
    keywords: &["minimum", "maximum", "minItems", "maxItems"],
    formats: &["date-time", "date", "time"],
    allows: &[
        SchemaFeature::Open,
        SchemaFeature::Missing,
        SchemaFeature::TypeLists,
        SchemaFeature::AnyRoot,
        SchemaFeature::Tuples,
    ],
    limits: SchemaLimits::NONE,
};

/// Schemas nested deeper than this are not followed.
const DEEPEST: usize = 100;

/// Maximum size of the parts that a fitted schema repeats, in bytes of JSON. A few references can describe a schema
/// that is larger than any memory.
const MOST_REPEATED: usize = 256 * 1024;

/// The keywords that define the structure of a value. All other keywords constrain the value.
const STRUCTURE: [&str; 14] = [
    "type",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "$ref",
    "$defs",
    "definitions",
];

/// Keywords that constrain nothing.
const IGNORED: [&str; 7] = ["title", "$schema", "$id", "$comment", "readOnly", "writeOnly", "description"];

/// Prefixes of number formats. They add nothing to the Rust type of the answer.
const NUMBERS: [&str; 4] = ["int", "uint", "float", "double"];

impl SchemaSubset {
    fn allows(&self, what: SchemaFeature) -> bool {
        self.allows.contains(&what)
    }

    /// Returns the schema in this subset, or `None` if the subset cannot describe its values.
    pub(super) fn fit(&self, schema: &Value) -> Option<Value> {
        let mut fitting = SchemaFitter {
            subset: self,
            root: schema,
            open: Vec::new(),
            depth: 0,
            repeatable: MOST_REPEATED,
            used: BTreeSet::new(),
        };
        let mut fitted = fitting.node(schema)?;
        if !self.allows(SchemaFeature::AnyRoot) && fitted.get("type").and_then(Value::as_str) != Some("object") {
            return None;
        }
        let mut definitions = Map::new();
        while let Some(name) = fitting.used.iter().find(|name| !definitions.contains_key(*name)).cloned() {
            let definition = schema.get("$defs")?.get(&name)?;
            definitions.insert(name, fitting.node(definition)?);
        }
        if !definitions.is_empty() {
            fitted["$defs"] = Value::Object(definitions);
        }
        self.limits.permit(&fitted).then_some(fitted)
    }
}

struct SchemaFitter<'a> {
    subset: &'a SchemaSubset,
    root: &'a Value,
    open: Vec<String>,
    depth: usize,
    /// Number of bytes that may still be repeated.
    repeatable: usize,
    /// The names in `$defs` that the fitted schema refers to.
    used: BTreeSet<String>,
}

impl SchemaFitter<'_> {
    fn node(&mut self, schema: &Value) -> Option<Value> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let fitted = self.fit(schema);
        self.depth -= 1;
        fitted
    }

    fn fit(&mut self, schema: &Value) -> Option<Value> {
        let Value::Object(fields) = schema else { return self.anything() };
        if let Some(reference) = fields.get("$ref") {
            return self.reference(reference.as_str()?);
        }
        if let Some(parts) = fields.get("allOf") {
            return self.node(&choice::merged(fields, parts.as_array()?)?);
        }
        let mut notes = SchemaNotes::from_description(fields);
        let mut fitted = match choice::constants(fields, &mut notes) {
            Some(constants) => constants,
            None => match ["anyOf", "oneOf"].iter().find_map(|name| fields.get(*name)) {
                // Fields next to a choice apply to each alternative, which this subset cannot express.
                Some(_) if fields.contains_key("properties") => return None,
                Some(several) => {
                    let several: Option<Vec<Value>> = several.as_array()?.iter().map(|one| self.node(one)).collect();
                    json!({ "anyOf": several? })
                }
                None => self.typed(fields, &mut notes)?,
            },
        };
        for (name, value) in fields {
            match name.as_str() {
                name if STRUCTURE.contains(&name) || IGNORED.contains(&name) => {}
                name if self.subset.keywords.contains(&name) => fitted[name] = value.clone(),
                "format" => self.format(value, &mut fitted, &mut notes),
                "patternProperties" if !self.subset.allows(SchemaFeature::Open) => return None,
                name => notes.add(name, value),
            }
        }
        notes.write(&mut fitted);
        if self.subset.allows(SchemaFeature::TypeLists) {
            return Some(fitted);
        }
        let kinds = fitted.get("type").and_then(Value::as_array).map_or(0, Vec::len);
        if kinds > 0 {
            self.repeat(&fitted, kinds)?;
        }
        Some(choice::split_types(fitted))
    }

    /// Counts a repeated part. Returns `None` if the schema becomes too large.
    fn repeat(&mut self, part: &Value, times: usize) -> Option<()> {
        self.repeatable = self.repeatable.checked_sub(part.to_string().len().checked_mul(times)?)?;
        Some(())
    }

    fn anything(&self) -> Option<Value> {
        self.subset.allows(SchemaFeature::Open).then(|| json!({}))
    }

    fn reference(&mut self, reference: &str) -> Option<Value> {
        if self.subset.allows(SchemaFeature::Recursion) {
            if reference == "#" {
                return Some(json!({ "$ref": "#" }));
            }
            if let Some(name) = reference.strip_prefix("#/$defs/").filter(|name| !name.contains(['/', '~', '%'])) {
                self.used.insert(name.to_owned());
                return Some(json!({ "$ref": reference }));
            }
        }
        if self.open.iter().any(|open| open == reference) {
            return None;
        }
        let root = self.root;
        let definition = root.pointer(reference.strip_prefix('#')?)?;
        self.open.push(reference.to_owned());
        let fitted = self.node(definition);
        self.open.pop();
        self.repeat(fitted.as_ref()?, 1)?;
        fitted
    }

    fn format(&self, format: &Value, fitted: &mut Value, notes: &mut SchemaNotes) {
        let Some(name) = format.as_str() else { return };
        if self.subset.formats.contains(&name) {
            fitted["format"] = format.clone();
        } else if !NUMBERS.iter().any(|number| name.starts_with(number)) {
            notes.add("format", format);
        }
    }

    fn typed(&mut self, fields: &Map<String, Value>, notes: &mut SchemaNotes) -> Option<Value> {
        let kinds: Vec<&str> = match fields.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ if fields.contains_key("properties") => vec!["object"],
            _ if fields.contains_key("items") || fields.contains_key("prefixItems") => vec!["array"],
            _ => return self.anything(),
        };
        let mut fitted = match &kinds[..] {
            [kind] => json!({ "type": kind }),
            kinds => json!({ "type": kinds }),
        };
        if kinds.contains(&"object") {
            self.object(fields, &mut fitted)?;
        }
        if kinds.contains(&"array") {
            self.array(fields, &mut fitted, notes)?;
        }
        Some(fitted)
    }

    fn object(&mut self, fields: &Map<String, Value>, fitted: &mut Value) -> Option<()> {
        let (no_fields, rest) = (Map::new(), fields.get("additionalProperties"));
        let properties = fields.get("properties").map_or(Some(&no_fields), Value::as_object)?;
        let required = fields.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if !self.subset.allows(SchemaFeature::Open) {
            let is_closed = match rest {
                Some(rest) => *rest == Value::Bool(false),
                None => !properties.is_empty(),
            };
            is_closed.then_some(())?;
            fitted["additionalProperties"] = Value::Bool(false);
        } else if let Some(rest) = rest {
            fitted["additionalProperties"] = if rest.is_boolean() { rest.clone() } else { self.node(rest)? };
        }
        let mut required: Vec<Value> = required.to_vec();
        let mut fitted_fields = Map::new();
        for (name, field) in properties {
            let field = self.node(field)?;
            if !self.subset.allows(SchemaFeature::Missing) && !required.iter().any(|known| known == name) {
                choice::accepts_null(&field).then(|| required.push(json!(name)))?;
            }
            fitted_fields.insert(name.clone(), field);
        }
        if fields.contains_key("properties") || !self.subset.allows(SchemaFeature::Open) {
            fitted["properties"] = Value::Object(fitted_fields);
        }
        if fields.contains_key("required") || !self.subset.allows(SchemaFeature::Missing) {
            fitted["required"] = Value::Array(required);
        }
        Some(())
    }

    fn array(&mut self, fields: &Map<String, Value>, fitted: &mut Value, notes: &mut SchemaNotes) -> Option<()> {
        let Some(places) = fields.get("prefixItems").and_then(Value::as_array) else {
            match fields.get("items") {
                Some(items) => fitted["items"] = self.node(items)?,
                None => _ = self.anything()?,
            }
            return Some(());
        };
        let places: Vec<Value> = places.iter().map(|place| self.node(place)).collect::<Option<_>>()?;
        if self.subset.allows(SchemaFeature::Tuples) {
            fitted["prefixItems"] = Value::Array(places);
            return Some(());
        }
        let by_place = Value::Array(places);
        self.repeat(&by_place, 1)?;
        notes.add("items by position", &by_place);
        let Value::Array(places) = by_place else { return None };
        let mut kinds: Vec<Value> = Vec::new();
        for place in places {
            if !kinds.contains(&place) {
                kinds.push(place);
            }
        }
        fitted["items"] = match <[Value; 1]>::try_from(kinds) {
            Ok([kind]) => kind,
            Err(kinds) => json!({ "anyOf": kinds }),
        };
        Some(())
    }
}

/// Additions to the description: the constraints that the subset cannot express.
struct SchemaNotes {
    description: String,
    notes: Vec<String>,
}

impl SchemaNotes {
    fn from_description(fields: &Map<String, Value>) -> Self {
        let description = fields.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { description, notes: Vec::new() }
    }

    fn add(&mut self, what: &str, value: &Value) {
        if !value.is_null() {
            self.notes.push(format!("{what}: {value}"));
        }
    }

    fn write(self, schema: &mut Value) {
        let notes = if self.notes.is_empty() { String::new() } else { format!("({})", self.notes.join("; ")) };
        let parts = [self.description, notes].into_iter().filter(|part| !part.is_empty());
        let description = parts.collect::<Vec<_>>().join(" ");
        if !description.is_empty() {
            schema["description"] = Value::String(description);
        }
    }
}
