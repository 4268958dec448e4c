//! Describes the requests and responses of handlers by their types.

use std::sync::Arc;

use axum::Json;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Path, State};
use axum::response::{Html, NoContent, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::admission::Admitted;
use crate::answer::{As, MayWait, Preferred, Prefers, Streamed};
use crate::app::{App, Caller};
use crate::body::{JsonBody, OptionalBody};
use crate::error::ApiResult;
use crate::query::Query;
use crate::routes::streams::StreamStart;

pub(crate) trait HandlerArgument {
    /// Adds the argument to the description of an operation.
    fn describe(_: &mut SchemaGenerator, _: &mut Map<String, Value>) {}
}

impl HandlerArgument for Caller {}
impl HandlerArgument for State<Arc<App>> {}
impl HandlerArgument for WebSocketUpgrade {}
impl HandlerArgument for Admitted {}
/// The path of the route describes the argument.
impl<T> HandlerArgument for Path<T> {}

impl<T: JsonSchema> HandlerArgument for JsonBody<T> {
    fn describe(generator: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        body::<T>(generator, operation, true);
    }
}

impl<T: JsonSchema> HandlerArgument for OptionalBody<T> {
    fn describe(generator: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        body::<T>(generator, operation, false);
    }
}

fn body<T: JsonSchema>(generator: &mut SchemaGenerator, operation: &mut Map<String, Value>, required: bool) {
    let content = json!({ "application/json": { "schema": generator.subschema_for::<T>() } });
    operation.insert("requestBody".to_owned(), json!({ "required": required, "content": content }));
}

impl<T: JsonSchema> HandlerArgument for Query<T> {
    fn describe(generator: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        let schema = T::json_schema(generator);
        let required = schema.get("required").cloned().unwrap_or_default();
        let fields = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, mut field) in fields {
            let about = field.as_object_mut().and_then(|field| field.remove("description"));
            let required = required.as_array().is_some_and(|names| names.contains(&json!(name)));
            let schema = without_null(field);
            parameter(
                operation,
                json!({ "name": name, "in": "query", "description": about, "required": required, "schema": schema }),
            );
        }
    }
}

impl HandlerArgument for StreamStart {
    fn describe(_: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        let about = "The id of the last event that was read. The stream sends later events. `-1` sends all of them. Defaults to new \
                     events only.";
        parameter(
            operation,
            json!({
                "name": "Last-Event-ID", "in": "header", "description": about, "required": false,
                "schema": { "type": "string" },
            }),
        );
    }
}

impl HandlerArgument for Prefers {
    fn describe(_: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        let about = "With `return=minimal`, the response has no body.";
        parameter(
            operation,
            json!({
                "name": "Prefer", "in": "header", "description": about, "required": false, "schema": { "type": "string" },
            }),
        );
    }
}

fn parameter(operation: &mut Map<String, Value>, parameter: Value) {
    let list = operation.entry("parameters").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(parameter);
    }
}

/// Removes null from the schema of a query parameter, because a query cannot express null.
fn without_null(mut schema: Value) -> Value {
    let Some(fields) = schema.as_object_mut() else { return schema };
    if fields.get("default").is_some_and(Value::is_null) {
        fields.remove("default");
    }
    if let Some(kinds) = fields.get_mut("type").filter(|kinds| kinds.is_array()) {
        let rest: Vec<Value> = kinds.as_array().into_iter().flatten().filter(|kind| *kind != "null").cloned().collect();
        *kinds = if let [one] = &*rest { one.clone() } else { rest.into() };
    }
    if let Some(Value::Array(mut forms)) = fields.remove("anyOf") {
        forms.retain(|form| form["type"] != "null");
        match <[Value; 1]>::try_from(forms) {
            Ok([Value::Object(one)]) => fields.extend(one),
            Ok([one]) => drop(fields.insert("anyOf".to_owned(), json!([one]))),
            Err(forms) => drop(fields.insert("anyOf".to_owned(), forms.into())),
        }
    }
    schema
}

/// The result of a handler. Its type describes the responses of the route.
pub(crate) trait HandlerResponse {
    /// Returns the descriptions of the responses, by status.
    fn answers(generator: &mut SchemaGenerator) -> Value;
}

fn content(status: &str, about: &str, kind: &str, schema: &Value) -> Value {
    json!({ status: { "description": about, "content": { kind: { "schema": schema } } } })
}

impl<T: HandlerResponse> HandlerResponse for ApiResult<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        T::answers(generator)
    }
}

impl<T: JsonSchema> HandlerResponse for Json<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        content("200", "Done.", "application/json", &generator.subschema_for::<T>().to_value())
    }
}

impl<T: JsonSchema> HandlerResponse for As<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        Json::<T>::answers(generator)
    }
}

impl<T: JsonSchema> HandlerResponse for MayWait<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        let mut answers = Json::<T>::answers(generator);
        answers["202"] = json!({ "description": "Accepted." });
        answers
    }
}

impl<T: JsonSchema> HandlerResponse for Preferred<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        let mut answers = Json::<T>::answers(generator);
        answers["204"] = json!({ "description": "Done, without a body." });
        answers
    }
}

impl HandlerResponse for Streamed {
    fn answers(_: &mut SchemaGenerator) -> Value {
        content("200", "Events as they occur.", "text/event-stream", &json!({ "type": "string" }))
    }
}

impl HandlerResponse for Html<String> {
    fn answers(_: &mut SchemaGenerator) -> Value {
        content("200", "A page.", "text/html", &json!({ "type": "string" }))
    }
}

impl HandlerResponse for NoContent {
    fn answers(_: &mut SchemaGenerator) -> Value {
        json!({ "204": { "description": "Done." } })
    }
}

/// This type does not describe the response.
impl HandlerResponse for Response {
    fn answers(_: &mut SchemaGenerator) -> Value {
        json!({ "default": { "description": "See the summary." } })
    }
}

/// The schema generators for requests (`read`) and for responses (`written`), in which different fields are required.
pub(crate) struct Generators {
    pub(crate) read: SchemaGenerator,
    pub(crate) written: SchemaGenerator,
}

pub(crate) trait DescribedHandler<Arguments> {
    /// Adds the arguments and responses to the description of an operation.
    fn describe(&self, generators: &mut Generators, operation: &mut Map<String, Value>);
}

macro_rules! handlers {
    ($(($($argument:ident)*))+) => { $(
        impl<Function, Answer, $($argument: HandlerArgument),*> DescribedHandler<($($argument,)*)> for Function
        where
            Function: Fn($($argument),*) -> Answer,
            Answer: Future<Output: HandlerResponse>,
        {
            fn describe(&self, generators: &mut Generators, operation: &mut Map<String, Value>) {
                $($argument::describe(&mut generators.read, operation);)*
                operation.insert("responses".to_owned(), Answer::Output::answers(&mut generators.written));
            }
        }
    )+ };
}

handlers! { () (A) (A B) (A B C) (A B C D) (A B C D E) }
