//! One JSON Schema for all types of a graph. Merges the definitions of the graph's schemas, so that each type has one
//! name.

use serde_json::{Map, Value, json};

use super::{ServedQuestion, ServedSchemas};

/// The prefix of references to definitions in a document.
const DEFS: &str = "#/$defs/";

/// A document that collects definitions.
pub(super) struct Bundle {
    /// The name of the graph in `PascalCase`.
    name: String,
    definitions: Map<String, Value>,
}

impl Bundle {
    pub(super) fn new(graph: &str) -> Self {
        Self { name: pascal_case(graph), definitions: Map::new() }
    }

    /// Returns the document: an object type whose properties are the schemas of the graph.
    pub(super) fn document(mut self, schemas: ServedSchemas) -> Value {
        let mut parts = Map::new();
        let name = self.name.clone();
        let types = [
            ("input", "Input", schemas.input_schema),
            ("state", "State", schemas.state_schema),
            ("output", "Output", schemas.output_schema),
        ];
        for (part, suffix, schema) in types {
            if let Some(schema) = schema {
                parts.insert(part.to_owned(), self.define(&format!("{name}{suffix}"), schema));
            }
        }
        if !schemas.question_schemas.is_empty() {
            let (questions, answers) = self.questions(schemas.question_schemas);
            parts.insert("questions".to_owned(), self.define(&format!("{name}Question"), questions));
            parts.insert("answers".to_owned(), self.define(&format!("{name}Answers"), answers));
        }
        let required: Vec<&String> = parts.keys().collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": name,
            "description": format!("The types of the graph {name}."),
            "type": "object",
            "required": required,
            "additionalProperties": false,
            "properties": parts,
            "$defs": self.definitions,
        })
    }

    /// Returns two schemas: the union of all questions, and an object with an answer for each question name.
    fn questions(&mut self, questions: impl IntoIterator<Item = (String, ServedQuestion)>) -> (Value, Value) {
        let (mut any, mut answers) = (Vec::new(), Map::new());
        for (name, ServedQuestion { question, answer }) in questions {
            let title = title(&question).unwrap_or_else(|| pascal_case(&name));
            any.push(self.define(&title, question));
            let answer = match title_of_type(&answer) {
                Some(own) => self.define(&own, answer),
                None => untitled(self.inline(answer)),
            };
            answers.insert(name, answer);
        }
        let required: Vec<&String> = answers.keys().collect();
        let answers = json!({
            "description": "The types of the answers, by the names of the questions.",
            "type": "object",
            "required": required,
            "additionalProperties": false,
            "properties": answers,
        });
        (json!({ "oneOf": any }), answers)
    }

    /// Adds a type and returns a reference to it. If another type has the name, appends a number to the name.
    fn define(&mut self, name: &str, schema: Value) -> Value {
        let mut schema = schema;
        // A recursive type refers to itself as the whole document.
        replace(&mut schema, "#", &format!("{DEFS}{name}"));
        let mut schema = self.inline(schema);
        let names = (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name}{number}") });
        for name in names {
            if let Some(fields) = schema.as_object_mut() {
                fields.insert("title".to_owned(), name.clone().into());
            }
            match self.definitions.get(&name) {
                Some(other) if *other != schema => {}
                _ => {
                    let reference = json!({ "$ref": format!("{DEFS}{name}") });
                    self.definitions.insert(name, schema);
                    return reference;
                }
            }
        }
        schema
    }

    /// Moves the definitions of a schema to the document and returns the schema without them.
    fn inline(&mut self, mut schema: Value) -> Value {
        let Some(fields) = schema.as_object_mut() else { return schema };
        fields.remove("$schema");
        let Some(Value::Object(own)) = fields.remove("$defs") else { return schema };
        // References are renamed first, since definitions refer to each other.
        let renamed: Vec<(String, String)> =
            own.iter().map(|(name, inner)| (name.clone(), self.free_name(name, inner, &own))).collect();
        rename(&mut schema, &renamed);
        for ((_, mut inner), (_, name)) in own.into_iter().zip(&renamed) {
            rename(&mut inner, &renamed);
            if let Some(fields) = inner.as_object_mut() {
                fields.insert("title".to_owned(), name.clone().into());
            }
            self.definitions.insert(name.clone(), inner);
        }
        schema
    }

    /// Returns a name that no different type has. Equal types share one name.
    fn free_name(&self, name: &str, schema: &Value, own: &Map<String, Value>) -> String {
        let mut schema = schema.clone();
        let names = (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name}{number}") });
        for candidate in names {
            if let Some(fields) = schema.as_object_mut() {
                fields.insert("title".to_owned(), candidate.clone().into());
            }
            let is_own = candidate != name && own.contains_key(&candidate);
            let is_taken = self.definitions.get(&candidate).is_some_and(|other| *other != schema);
            if !is_own && !is_taken {
                return candidate;
            }
        }
        name.to_owned()
    }
}

fn replace(schema: &mut Value, old: &str, new: &str) {
    match schema {
        Value::Object(fields) => {
            if let Some(reference) = fields.get_mut("$ref").filter(|reference| *reference == old) {
                *reference = new.into();
            }
            fields.values_mut().for_each(|value| replace(value, old, new));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, old, new)),
        _ => {}
    }
}

fn title(schema: &Value) -> Option<String> {
    Some(schema.get("title")?.as_str()?.to_owned())
}

/// Removes the title of a schema. Otherwise, tools would make a type name from it.
fn untitled(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("title");
    }
    schema
}

/// Returns the title of a type that the program defines. Types of the standard library have titles in lower case.
fn title_of_type(schema: &Value) -> Option<String> {
    let is_own = |title: &String| title.starts_with(char::is_uppercase) && title.chars().all(char::is_alphanumeric);
    let is_plain =
        matches!(schema.get("type").and_then(Value::as_str), Some("boolean" | "integer" | "number" | "null"))
            || (schema.get("type").and_then(Value::as_str) == Some("string") && schema.get("enum").is_none());
    title(schema).filter(is_own).filter(|_| !is_plain)
}

fn rename(schema: &mut Value, names: &[(String, String)]) {
    for (old, new) in names.iter().filter(|(old, new)| old != new) {
        replace(schema, &format!("{DEFS}{old}"), &format!("{DEFS}{new}"));
    }
}

fn pascal_case(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let mut letters = word.chars();
            letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        })
        .collect()
}
