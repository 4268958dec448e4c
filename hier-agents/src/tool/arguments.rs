//! Reads the arguments of a tool call, and describes all faults in a form that the model can act on.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::coercion::{self, FaultKind, SchemaFault};
use crate::schema::{ObjectSchema, VALUE, root_schema};
use hier_checkpoint::message::ToolCall;

/// A reader of the arguments of a call, which collects the faults of all arguments. Code that `#[tool]` generates uses
/// this type.
#[derive(Debug)]
pub struct ToolArguments<'a> {
    call: &'a ToolCall,
    faults: Vec<SchemaFault>,
    schema: Option<&'a Value>,
    /// True if the only argument has the name of the argument that wraps other values.
    may_wrap: bool,
}

impl<'a> ToolArguments<'a> {
    /// Creates a reader for a call of a tool whose arguments have the names `known`. An argument with another name is a
    /// fault.
    pub fn new(call: &'a ToolCall, known: &[&str]) -> Self {
        let mut arguments = Self { call, faults: Vec::new(), schema: None, may_wrap: known == [VALUE] };
        match &call.args {
            Value::Object(given) => arguments.refuse_unknown(given, known),
            // Some providers send null for a call without arguments.
            Value::Null => {}
            other => {
                let kind = if other.is_string() { "invalid JSON" } else { coercion::type_of(other) };
                let what = format!("the arguments are {kind}, and must be a JSON object");
                arguments.add([SchemaFault { path: String::new(), what: FaultKind::Misfit(what) }]);
            }
        }
        arguments
    }

    /// Sets the schema by which the reader converts arguments to other JSON types. The `properties` of the schema
    /// contain a schema for each argument.
    #[must_use]
    pub fn with_schema(mut self, schema: &'a Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Creates a reader for a call of a tool that takes all arguments together as one value. `schema` describes this
    /// value.
    pub fn of_schema(call: &'a ToolCall, schema: &Value) -> Self {
        let Some(Value::Object(properties)) = schema.get("properties") else { return Self::new(call, &[]) };
        let mut known: Vec<_> = properties.keys().map(String::as_str).collect();
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            known.extend(call.args.as_object().into_iter().flat_map(Map::keys).map(String::as_str));
        }
        let mut arguments = Self::new(call, &known);
        arguments.miss_required(schema);
        arguments
    }

    /// Describes the errors in a call of a tool that is known only by its schema.
    pub(crate) fn misfits(call: &ToolCall, schema: &Value) -> Option<String> {
        let given: Vec<&str> = call.args.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let mut arguments = ToolArguments::new(call, &given);
        arguments.miss_required(schema);
        if call.args.is_object() {
            let mut meant = call.args.clone();
            arguments.add(coercion::coerce(&mut meant, schema));
            if meant != call.args {
                let what = format!("some values have the wrong JSON type; converted, they are {meant}");
                arguments.add([SchemaFault { path: String::new(), what: FaultKind::Misfit(what) }]);
            }
        }
        (!arguments.fit()).then(|| arguments.report())
    }

    fn miss_required(&mut self, schema: &Value) {
        if self.call.args.is_object() || self.call.args.is_null() {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            for name in required.filter_map(Value::as_str) {
                if self.given(name).is_none() {
                    self.miss(name);
                }
            }
        }
    }

    /// Reads a required argument. If it is missing or invalid, adds a fault and returns `None`.
    pub fn required<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let given = self.given(name);
        if given.is_none() && (self.call.args.is_object() || self.call.args.is_null()) {
            self.miss(name);
        }
        let schema = self.schema;
        given.and_then(|value| self.read(name, value, || argument_schema(schema, name)))
    }

    /// Reads an optional argument. Returns `Some(None)` if it is missing or null. If it is invalid, adds a fault and
    /// returns `None`.
    #[allow(clippy::option_option)] // outer: it fits; inner: it exists
    pub fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Option<Option<T>> {
        let schema = self.schema;
        match self.given(name) {
            None | Some(Value::Null) => Some(None),
            Some(value) => self.read(name, value, || argument_schema(schema, name)).map(Some),
        }
    }

    /// Reads an argument with a default. Returns the default if the argument is missing or null. If the argument is
    /// invalid, adds a fault and returns `None`.
    pub fn defaulted<T: DeserializeOwned>(&mut self, name: &str, default: impl FnOnce() -> T) -> Option<T> {
        self.optional(name).map(|given| given.unwrap_or_else(default))
    }

    /// Reads all arguments together as one value. If `T` is not an object or has several variants, reads the value from
    /// the argument `value`. If the value is invalid, adds a fault and returns `None`.
    pub fn whole<T: JsonSchema + DeserializeOwned>(&mut self) -> Option<T> {
        if self.may_wrap && ObjectSchema::of_type::<T>().argument().is_some() {
            let value = self.given(VALUE);
            return value.and_then(|value| self.read(VALUE, value, root_schema::<T>));
        }
        let empty = Value::Object(Map::new());
        let value = if self.call.args.is_null() { &empty } else { &self.call.args };
        if value.is_object() { self.read("", value, root_schema::<T>) } else { None }
    }

    /// Returns true if the reader has not found any faults.
    pub fn fit(&self) -> bool {
        self.faults.is_empty()
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults.iter().map(SchemaFault::to_string).collect()
    }

    /// Returns a message for the model that lists the faults.
    pub fn report(&self) -> String {
        format!("the arguments of `{}` do not fit:\n- {}", self.call.name, self.faults().join("\n- "))
    }

    fn miss(&mut self, name: &str) {
        self.add([SchemaFault::missing(name)]);
    }

    fn given(&self, name: &str) -> Option<&'a Value> {
        self.call.args.get(name)
    }

    fn refuse_unknown(&mut self, given: &Map<String, Value>, known: &[&str]) {
        let unknown: BTreeSet<&str> = given.keys().map(String::as_str).filter(|name| !known.contains(name)).collect();
        for name in unknown {
            let hint = hier_spec::did_you_mean(name, known.iter().copied());
            self.add([SchemaFault { path: name.to_owned(), what: FaultKind::Unknown(hint) }]);
        }
    }

    fn read<T: DeserializeOwned>(&mut self, name: &str, value: &Value, schema: impl FnOnce() -> Value) -> Option<T> {
        // The schema is needed only if a value does not fit.
        if let Ok(value) = T::deserialize(value) {
            return Some(value);
        }
        let read = coercion::read_value(value, &schema());
        read.map_err(|faults| self.add(faults.into_iter().map(|fault| fault.within(name)))).ok()
    }

    /// Adds faults, at most one for each path.
    fn add(&mut self, faults: impl IntoIterator<Item = SchemaFault>) {
        for fault in faults {
            if fault.path.is_empty() || self.faults.iter().all(|known| known.path != fault.path) {
                self.faults.push(fault);
            }
        }
    }
}

/// Returns the schema of one argument, with the definitions that it refers to.
fn argument_schema(schema: Option<&Value>, name: &str) -> Value {
    let known = schema.and_then(|schema| schema.get("properties")?.get(name));
    let mut argument = known.cloned().unwrap_or(Value::Bool(true));
    if let (Some(argument), Some(shared)) = (argument.as_object_mut(), schema.and_then(|schema| schema.get("$defs"))) {
        argument.insert("$defs".to_owned(), shared.clone());
    }
    argument
}
