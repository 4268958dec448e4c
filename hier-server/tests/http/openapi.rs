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
        self.operation(method, path)?.1.pointer("/requestBody/content/application~1json/schema")
    }

    /// What is said of a request, and the path as it is described; none if no route takes it.
    fn operation(&self, method: &str, path: &str) -> Option<(&str, &Value)> {
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
        let (template, operations) = found?;
        Some((template, operations.get(method.to_ascii_lowercase())?))
    }

    /// In what the address of a request differs from the parameters that its route says that it takes.
    fn address_differences(&self, method: &str, path: &str) -> Vec<String> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let Some((template, operation)) = self.operation(method, path) else { return vec!["no route".to_owned()] };
        let in_path = path.split('/').zip(template.split('/')).filter_map(|(value, name)| {
            Some(("path", name.strip_prefix('{')?.strip_suffix('}')?.to_owned(), value.to_owned()))
        });
        let in_query = query.split('&').filter_map(|pair| pair.split_once('='));
        let in_query = in_query.map(|(name, value)| ("query", name.to_owned(), value.to_owned()));
        let given: Vec<_> = in_path.chain(in_query).collect();
        let described = operation["parameters"].as_array().expect("parameters");
        let missing = described.iter().filter(|parameter| {
            parameter["required"] == true && given.iter().all(|(_, name, _)| parameter["name"] != **name)
        });
        let missing: Vec<String> = missing.map(|parameter| format!("{} is missing", parameter["name"])).collect();
        let wrong = given.iter().filter_map(|(place, name, value)| {
            let said = described.iter().find(|said| said["in"] == *place && said["name"] == **name);
            match said {
                None => Some(format!("`{name}` is unknown")),
                Some(said) if !self.is_written(&said["schema"], value) => Some(format!("`{name}` is not `{value}`")),
                Some(_) => None,
            }
        });
        wrong.chain(missing).collect()
    }

    /// Whether a text is how a value of this schema is written in an address.
    fn is_written(&self, schema: &Value, text: &str) -> bool {
        let schema = self.resolved(schema);
        if let Some(forms) = schema["anyOf"].as_array() {
            return forms.iter().any(|form| self.is_written(form, text));
        }
        if let Some(words) = schema["enum"].as_array().or_else(|| schema["oneOf"].as_array()) {
            return words.iter().any(|word| *word == *text || word["const"] == *text);
        }
        match (schema["type"].as_str(), schema["format"].as_str()) {
            (Some("boolean"), _) => matches!(text.to_lowercase().as_str(), "true" | "false" | "0" | "1"),
            (Some("integer"), _) => text.parse::<u64>().is_ok(),
            (Some("array"), _) => {
                text.replace("%2C", ",").split(',').all(|item| self.is_written(&schema["items"], item))
            }
            // Ids are numbers in braces in what was recorded.
            (Some("string"), Some("uuid")) => text.starts_with('{') || uuid::Uuid::try_parse(text).is_ok(),
            (Some("string"), _) => true,
            _ => panic!("{schema} cannot be written in an address"),
        }
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
        // Some clients send an empty object where a route takes nothing.
        let Some(body) = exchange.body.as_ref().filter(|body| **body != serde_json::json!({})) else { continue };
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
async fn addresses_have_the_parameters_that_the_routes_say_that_they_take() {
    let described = description().await;
    let (mut looked, mut differ) = (0, Vec::new());
    for exchange in exchanges().iter().filter(|exchange| (200..300).contains(&exchange.answer.status)) {
        if exchange.method == "OPTIONS" {
            continue;
        }
        looked += exchange.path.matches(['=', '{']).count();
        let found = described.address_differences(&exchange.method, &exchange.path);
        differ.extend(found.into_iter().map(|text| format!("{}: {text}", exchange.name)));
    }
    assert!(looked > 200, "{looked}");
    assert_eq!(differ, Vec::<String>::new());
    for (method, path, text) in [
        ("GET", "/threads/x/state", "`thread_id` is not `x`"),
        ("GET", "/threads/{1}/state?subgraphs=maybe", "`subgraphs` is not `maybe`"),
        ("GET", "/threads/{1}/state?limit=1", "`limit` is unknown"),
        ("GET", "/threads/{1}/runs/{2}/stream?stream_mode=values,zzz", "`stream_mode` is not `values,zzz`"),
        ("GET", "/store/items?namespace=a", "\"key\" is missing"),
    ] {
        assert_eq!(described.address_differences(method, path), [text], "{method} {path}");
    }
}

/// Whatever has a form of its own is refused in another, by the route that says so: what is described is what is read.
#[tokio::test]
async fn routes_refuse_what_is_not_as_they_say() {
    let desk = desk().await;
    let (_, document) = desk.ask(Method::GET, "/openapi.json", Value::Null).await;
    let described = Description(document);
    let (mut asked, id) = (0, "0197a3c4-0000-7000-8000-000000000000");
    for (template, operations) in described.0["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            for parameter in operation["parameters"].as_array().expect("parameters") {
                let name = parameter["name"].as_str().expect("a name");
                let is_first = template.find('{') == template.find(&format!("{{{name}}}"));
                // Bodies are read before ids; the other ids are looked for below the first.
                let is_looked_at = match parameter["in"].as_str() {
                    Some("query") => true,
                    Some("path") => is_first && matches!(&**method, "get" | "delete"),
                    _ => false,
                };
                let is_open = template.ends_with("/stream/events");
                if !is_looked_at || is_open || described.is_written(&parameter["schema"], "zzz") {
                    continue;
                }
                let parts = template.split('/').map(|part| match part.strip_prefix('{') {
                    Some(of) if of.strip_suffix('}') == Some(name) => "zzz",
                    Some(_) => id,
                    None => part,
                });
                let mut path = parts.collect::<Vec<_>>().join("/");
                if parameter["in"] == "query" {
                    path = format!("{path}?{name}=zzz");
                }
                let send = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
                let (status, answer) = desk.ask(send, &path, Value::Null).await;
                let detail = answer["detail"].as_str().unwrap_or_default();
                assert_eq!(status, 422, "{method} {path}: {answer}");
                assert!(detail.contains(name) || detail.ends_with("ID: must be a UUID"), "{method} {path}: {detail}");
                asked += 1;
            }
        }
    }
    assert!(asked > 30, "{asked}");
    desk.stop().await;
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
