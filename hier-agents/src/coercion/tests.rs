use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::schema::root_schema;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct SampleOrder {
    number: u32,
    ratio: f64,
    express: bool,
    tags: Vec<String>,
    address: SampleAddress,
    parts: BTreeMap<String, u8>,
    note: Option<String>,
    mood: Mood,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct SampleAddress {
    street: String,
    zip: u32,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
enum Mood {
    Calm,
    Angry { degree: u8 },
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct SampleTree {
    value: u32,
    children: Vec<SampleTree>,
}

fn as_order(value: &Value) -> Result<SampleOrder, Vec<String>> {
    let schema = root_schema::<SampleOrder>();
    let read = read_value(&coerced(value, &schema).unwrap_or_else(|| value.clone()), &schema);
    read.map_err(|faults| faults.iter().map(SchemaFault::to_string).collect())
}

#[test]
fn values_of_another_json_type_are_converted() {
    let plain = json!({
        "number": 5, "ratio": 0.5, "express": true, "tags": ["a"], "address": {"street": "Via", "zip": 1},
        "parts": {"x": 1}, "note": "n", "mood": {"kind": "angry", "degree": 3}
    });
    let order = as_order(&plain).unwrap();
    let odd = [
        ("number", json!(5.0)),
        ("number", json!("5")),
        ("number", json!(" 5.0 ")),
        ("ratio", json!("0.5")),
        ("express", json!("true")),
        ("express", json!("True")),
        ("tags", json!("[\"a\"]")),
        ("tags", json!("a")),
        ("express", json!([true])),
        ("address", json!("{\"street\": \"Via\", \"zip\": \"1\"}")),
        ("address", json!({"street": "Via", "zip": 1.0})),
        ("parts", json!({"x": "1"})),
        ("mood", json!("{\"kind\": \"angry\", \"degree\": 3}")),
        ("mood", json!({"kind": "angry", "degree": "3"})),
    ];
    for (field, value) in odd {
        let mut given = plain.clone();
        given[field] = value.clone();
        assert_eq!(as_order(&given).as_ref(), Ok(&order), "{field}: {value}");
    }
    let mut given = plain.clone();
    given["note"] = json!(["n"]);
    assert_eq!(as_order(&given).unwrap(), order);
    given["note"] = json!(7);
    assert_eq!(as_order(&given).unwrap_err().len(), 1, "a number is not a text");
    given["note"] = Value::Null;
    assert_eq!(as_order(&given).unwrap().note, None);
}

#[test]
fn all_faults_are_reported_with_their_paths() {
    let faults = as_order(&json!({
        "number": "five", "ratio": 1, "express": 3, "tags": ["a", null], "address": {"street": null},
        "parts": {"x": 300}, "mood": {"kind": "angry", "degree": []}
    }))
    .unwrap_err();
    for path in ["number", "express", "tags[1]", "address.street", "address.zip", "parts.x", "mood.degree"] {
        assert_eq!(
            faults.iter().filter(|fault| fault.contains(&format!("`{path}`"))).count(),
            1,
            "{path}: {faults:#?}"
        );
    }
    assert_eq!(faults.len(), 7, "{faults:#?}");
}

#[test]
fn recursive_schema_is_followed_to_the_depth_of_the_value() {
    let tree = json!({"value": "1", "children": [{"value": 2.0, "children": []}, {"value": "x", "children": {}}]});
    let tree = coerced(&tree, &root_schema::<SampleTree>()).unwrap();
    let faults = read_value::<SampleTree>(&tree, &root_schema::<SampleTree>()).unwrap_err();
    let paths: Vec<&str> = faults.iter().map(|fault| &*fault.path).collect();
    assert!(paths.contains(&"children[1].value") && paths.contains(&"children[1].children"), "{faults:?}");
    // The comparison with a schema that refers to itself endlessly still ends.
    let endless =
        json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"});
    assert!(coerce(&mut json!(1), &endless).is_empty());
}

#[test]
fn recursive_schemas_take_a_bounded_number_of_steps() {
    let schema = json!({ "type": "array", "items": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] } });
    // Without a bound, the number of steps would grow exponentially with the depth.
    assert_eq!(coerced(&json!("x"), &schema), None);
}
