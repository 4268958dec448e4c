//! The JSON schema of a tool's arguments, as providers take it: an object with everything inline.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Something that a model can give a tool. Implemented for every type with `Deserialize` and `JsonSchema`.
#[diagnostic::on_unimplemented(
    message = "a model cannot give a tool a `{Self}`",
    label = "cannot be an argument",
    note = "an argument has a schema and is read from JSON: derive `Deserialize` and `JsonSchema` for it, which \
            come with the prelude"
)]
pub trait ToolArgument: JsonSchema + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: JsonSchema + DeserializeOwned> ToolArgument for T {}

/// The arguments of a tool, one after the other. Used by `#[tool]`.
#[derive(Debug)]
pub struct ToolSchema {
    generator: SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Default for ToolSchema {
    fn default() -> Self {
        Self { generator: generator(), properties: Map::new(), required: Vec::new() }
    }
}

impl ToolSchema {
    /// Adds an argument that must be given.
    #[must_use]
    pub fn required<T: ToolArgument>(mut self, name: &str, description: &str) -> Self {
        self.required.push(name.into());
        self.optional::<T>(name, description, None)
    }

    /// Adds an argument that may be left out, with what then stands for it, where that can be told.
    #[must_use]
    pub fn optional<T: ToolArgument>(mut self, name: &str, description: &str, default: Option<Value>) -> Self {
        let mut schema = self.generator.subschema_for::<T>();
        if !description.is_empty() {
            schema.insert("description".to_owned(), description.into());
        }
        if let Some(default) = default {
            schema.insert("default".to_owned(), default);
        }
        self.properties.insert(name.to_owned(), schema.to_value());
        self
    }

    /// The schema.
    pub fn finish(mut self) -> Value {
        let mut schema = json!({
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": false,
        });
        let shared = self.generator.take_definitions(true);
        if !shared.is_empty() {
            schema["$defs"] = Value::Object(shared);
        }
        schema
    }
}

/// The schema of a type whose fields are the arguments.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = generator().into_root_schema_for::<T>();
    schema.remove("$schema");
    schema.remove("title");
    schema.remove("description");
    let mut schema = schema.to_value();
    if let Value::Object(object) = &mut schema {
        object.entry("type").or_insert_with(|| "object".into());
        object.entry("properties").or_insert_with(|| json!({}));
        object.entry("required").or_insert_with(|| json!([]));
        // The fields of an enum are those of its variants, which stand elsewhere.
        if !["oneOf", "anyOf", "allOf", "$ref"].iter().any(|key| object.contains_key(*key)) {
            object.entry("additionalProperties").or_insert(Value::Bool(false));
        }
    }
    schema
}

/// The schema of the arguments of a tool or subagent that takes them as one value: its fields, or, if it is no object or one
/// of several kinds, one argument.
pub fn args_schema<T: JsonSchema>() -> Value {
    let mut schema = Shape::of::<T>().schema;
    if let Value::Object(schema) = &mut schema {
        schema.remove("description");
    }
    schema
}

/// The argument of a value that is no object, or one of several kinds: providers take neither by itself.
pub(crate) const VALUE: &str = "value";

/// The schema by which a model gives a value: an object, in which the value stands as the one argument if it is none itself.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    schema: Value,
    is_wrapped: bool,
}

impl Shape {
    /// A value of this type. Of an `Option` it is what is inside: a model that has to answer does not answer with nothing.
    pub(crate) fn of<T: JsonSchema>() -> Self {
        let mut schema = generator().into_root_schema_for::<T>();
        schema.remove("$schema");
        let mut schema = schema.to_value();
        let shared = schema.as_object_mut().and_then(|object| object.remove("$defs"));
        let schema = present(schema);
        let is_object = schema.get("type") == Some(&"object".into());
        let is_wrapped = !is_object || CHOICES.iter().any(|key| schema.get(key).is_some());
        let mut schema = if is_wrapped {
            let mut properties = Map::new();
            properties.insert(VALUE.to_owned(), schema);
            json!({ "type": "object", "properties": properties, "required": [VALUE], "additionalProperties": false })
        } else {
            closed(schema)
        };
        if let Some(shared) = shared {
            schema["$defs"] = shared;
        }
        Self { schema, is_wrapped }
    }

    /// The schema: an object.
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// The argument that the value stands in, if it is not the object itself.
    pub(crate) fn argument(&self) -> Option<&'static str> {
        self.is_wrapped.then_some(VALUE)
    }

    /// The value in what a model gave.
    pub(crate) fn value<'a>(&self, given: &'a Value) -> Option<&'a Value> {
        if self.is_wrapped { given.get(VALUE) } else { Some(given) }
    }
}

/// By these a schema says that a value is one of several kinds.
const CHOICES: [&str; 4] = ["oneOf", "anyOf", "allOf", "$ref"];

/// The schema of an object that has no fields but those it names.
fn closed(mut schema: Value) -> Value {
    if let Value::Object(object) = &mut schema {
        object.remove("title");
        object.entry("properties").or_insert_with(|| json!({}));
        object.entry("required").or_insert_with(|| json!([]));
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    schema
}

/// The schema without null as a value.
fn present(mut schema: Value) -> Value {
    let null: Value = "null".into();
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| *kind != null);
        if let [kind] = &**kinds {
            schema["type"] = kind.clone();
        }
    }
    let Some(choices) = schema.get("anyOf").and_then(Value::as_array) else { return schema };
    let some: Vec<Value> = choices.iter().filter(|choice| choice.get("type") != Some(&null)).cloned().collect();
    match <[Value; 1]>::try_from(some) {
        Ok([some]) if choices.len() == 2 => some,
        _ => schema,
    }
}

/// The schema of a type as it is, with what it refers to.
pub(crate) fn root_schema<T: JsonSchema>() -> Value {
    generator().into_root_schema_for::<T>().to_value()
}

/// Types stand where they are used, since not every provider follows references. One that contains itself cannot, and is
/// kept in `$defs`.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator()
}
