//! Generates the OpenAPI description from the table of routes.

mod handler;

use std::fmt::Write;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub(crate) use self::handler::DescribedHandler;
use self::handler::Generators;

pub(crate) struct RouteDescription {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The heading under which the route is listed.
    pub(crate) tag: &'static str,
    pub(crate) does: &'static str,
    /// Adds the arguments and responses of the handler.
    pub(crate) add: fn(&mut Generators, &mut Map<String, Value>),
}

/// The path in the document that contains the schemas.
const SCHEMAS: &str = "/components/schemas";

/// Describes routes in OpenAPI 3.1.
pub(crate) fn document(routes: &[RouteDescription]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let refused = json!({ "description": "Refused.", "content": { "application/json": {
        "schema": { "$ref": "#/components/schemas/Error" } } } });
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        (settings.meta_schema, settings.definitions_path) = (None, SCHEMAS.into());
    });
    let read = settings.clone().for_deserialize().into_generator();
    let mut generators = Generators { read, written: settings.for_serialize().into_generator() };
    for RouteDescription { method, path, tag, does, add } in routes {
        let parameters: Vec<Value> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": in_path(name) }))
            .collect();
        let mut operation = json!({
            "tags": [tag],
            "summary": does,
            "operationId": format!("{method}{}", path.replace(['/', '{', '}', '.'], "_")),
            "parameters": parameters,
        });
        if let Some(operation) = operation.as_object_mut() {
            add(&mut generators, operation);
            operation.entry("responses").or_insert_with(|| json!({}))["default"] = refused.clone();
        }
        let entry = paths.entry((*path).to_owned()).or_insert_with(|| json!({}));
        entry[*method] = operation;
    }
    let mut schemas = generators.read.take_definitions(true);
    for (name, schema) in generators.written.take_definitions(true) {
        let same = schemas.insert(name, schema.clone());
        debug_assert!(same.is_none_or(|same| same == schema), "two types share the name of a schema: {schema}");
    }
    let error = json!({ "type": "object", "required": ["detail"], "properties": { "detail": { "type": "string" } } });
    schemas.insert("Error".to_owned(), error);
    json!({
        "openapi": "3.1.0",
        "info": { "title": "hier", "version": env!("CARGO_PKG_VERSION"),
            "description": "Serves graphs to clients of LangGraph's server." },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "token": [] }],
    })
}

/// Returns the schema of a path parameter. An id is a UUID.
fn in_path(name: &str) -> Value {
    if name.ends_with("_id") { json!({ "type": "string", "format": "uuid" }) } else { json!({ "type": "string" }) }
}

/// Lists routes as an HTML page without scripts.
pub(crate) fn page(routes: &[RouteDescription]) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>hier: routes</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 \
         1rem;color-scheme:light dark}td{padding:.2rem .8rem .2rem 0;vertical-align:top}code{font-size:.9em}</style>\
         <h1>Routes</h1><p>As a document: <a href=/openapi.json>OpenAPI</a>.",
    );
    let mut section = "";
    for RouteDescription { method, path, tag, does, .. } in routes {
        if *tag != section {
            let end = if section.is_empty() { "" } else { "</table>" };
            let _ = write!(page, "{end}<h2>{tag}</h2><table>");
            section = tag;
        }
        let method = method.to_ascii_uppercase();
        let _ = write!(page, "<tr><td><code>{method}</code><td><code>{path}</code><td>{does}");
    }
    page.push_str("</table></html>");
    page
}
