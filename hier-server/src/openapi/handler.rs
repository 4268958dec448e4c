//! What handlers say of the requests that they take, and of their answers: their types say it, so that it stands nowhere else.

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
use crate::body::{Body, MaybeBody};
use crate::error::ApiResult;
use crate::query::Query;
use crate::routes::streams::Since;

/// Something that a handler takes from a request.
pub(crate) trait Takes {
    /// Adds to the description of an operation what it has to be sent.
    fn describe(_: &mut SchemaGenerator, _: &mut Map<String, Value>) {}
}

impl Takes for Caller {}
impl Takes for State<Arc<App>> {}
impl Takes for WebSocketUpgrade {}
impl Takes for Admitted {}
/// The names of these stand in the path.
impl<T> Takes for Path<T> {}

impl<T: JsonSchema> Takes for Body<T> {
    fn describe(generator: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        body::<T>(generator, operation, true);
    }
}

impl<T: JsonSchema> Takes for MaybeBody<T> {
    fn describe(generator: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        body::<T>(generator, operation, false);
    }
}

fn body<T: JsonSchema>(generator: &mut SchemaGenerator, operation: &mut Map<String, Value>, required: bool) {
    let content = json!({ "application/json": { "schema": generator.subschema_for::<T>() } });
    operation.insert("requestBody".to_owned(), json!({ "required": required, "content": content }));
}

impl<T: JsonSchema> Takes for Query<T> {
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

impl Takes for Since {
    fn describe(_: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        let about = "The id of the last event that was read: what came after it is told. `-1` is the start; what is new is told \
                     if it is not given.";
        parameter(
            operation,
            json!({
                "name": "Last-Event-ID", "in": "header", "description": about, "required": false,
                "schema": { "type": "string" },
            }),
        );
    }
}

impl Takes for Prefers {
    fn describe(_: &mut SchemaGenerator, operation: &mut Map<String, Value>) {
        let about = "With `return=minimal`, the answer has no body.";
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

/// A parameter that is not given has no value: null cannot be written in an address.
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

/// What a handler answers.
pub(crate) trait Answers {
    /// The answers, by their statuses.
    fn answers(generator: &mut SchemaGenerator) -> Value;
}

fn content(status: &str, about: &str, kind: &str, schema: &Value) -> Value {
    json!({ status: { "description": about, "content": { kind: { "schema": schema } } } })
}

impl<T: Answers> Answers for ApiResult<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        T::answers(generator)
    }
}

impl<T: JsonSchema> Answers for Json<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        content("200", "Done.", "application/json", &generator.subschema_for::<T>().to_value())
    }
}

impl<T: JsonSchema> Answers for As<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        Json::<T>::answers(generator)
    }
}

impl<T: JsonSchema> Answers for MayWait<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        let mut answers = Json::<T>::answers(generator);
        answers["202"] = json!({ "description": "It is being done." });
        answers
    }
}

impl<T: JsonSchema> Answers for Preferred<T> {
    fn answers(generator: &mut SchemaGenerator) -> Value {
        let mut answers = Json::<T>::answers(generator);
        answers["204"] = json!({ "description": "Done; no body, as the client prefers." });
        answers
    }
}

impl Answers for Streamed {
    fn answers(_: &mut SchemaGenerator) -> Value {
        content("200", "Events, as they happen.", "text/event-stream", &json!({ "type": "string" }))
    }
}

impl Answers for Html<String> {
    fn answers(_: &mut SchemaGenerator) -> Value {
        content("200", "A page.", "text/html", &json!({ "type": "string" }))
    }
}

impl Answers for NoContent {
    fn answers(_: &mut SchemaGenerator) -> Value {
        json!({ "204": { "description": "Done." } })
    }
}

/// Of these nothing is known here.
impl Answers for Response {
    fn answers(_: &mut SchemaGenerator) -> Value {
        json!({ "default": { "description": "As the summary says." } })
    }
}

/// Makes the schemas of types: those that are read and those that are written differ in what may be left out.
pub(crate) struct Generators {
    pub(crate) read: SchemaGenerator,
    pub(crate) written: SchemaGenerator,
}

/// A function that answers requests, with these arguments.
pub(crate) trait Handler<Arguments> {
    /// Adds to the description of an operation what it has to be sent, and what it answers.
    fn describe(&self, generators: &mut Generators, operation: &mut Map<String, Value>);
}

macro_rules! handlers {
    ($(($($argument:ident)*))+) => { $(
        impl<Function, Answer, $($argument: Takes),*> Handler<($($argument,)*)> for Function
        where
            Function: Fn($($argument),*) -> Answer,
            Answer: Future<Output: Answers>,
        {
            fn describe(&self, generators: &mut Generators, operation: &mut Map<String, Value>) {
                $($argument::describe(&mut generators.read, operation);)*
                operation.insert("responses".to_owned(), Answer::Output::answers(&mut generators.written));
            }
        }
    )+ };
}

handlers! { () (A) (A B) (A B C) (A B C D) (A B C D E) }
