//! Compares the description of the routes with the requests of LangGraph's clients in `tests/recorded/exchanges.jsonl`.

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::recorded::exchanges;
use crate::recorded::kept::Kept;
use crate::support::desk;

/// The description of the routes.
struct Description(Value);

impl Description {
    /// Resolves a reference.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema["$ref"].as_str() else { return schema };
        let pointer = reference.strip_prefix('#').expect("a reference into this document");
        self.0.pointer(pointer).unwrap_or_else(|| panic!("{reference} is there"))
    }

    /// Returns the schema of a request's body, or none without a matching route.
    fn body(&self, method: &str, path: &str) -> Option<&Value> {
        self.operation(method, path)?.1.pointer("/requestBody/content/application~1json/schema")
    }

    /// Returns the description of a request and its path. `None` if no route accepts it.
    fn operation(&self, method: &str, path: &str) -> Option<(&str, &Value)> {
        let path = path.split('?').next().unwrap_or_default();
        let fits = |template: &str| {
            let is_same = |(part, of): (&str, &str)| part == of || (of.starts_with('{') && !part.is_empty());
            template.split('/').count() == path.split('/').count()
                && path.split('/').zip(template.split('/')).all(is_same)
        };
        let paths = self.0["paths"].as_object().expect("paths");
        // Literal segments precede parameters.
        let found = paths
            .iter()
            .filter(|(template, _)| fits(template))
            .min_by_key(|(template, _)| template.matches('{').count());
        let (template, operations) = found?;
        Some((template, operations.get(method.to_ascii_lowercase())?))
    }

    /// Returns the type and schema of the response body with this status. `None` if it has no body.
    fn answer(&self, method: &str, path: &str, status: u16) -> Option<(&str, &Value)> {
        let (_, operation) = self.operation(method, path).unwrap_or_else(|| panic!("{method} {path} is described"));
        let answer = operation["responses"].get(status.to_string());
        let answer = answer.unwrap_or_else(|| panic!("{method} {path}: {status} is described in {operation}"));
        let (kind, content) = answer["content"].as_object()?.iter().next()?;
        Some((kind, &content["schema"]))
    }

    /// Returns the differences of a value from a schema. Unnamed fields are errors unless the schema allows them.
    fn validate(&self, schema: &Value, value: &Value, path: &str, differ: &mut Vec<(String, String)>) {
        let schema = self.resolved(schema);
        if let Some(forms) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            let tried = forms.iter().map(|form| {
                let mut differ = Vec::new();
                self.validate(form, value, path, &mut differ);
                differ
            });
            return differ.extend(tried.min_by_key(Vec::len).unwrap_or_default());
        }
        if let Some(wrong) = wrong(schema, value) {
            return differ.push((path.to_owned(), wrong));
        }
        if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
            for (at, item) in list.iter().enumerate() {
                self.validate(items, item, &format!("{path}/{at}"), differ);
            }
        }
        let Some(object) = value.as_object() else { return };
        let fields = schema["properties"].as_object();
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                differ.push((format!("{path}/{name}"), "is missing".to_owned()));
            }
        }
        for (name, value) in object {
            let path = format!("{path}/{name}");
            match (fields.and_then(|fields| fields.get(name)), schema.get("additionalProperties")) {
                (Some(field), _) | (None, Some(field)) => self.validate(field, value, &path, differ),
                (None, None) if fields.is_some() => differ.push((path, "is unknown".to_owned())),
                (None, None) => {}
            }
        }
    }

    /// Returns the differences of a request's URL from the declared parameters of its route.
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

    /// Returns true if the text is a value of this schema in a URL.
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
            // Recorded ids are numbers in braces.
            (Some("string"), Some("uuid")) => text.starts_with('{') || uuid::Uuid::try_parse(text).is_ok(),
            (Some("string"), _) => true,
            _ => panic!("{schema} cannot be written in an address"),
        }
    }

    /// The allowed fields of an object, and the required ones.
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

    /// Returns the differences of a body from the declared schema of its route.
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

/// Returns the reason why a value does not match a schema.
fn wrong(schema: &Value, value: &Value) -> Option<String> {
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value)) {
        return Some(format!("{value} is not one of {words:?}"));
    }
    if let Some(only) = schema.get("const").filter(|only| *only != value) {
        return Some(format!("{value} is not {only}"));
    }
    let is_a = |kind: &Value| match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => panic!("{kind} is no type"),
    };
    let kinds = match &schema["type"] {
        Value::Null => return None,
        Value::Array(kinds) => &**kinds,
        one => std::slice::from_ref(one),
    };
    (!kinds.iter().any(is_a)).then(|| format!("{value} is no {}", schema["type"]))
}

async fn description() -> Description {
    let desk = desk().await;
    let (status, described) = desk.ask(Method::GET, "/openapi.json", Value::Null).await;
    assert_eq!(status, 200);
    desk.stop().await;
    Description(described)
}

/// Sends an unknown field, which is ignored.
const UNKNOWN: &str = "505_extra_field_ignored";

#[tokio::test]
async fn recorded_requests_match_the_description() {
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
async fn recorded_parameters_match_the_description() {
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

#[tokio::test]
async fn recorded_responses_match_the_description() {
    let described = description().await;
    let (mut looked, mut differ, mut kept) = (0, Vec::new(), Kept::default());
    for exchange in exchanges().iter().filter(|exchange| (200..300).contains(&exchange.answer.status)) {
        if exchange.method == "OPTIONS" {
            continue;
        }
        let answer = described.answer(&exchange.method, &exchange.path, exchange.answer.status);
        let body = exchange.answer.body.as_ref();
        let mut here = Vec::new();
        match answer {
            None if exchange.answer.events.is_some() || body.is_some_and(|body| *body != "") => {
                here.push((String::new(), "no body is described".to_owned()));
            }
            None => continue,
            Some(("application/json", schema)) => {
                described.validate(schema, body.unwrap_or(&Value::Null), "", &mut here);
            }
            Some((kind, _)) if kind != "text/event-stream" || exchange.answer.events.is_none() => {
                here.push((String::new(), format!("it is no {kind}")));
            }
            Some(_) => {}
        }
        looked += 1;
        // LangGraph differs in these.
        here.retain(|(path, _)| !kept.knows(&exchange.name, path));
        differ.extend(here.into_iter().map(|(path, text)| format!("{} {path}: {text}", exchange.name)));
    }
    assert!(looked > 200, "{looked}");
    assert_eq!(differ, Vec::<String>::new());
}

/// Missing, additional and mistyped fields of a response are found.
#[tokio::test]
async fn response_that_differs_from_the_description_is_detected() {
    let described = description().await;
    let (_, schema) = described.answer("GET", "/threads/{1}/state", 200).expect("a body");
    let task = json!({
        "id": "1", "name": "a", "path": [], "error": null, "interrupts": [], "checkpoint": null, "state": null, "result": null,
    });
    let good = json!({ "values": 1, "next": [], "tasks": [task], "checkpoint": null, "interrupts": [{ "id": 1, "value": 2 }] });
    let found = |change: fn(&mut Value)| {
        let (mut state, mut differ) = (good.clone(), Vec::new());
        change(&mut state);
        described.validate(schema, &state, "", &mut differ);
        differ.into_iter().map(|(path, text)| format!("{path}: {text}")).collect::<Vec<_>>()
    };
    assert_eq!(found(|_| {}), Vec::<String>::new());
    assert_eq!(found(|state| state["more"] = json!(1)), ["/more: is unknown"]);
    assert_eq!(found(|state| state["next"] = json!([1])), ["/next/0: 1 is no \"string\""]);
    assert_eq!(found(|state| state["tasks"][0]["error"] = json!(1)), ["/tasks/0/error: 1 is no [\"string\",\"null\"]"]);
    assert_eq!(found(|state| drop(state["tasks"][0]["name"].take())), ["/tasks/0/name: null is no \"string\""]);
    let without = |state: &mut Value| drop(state["tasks"][0].as_object_mut().and_then(|task| task.remove("path")));
    assert_eq!(found(without), ["/tasks/0/path: is missing"]);
}

/// Each route refuses values that differ from its description.
#[tokio::test]
async fn routes_refuse_requests_that_differ_from_the_description() {
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
async fn each_schema_is_complete_and_described() {
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
