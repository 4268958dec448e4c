//! The description of the routes, against what the clients of LangGraph's server sent when `tests/recorded/exchanges.jsonl` was recorded.

use reqwest::Method;
use serde_json::{Map, Value};

use crate::recorded::exchanges;
use crate::support::desk;

/// The description of the routes, and what it says of a request.
struct Description(Value);

impl Description {
    /// What a reference stands for.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema["$ref"].as_str() else { return schema };
        let pointer = reference.strip_prefix('#').expect("a reference into this document");
        self.0.pointer(pointer).unwrap_or_else(|| panic!("{reference} is there"))
    }

    /// The schema of the body of a request; none if no route takes it.
    fn body(&self, method: &str, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap_or_default();
        let fits = |template: &str| {
            let is_same = |(part, of): (&str, &str)| part == of || (of.starts_with('{') && !part.is_empty());
            template.split('/').count() == path.split('/').count()
                && path.split('/').zip(template.split('/')).all(is_same)
        };
        let paths = self.0["paths"].as_object().expect("paths");
        // What is said word by word goes before what stands for anything.
        let found = paths
            .iter()
            .filter(|(template, _)| fits(template))
            .min_by_key(|(template, _)| template.matches('{').count());
        let operation = &found?.1[method.to_ascii_lowercase()];
        operation.pointer("/requestBody/content/application~1json/schema")
    }

    /// The fields that an object may have, and those that it must have.
    fn fields(&self, schema: &Value) -> (Map<String, Value>, Vec<String>) {
        let schema = self.resolved(schema);
        let mut fields = schema["properties"].as_object().cloned().unwrap_or_default();
        let required = schema["required"].as_array().into_iter().flatten();
        let mut required: Vec<String> = required.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        for part in schema["allOf"].as_array().into_iter().flatten() {
            let (more, also) = self.fields(part);
            fields.extend(more);
            required.extend(also);
        }
        (fields, required)
    }

    /// In what a body differs from what its route says that it takes.
    fn differences(&self, schema: &Value, body: &Value) -> Vec<String> {
        let schema = self.resolved(schema);
        if let (Some(items), Some(list)) = (schema.get("items"), body.as_array()) {
            return list.iter().flat_map(|item| self.differences(items, item)).collect();
        }
        let (fields, required) = self.fields(schema);
        let Some(object) = body.as_object().filter(|_| !fields.is_empty()) else { return Vec::new() };
        let unknown = object.iter().filter(|(name, value)| !value.is_null() && !fields.contains_key(*name));
        let missing = required.iter().filter(|name| !object.contains_key(*name));
        unknown
            .map(|(name, _)| format!("`{name}` is unknown"))
            .chain(missing.map(|name| format!("`{name}` is missing")))
            .collect()
    }
}

async fn description() -> Description {
    let desk = desk().await;
    let (status, described) = desk.ask(Method::GET, "/openapi.json", Value::Null).await;
    assert_eq!(status, 200);
    desk.stop().await;
    Description(described)
}

/// Sends a field that nobody knows, which is not read.
const UNKNOWN: &str = "505_extra_field_ignored";

#[tokio::test]
async fn what_clients_send_is_what_the_routes_say_that_they_take() {
    let described = description().await;
    let (mut looked, mut differ) = (0, Vec::new());
    for exchange in
        exchanges().iter().filter(|exchange| (200..300).contains(&exchange.answer.status) && exchange.name != UNKNOWN)
    {
        let Some(body) = &exchange.body else { continue };
        let schema = described.body(&exchange.method, &exchange.path);
        let schema = schema.unwrap_or_else(|| panic!("{}: {} takes a body", exchange.name, exchange.path));
        looked += 1;
        let found = described.differences(schema, body);
        differ.extend(found.into_iter().map(|text| format!("{}: {text}", exchange.name)));
    }
    assert!(looked > 100, "{looked}");
    assert_eq!(differ, Vec::<String>::new());
}

#[tokio::test]
async fn each_schema_is_complete_and_says_what_it_is_for() {
    let described = description().await;
    let mut references = Vec::new();
    collect(&described.0, &mut references);
    assert!(references.len() > 30, "{references:?}");
    for reference in &references {
        described.resolved(&serde_json::json!({ "$ref": reference }));
    }
    let run = &described.0["components"]["schemas"]["RunCreate"];
    assert_eq!(run["required"], serde_json::json!(["assistant_id"]));
    for (name, field) in run["properties"].as_object().expect("fields") {
        assert!(field["description"].is_string(), "{name}: {field}");
    }
    let modes = &described.0["components"]["schemas"]["StreamMode"]["enum"];
    assert!(modes.as_array().is_some_and(|modes| modes.contains(&"messages-tuple".into())), "{modes}");
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            references.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|value| collect(value, references));
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}
