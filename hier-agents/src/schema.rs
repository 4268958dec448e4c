//! JSON schemas in the form that providers accept: objects with inline types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// A type that can be a tool argument. All types with `Deserialize` and `JsonSchema` implement this trait.
#[diagnostic::on_unimplemented(
    message = "a model cannot pass a `{Self}` to a tool",
    label = "not a tool argument",
    note = "an argument needs a schema and is read from JSON: derive `Deserialize` and `JsonSchema` for it, which \
            are in the prelude; to read the state, take a reference: `&{Self}`"
)]
pub trait ToolArgument: JsonSchema + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: JsonSchema + DeserializeOwned> ToolArgument for T {}

/// A builder of the schema of a tool's arguments. Code that `#[tool]` generates adds the arguments one by one.
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
    /// Adds a required argument.
    #[must_use]
    pub fn required<T: ToolArgument>(mut self, name: &str, description: &str) -> Self {
        self.required.push(name.into());
        self.optional::<T>(name, description, None)
    }

    /// Adds an optional argument. If `default` is `Some`, the schema contains this default.
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

    /// Returns the schema.
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

/// Returns the JSON Schema of the type `T` for [`ToolSpec::parameters`](crate::ToolSpec::parameters). Each field of `T`
/// is an argument of the tool.
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
        // The fields of an enum are listed in its variants. `false` would forbid them.
        if !["oneOf", "anyOf", "allOf", "$ref"].iter().any(|key| object.contains_key(*key)) {
            object.entry("additionalProperties").or_insert(Value::Bool(false));
        }
    }
    schema
}

/// Returns the schema of a tool or subagent that takes its arguments as one value of the type `T`. Each field of `T` is
/// an argument. If `T` is not an object or has several variants, the only argument is `value`, which contains the whole
/// value.
pub fn args_schema<T: JsonSchema>() -> Value {
    let mut schema = ObjectSchema::of_type::<T>().schema;
    if let Value::Object(schema) = &mut schema {
        schema.remove("description");
    }
    schema
}

/// The name of the only argument of a schema whose value is not an object, or has several variants. Providers do not
/// accept such a value as arguments.
pub(crate) const VALUE: &str = "value";

/// An object schema with which a model can produce a value of any type. A value that is not an object, or has several
/// variants, becomes the only argument of the object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectSchema {
    schema: Value,
    is_wrapped: bool,
}

impl ObjectSchema {
    /// Creates the schema of this type. For an `Option`, it is the schema of the inner type, because a model that must
    /// answer cannot answer with null.
    pub(crate) fn of_type<T: JsonSchema>() -> Self {
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

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the argument that holds the value, if the value is not the object itself.
    pub(crate) fn argument(&self) -> Option<&'static str> {
        self.is_wrapped.then_some(VALUE)
    }

    /// Returns the value in the object that a model produced.
    pub(crate) fn value<'a>(&self, given: &'a Value) -> Option<&'a Value> {
        if self.is_wrapped { given.get(VALUE) } else { Some(given) }
    }
}

/// The keywords of a schema with several variants.
const CHOICES: [&str; 4] = ["oneOf", "anyOf", "allOf", "$ref"];

/// Forbids additional fields in the schema of an object.
fn closed(mut schema: Value) -> Value {
    if let Value::Object(object) = &mut schema {
        object.remove("title");
        object.entry("properties").or_insert_with(|| json!({}));
        object.entry("required").or_insert_with(|| json!([]));
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    schema
}

/// Returns the schema without null as a value.
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

pub(crate) fn root_schema<T: JsonSchema>() -> Value {
    generator().into_root_schema_for::<T>().to_value()
}

/// Types are inlined where they are used, because some providers do not follow references. Types that contain
/// themselves are kept in `$defs`.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator()
}
