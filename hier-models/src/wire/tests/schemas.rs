use hier_agents::{ChatRequest, Message, OutputSpec, ToolSpec};
use serde_json::{Value, json};

use super::super::*;
use super::sent;

/// A name, a schema, and the dialects that cannot enforce it: `o`penai, `a`nthropic, `g`emini.
type SchemaCase = (&'static str, Value, &'static str);

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn field(schema: &Value) -> Value {
    object(&json!({ "a": schema }), &["a"])
}

fn cases() -> Vec<SchemaCase> {
    let documented = json!({ "oneOf": [
        { "type": "string", "enum": ["a", "b"] }, { "type": "string", "const": "c", "description": "The third." },
    ] });
    let tagged = json!({ "oneOf": [
        object(&json!({ "kind": { "type": "string", "const": "x" }, "n": { "type": "integer", "format": "int64" } }), &["kind", "n"]),
        object(&json!({ "kind": { "type": "string", "const": "y" } }), &["kind"]),
    ] });
    let tuple = json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer" }], "minItems": 2, "maxItems": 2 });
    let mut list = object(&json!({ "next": { "anyOf": [{ "$ref": "#/$defs/List" }, { "type": "null" }] } }), &["next"]);
    list["$defs"] = json!({ "List": list.clone() });
    let mut referring = field(&json!({ "$ref": "#/$defs/Part", "description": "A part." }));
    referring["$defs"] = json!({ "Part": field(&json!({ "type": "string" })) });
    vec![
        ("numbers", field(&json!({ "type": "integer", "format": "uint32", "minimum": 0 })), ""),
        ("texts", field(&json!({ "type": "string", "minLength": 2, "pattern": "^a", "format": "regex" })), ""),
        ("a date", field(&json!({ "type": "string", "format": "date-time" })), ""),
        ("an option", object(&json!({ "a": { "type": ["string", "null"], "description": "It." } }), &[]), ""),
        ("a default", object(&json!({ "a": { "type": "string", "default": "x" } }), &[]), "o"),
        ("a documented enum", field(&documented), ""),
        ("an optional enum", object(&json!({ "a": { "anyOf": [documented, { "type": "null" }] } }), &[]), ""),
        ("a tagged enum", field(&tagged), ""),
        ("a tuple", field(&tuple), ""),
        ("a set", field(&json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })), ""),
        ("a map", field(&json!({ "type": "object", "additionalProperties": { "type": "string" } })), "oa"),
        ("a map of objects", field(&json!({ "type": "object", "additionalProperties": field(&json!(true)) })), "oa"),
        ("anything", field(&json!(true)), "oa"),
        ("any object", json!({ "type": "object" }), "oa"),
        (
            "an open object",
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }),
            "",
        ),
        ("an empty object", object(&json!({}), &[]), ""),
        ("a list of anything", field(&json!({ "type": "array" })), "oa"),
        ("a type that contains itself", list, "ag"),
        ("a reference", referring, ""),
        ("an alias", field(&json!({ "allOf": [{ "type": "string", "maxLength": 3 }], "description": "It." })), ""),
        (
            "a choice next to fields",
            {
                let mut schema = object(&json!({ "a": { "type": "string" } }), &["a"]);
                schema["anyOf"] = json!([{ "required": ["a"] }]);
                schema
            },
            "oag",
        ),
    ]
}

/// Returns the schema in the request, if the provider holds the model to it.
fn enforced_schema(wire: &dyn Dialect, schema: &Value) -> Option<Value> {
    let output = OutputSpec { name: "shape".to_owned(), schema: schema.clone() };
    let body = sent(wire, "m", &ChatRequest::new([Message::user("hi")]).output(output)).unwrap();
    let found = match wire.info().name {
        "openai" => body.pointer("/response_format/json_schema"),
        "responses" => body.pointer("/text/format"),
        "anthropic" => body.pointer("/output_config/format"),
        _ => return body.pointer("/generationConfig/responseJsonSchema").cloned(),
    };
    let format = found.filter(|format| format.get("strict") != Some(&json!(false)))?;
    format.get("schema").cloned()
}

/// Checks a schema against the published rules of a provider.
fn judge(wire: &str, schema: &Value, place: &str) -> Result<(), String> {
    let Value::Object(fields) = schema else { return Err(format!("{place}: not a schema")) };
    let common = ["type", "description", "enum", "anyOf", "properties", "required", "additionalProperties", "items"];
    let more: &[&str] = match wire {
        "gemini" => &["$defs", "$ref", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "format", "title"],
        "anthropic" => &["$defs", "$ref", "format"],
        _ => &["$defs", "$ref", "format", "pattern", "minItems", "maxItems", "minimum", "maximum"],
    };
    if let Some(name) = fields.keys().find(|name| !common.contains(&&***name) && !more.contains(&&***name)) {
        return Err(format!("{place}: `{name}` is not permitted"));
    }
    if fields.contains_key("$ref") && fields.len() > 1 {
        return Err(format!("{place}: `$ref` stands alone"));
    }
    let known = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];
    if fields.get("format").is_some_and(|format| !known.contains(&format.as_str().unwrap_or_default())) {
        return Err(format!("{place}: an unknown format"));
    }
    if wire != "gemini" && schema["type"] == "object" {
        let names: Vec<&String> =
            schema["properties"].as_object().ok_or(format!("{place}: no fields"))?.keys().collect();
        let is_required =
            |name: &&&String| schema["required"].as_array().is_some_and(|list| list.contains(&json!(name)));
        let is_complete = wire == "anthropic" || names.iter().filter(is_required).count() == names.len();
        if schema["additionalProperties"] != json!(false) || !is_complete {
            return Err(format!("{place}: an open object"));
        }
    }
    if wire == "anthropic" && schema["type"].is_array() {
        return Err(format!("{place}: a list of types"));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().chain(schema["$defs"].as_object()).flatten() {
        judge(wire, inner, &format!("{place}/{name}"))?;
    }
    let lists = ["anyOf", "prefixItems"].iter().filter_map(|name| schema[*name].as_array()).flatten();
    for inner in lists.chain(schema.get("items")) {
        judge(wire, inner, &format!("{place}/*"))?;
    }
    Ok(())
}

#[test]
fn fitted_schemas_are_accepted() {
    for (what, schema, cannot) in cases() {
        for (wire, letter) in [(OPENAI, 'o'), (RESPONSES, 'o'), (ANTHROPIC, 'a'), (GEMINI, 'g')] {
            let held = enforced_schema(wire, &schema);
            assert_eq!(held.is_none(), cannot.contains(letter), "{what}, {}: {held:?}", wire.info().name);
            if let Some(held) = held {
                judge(wire.info().name, &held, "")
                    .unwrap_or_else(|why| panic!("{what}, {}: {why}: {held:#}", wire.info().name));
            }
            if letter != 'o' {
                assert_eq!(wire.accepts_schema(&schema), !cannot.contains(letter), "{what}, {}", wire.info().name);
            }
        }
    }
}

#[test]
fn unsupported_constraints_are_described() {
    let described = |wire: &dyn Dialect, which: &str| {
        let (_, schema, _) = cases().into_iter().find(|(what, ..)| *what == which).unwrap();
        enforced_schema(wire, &schema).unwrap().pointer("/properties/a").unwrap().clone()
    };
    assert_eq!(described(ANTHROPIC, "numbers"), json!({ "type": "integer", "description": "(minimum: 0)" }));
    assert_eq!(described(OPENAI, "numbers"), json!({ "type": "integer", "minimum": 0 }));
    let kinds = json!({ "type": "string", "enum": ["a", "b", "c"], "description": "(\"c\": The third.)" });
    assert_eq!(described(OPENAI, "a documented enum"), kinds);
    assert_eq!(described(GEMINI, "a documented enum"), kinds);
    let option = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "description": "It." });
    assert_eq!(described(ANTHROPIC, "an option"), option);
    assert_eq!(described(ANTHROPIC, "an alias"), json!({ "type": "string", "description": "It. (maxLength: 3)" }));
    let set = described(OPENAI, "a set");
    assert_eq!(set["description"], "(uniqueItems: true)");
    let tuple = described(OPENAI, "a tuple");
    assert_eq!(tuple["items"], json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }));
    assert!(tuple["description"].as_str().unwrap().contains("items by position"), "{tuple}");
}

/// A small schema whose fitted form would have billions of parts is treated like an unsupported schema.
#[test]
fn exploding_schemas_are_not_fitted() {
    let doubling = |part: fn(Value, Value) -> Value| {
        let mut definitions = serde_json::Map::new();
        for number in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/D{}", number + 1) });
            definitions.insert(format!("D{number}"), part(next.clone(), next));
        }
        definitions.insert("D30".to_owned(), json!({ "type": "string" }));
        let mut schema = field(&json!({ "$ref": "#/$defs/D0" }));
        schema["$defs"] = Value::Object(definitions);
        schema
    };
    let fields = doubling(|a, b| object(&json!({ "a": a, "b": b }), &["a", "b"]));
    let choices = doubling(|a, b| json!({ "anyOf": [a, b] }));
    let places = doubling(|a, b| json!({ "type": "array", "prefixItems": [a, b] }));
    // Some providers get a choice in place of a list of types, with all other keywords in each alternative.
    let kinds = (0..60).fold(json!({ "type": "string" }), |inner, _| {
        let mut schema = field(&inner);
        schema["type"] = json!(["object", "null", "string"]);
        schema
    });
    let by_position =
        (0..60).fold(json!({ "type": "string" }), |inner, _| json!({ "type": "array", "prefixItems": [inner] }));
    for (what, schema, letters) in [
        ("fields", fields, "ag"),
        ("choices", choices, "ag"),
        ("places", places, "ag"),
        ("kinds", kinds, "a"),
        ("places in places", field(&by_position), "ao"),
    ] {
        for (wire, letter) in [(OPENAI, 'o'), (ANTHROPIC, 'a'), (GEMINI, 'g')] {
            if letters.contains(letter) {
                assert!(enforced_schema(wire, &schema).is_none(), "{what}, {}", wire.info().name);
            }
        }
        if letters.contains('g') {
            let tool = ToolSpec { name: "t".to_owned(), description: String::new(), parameters: schema.clone() };
            let body = sent(GEMINI, "m", &ChatRequest::new([Message::user("hi")]).tools([tool])).unwrap();
            let declared = body.pointer("/tools/0/functionDeclarations/0/parametersJsonSchema");
            assert_eq!(declared, Some(&schema), "{what}: a tool goes as it is");
        }
    }
}

/// Anthropic refuses a schema with too many optional fields or too many values with alternatives.
#[test]
fn anthropic_gets_no_schema_beyond_its_limits() {
    let of_fields = |count: usize, part: &Value, required: bool| {
        let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        let fields: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), part.clone())).collect();
        let required = if required { names } else { Vec::new() };
        json!({ "type": "object", "properties": fields, "required": required })
    };
    let (text, option) = (json!({ "type": "string" }), json!({ "type": ["string", "null"] }));
    let choice = json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] });
    // The names of fields are not keywords.
    let named = |count: usize| field(&object(&json!({ "anyOf": of_fields(count, &option, true) }), &["anyOf"]));
    for (what, accepted, refused) in [
        ("optional fields", of_fields(24, &text, false), of_fields(25, &text, false)),
        ("options", of_fields(16, &option, true), of_fields(17, &option, true)),
        (
            "choices in a list",
            of_fields(16, &json!({ "type": "array", "items": choice }), true),
            of_fields(17, &choice, true),
        ),
        ("nested options", named(16), named(17)),
    ] {
        assert!(ANTHROPIC.accepts_schema(&accepted) && enforced_schema(ANTHROPIC, &accepted).is_some(), "{what}");
        assert!(!ANTHROPIC.accepts_schema(&refused) && enforced_schema(ANTHROPIC, &refused).is_none(), "{what}");
        assert!(GEMINI.accepts_schema(&refused), "{what}");
    }
}

/// A schema that the provider cannot enforce is described in words. It never becomes the schema of an empty object.
#[test]
fn unsupported_schemas_become_instructions() {
    let map = field(&json!({ "type": "object", "additionalProperties": { "type": "string" } }));
    let output = OutputSpec { name: "shape".to_owned(), schema: map.clone() };
    let request = ChatRequest::new([Message::user("hi")]).output(output);
    let body = sent(ANTHROPIC, "m", &request).unwrap();
    assert!(body.get("output_config").is_none(), "{body:#}");
    assert!(body["system"].as_str().unwrap().contains(&map.to_string()), "{body:#}");
    let body = sent(OPENAI, "m", &request).unwrap();
    let format = &body["response_format"]["json_schema"];
    assert_eq!((&format["strict"], &format["schema"]), (&json!(false), &map));
}

/// Anthropic's own API gets a schema by default. Vertex AI gets one only if the program requests that.
#[test]
fn native_output_decides_about_schemas_of_claude() {
    let schema = object(&json!({ "a": { "type": "string" } }), &["a"]);
    let output = OutputSpec { name: "shape".to_owned(), schema: schema.clone() };
    let request = &ChatRequest::new([Message::user("hi")]).output(output);
    let (vertex, _) = vertex("p", "global", "claude-opus-4-6");
    assert!(ANTHROPIC.obeys_schemas("claude-opus-4-6") && !vertex.obeys_schemas("claude-opus-4-6"));
    for (wire, native_output, native) in [
        (ANTHROPIC, None, true),
        (ANTHROPIC, Some(false), false),
        (vertex, None, false),
        (vertex, Some(false), false),
        (vertex, Some(true), true),
    ] {
        let wire_request = WireRequest {
            model: "claude-opus-4-6",
            maker: "m",
            request,
            tools: &ProviderTools::default(),
            native_output,
            searches_tools: false,
            streamed: false,
        };
        let body = super::super::request(wire, &wire_request).unwrap();
        assert_eq!(body.pointer("/output_config/format").is_some(), native, "{native_output:?}: {body:#}");
        let instructed = body["system"].as_str().is_some_and(|system| system.contains(&schema.to_string()));
        assert_eq!(instructed, !native, "{native_output:?}: {body:#}");
    }
}
