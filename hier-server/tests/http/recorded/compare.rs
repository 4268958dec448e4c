//! Compares an answer with one that was recorded, where ids, times and numbers of events are names in braces.

use std::collections::HashMap;

use serde_json::Value;
use uuid::Uuid;

/// The values of the names in braces in this run: `{12}` is an id, `{event …}` the id of an event.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<String, String>);

/// A part of a recorded text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part<'a> {
    Plain(&'a str),
    Name(&'a str),
}

fn is_name(text: &str) -> bool {
    let is_id = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_id || matches!(text, "time" | "number" | "any") || text.starts_with("event ")
}

/// The parts of a recorded text.
fn parts(mut text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let found = text.match_indices('{').find_map(|(at, _)| {
            let (name, rest) = text.get(at + 1..)?.split_once('}')?;
            is_name(name).then_some((at, name, rest))
        });
        let Some((at, name, rest)) = found else {
            parts.push(Part::Plain(text));
            break;
        };
        if at > 0 {
            parts.push(Part::Plain(&text[..at]));
        }
        parts.push(Part::Name(name));
        text = rest;
    }
    parts
}

impl Names {
    /// A recorded text as it is sent: with the ids of this run, and new ones where the client chooses.
    pub(crate) fn fill(&mut self, text: &str) -> String {
        let fill = |part| match part {
            Part::Plain(text) => text.to_owned(),
            Part::Name(name) => self.0.entry(name.to_owned()).or_insert_with(|| Uuid::new_v4().to_string()).clone(),
        };
        parts(text).into_iter().map(fill).collect()
    }

    /// The same for all texts of a value.
    pub(crate) fn fill_in(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill_in(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(name, value)| (self.fill(name), self.fill_in(value))).collect())
            }
            other => other.clone(),
        }
    }

    /// Returns true if a text equals the recorded one. The first occurrence of a name defines its value.
    fn is(&mut self, recorded: &str, mut text: &str) -> bool {
        for part in parts(recorded) {
            let (length, known) = match part {
                Part::Plain(plain) => (plain.len(), text.starts_with(plain)),
                Part::Name(name) => self.meets(name, text),
            };
            let Some(rest) = known.then(|| text.get(length..)).flatten() else { return false };
            text = rest;
        }
        text.is_empty()
    }

    /// Returns the length of a name's value at the beginning of the text, and whether it matches.
    fn meets(&mut self, name: &str, text: &str) -> (usize, bool) {
        let taken = |of: fn(char) -> bool| text.find(|next| !of(next)).unwrap_or(text.len());
        match name {
            "any" => (text.len(), !text.is_empty()),
            "time" => {
                let length = taken(|next| next.is_ascii_digit() || "-:T.+Z".contains(next));
                (length, length >= "2000-01-01T00:00:00".len())
            }
            "number" => {
                let length = taken(|next| next.is_ascii_digit());
                (length, length > 0)
            }
            event if event.starts_with("event ") => {
                let length = taken(|next| next.is_ascii_digit() || next == '-');
                // LangGraph gives two events of one millisecond the same id.
                self.0.insert(event.to_owned(), text[..length].to_owned());
                (length, length > 0)
            }
            id => {
                let length = taken(|next| next.is_ascii_hexdigit() || next == '-');
                let met = self.0.entry(id.to_owned()).or_insert_with(|| text[..length].to_owned());
                (length, *met == text[..length] && Uuid::try_parse(met).is_ok())
            }
        }
    }

    /// Returns the differences from the recorded value as lines of path and value.
    pub(crate) fn compare(&mut self, recorded: &Value, value: &Value, path: &str, differ: &mut Vec<(String, String)>) {
        match (recorded, value) {
            (Value::Object(want), Value::Object(have)) => {
                for (name, want) in want {
                    let name = self.known(name);
                    match have.get(&name) {
                        Some(have) => self.compare(want, have, &format!("{path}/{name}"), differ),
                        None => differ.push((format!("{path}/{name}"), format!("is missing; recorded: {want}"))),
                    }
                }
                let known: Vec<String> = want.keys().map(|name| self.known(name)).collect();
                for (name, more) in have.iter().filter(|(name, _)| !known.contains(name)) {
                    differ.push((format!("{path}/{name}"), format!("is more than was recorded: {more}")));
                }
            }
            (Value::Array(want), Value::Array(have)) => {
                for (at, (want, have)) in want.iter().zip(have).enumerate() {
                    self.compare(want, have, &format!("{path}/{at}"), differ);
                }
                if want.len() != have.len() {
                    let all = Value::from(have.clone());
                    differ.push((path.to_owned(), format!("{} items; recorded: {}: {all}", have.len(), want.len())));
                }
            }
            (Value::String(want), Value::String(have)) if self.is(want, have) => {}
            (Value::String(want), Value::Number(_)) if want == "{number}" => {}
            (Value::Number(want), Value::Number(have)) if want.as_f64() == have.as_f64() => {}
            (want, have) if want == have => {}
            (want, have) => differ.push((path.to_owned(), format!("{have}; recorded: {want}"))),
        }
    }

    /// The name of a field; ids that are names were met elsewhere before.
    fn known(&self, name: &str) -> String {
        let known = |part| match part {
            Part::Plain(text) => text.to_owned(),
            Part::Name(name) => self.0.get(name).cloned().unwrap_or_else(|| format!("{{{name}}}")),
        };
        parts(name).into_iter().map(known).collect()
    }
}
