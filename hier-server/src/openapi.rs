//! The description of the routes, made of their table.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// A route: method, path, resource, what it does.
pub(crate) type Described = (&'static str, &'static str, &'static str, &'static str);

/// The description of these routes in OpenAPI 3.1.
pub(crate) fn document(routes: &[Described]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for (method, path, tag, does) in routes {
        let parameters: Vec<Value> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
            .collect();
        let mut operation = json!({
            "tags": [tag],
            "summary": does,
            "operationId": format!("{method}{}", path.replace(['/', '{', '}', '.'], "_")),
            "parameters": parameters,
            "responses": {
                "200": { "description": "Done." },
                "default": { "description": "Refused.", "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Error" } } } },
            },
        });
        if matches!(*method, "post" | "put" | "patch") {
            operation["requestBody"] = json!({ "content": { "application/json": { "schema": { "type": "object" } } } });
        }
        let entry = paths.entry((*path).to_owned()).or_insert_with(|| json!({}));
        entry[*method] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "hier", "version": env!("CARGO_PKG_VERSION"),
            "description": "Graphs as a service, to the clients of LangGraph's server." },
        "paths": paths,
        "components": {
            "schemas": { "Error": { "type": "object", "required": ["detail"], "properties": { "detail": { "type": "string" } } } },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "token": [] }],
    })
}

/// The same as a page, without scripts.
pub(crate) fn page(routes: &[Described]) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>hier: routes</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 \
         1rem;color-scheme:light dark}td{padding:.2rem .8rem .2rem 0;vertical-align:top}code{font-size:.9em}</style>\
         <h1>Routes</h1><p>As a document: <a href=/openapi.json>OpenAPI</a>.",
    );
    let mut section = "";
    for (method, path, tag, does) in routes {
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
