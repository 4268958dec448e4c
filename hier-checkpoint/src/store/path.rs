//! Paths to the fields of an item that a search by meaning looks at.

use std::str::FromStr;

use serde_json::Value;

use super::StoreError;
use super::rules::invalid;

/// A path: `author.name`, `chapters[0].title`, `tags[*]`, `{title,body.text}`, `*`. An empty path and `$` stand for the
/// whole value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<PathPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathPart {
    Field(String),
    /// The item of a list with this index. A negative index counts from the end.
    Item(i64),
    /// Every item of a list.
    Items,
    /// Every field of an object, or every item of a list.
    Any,
    Several(Vec<Path>),
}

impl FromStr for Path {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let mut rest = if text == "$" { "" } else { text };
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, after) = part(text, rest)?;
            parts.push(part);
            rest = match after.strip_prefix('.') {
                Some("") => return wrong(text, "it ends with a period"),
                Some(after) => after,
                None if after.is_empty() || after.starts_with('[') => after,
                None => return wrong(text, "only a period or `[` may follow `]` or `}`"),
            };
        }
        Ok(Self(parts))
    }
}

/// Parses the next part of a path. Also returns the text after the part.
fn part<'a>(text: &str, rest: &'a str) -> Result<(PathPart, &'a str), StoreError> {
    if let Some(inner) = rest.strip_prefix('[') {
        let Some((index, after)) = inner.split_once(']') else { return wrong(text, "a `[` has no `]`") };
        return match (index, index.parse()) {
            ("*", _) => Ok((PathPart::Items, after)),
            (_, Ok(index)) => Ok((PathPart::Item(index), after)),
            _ => wrong(text, "`[…]` must contain a whole number or `*`"),
        };
    }
    if let Some(inner) = rest.strip_prefix('{') {
        let Some((names, after)) = inner.split_once('}') else { return wrong(text, "a `{` has no `}`") };
        if names.contains('{') {
            return wrong(text, "it has a `{…}` within another `{…}`");
        }
        let each = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        return Ok((PathPart::Several(each.map(str::parse).collect::<Result<_, _>>()?), after));
    }
    let end = rest.find(['.', '[', '{']).unwrap_or(rest.len());
    match rest.split_at(end) {
        ("", _) => wrong(text, "a field has no name"),
        ("*", after) => Ok((PathPart::Any, after)),
        (name, after) => Ok((PathPart::Field(name.to_owned()), after)),
    }
}

fn wrong<T>(text: &str, reason: &str) -> Result<T, StoreError> {
    invalid(format!("`{text}` is not a path to fields: {reason}; write `author.name`, `tags[*]` or `{{title,body}}`"))
}

impl Path {
    /// Adds the texts at this path. Adds nothing if the path does not exist in the value.
    pub(super) fn texts(&self, value: &Value, texts: &mut Vec<String>) {
        follow(&self.0, value, texts);
    }
}

fn follow(parts: &[PathPart], value: &Value, texts: &mut Vec<String>) {
    let Some((part, rest)) = parts.split_first() else {
        texts.extend(text(value));
        return;
    };
    match (part, value) {
        (PathPart::Field(name), Value::Object(fields)) => {
            if let Some(field) = fields.get(name) {
                follow(rest, field, texts);
            }
        }
        (PathPart::Item(index), Value::Array(items)) => {
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let index = if *index < 0 { index.saturating_add(length) } else { *index };
            if let Some(item) = usize::try_from(index).ok().and_then(|index| items.get(index)) {
                follow(rest, item, texts);
            }
        }
        (PathPart::Items | PathPart::Any, Value::Array(items)) => {
            for item in items {
                follow(rest, item, texts);
            }
        }
        (PathPart::Any, Value::Object(fields)) => fields.values().for_each(|field| follow(rest, field, texts)),
        (PathPart::Several(paths), value @ Value::Object(_)) => {
            for path in paths {
                let through: Vec<PathPart> = path.0.iter().chain(rest).cloned().collect();
                follow(&through, value, texts);
            }
        }
        _ => {}
    }
}

/// Converts a value to text: a string as it is, and other values to JSON with sorted fields. Returns `None` for null,
/// and for a blank text, which has no meaning and which providers refuse.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => Some(text.clone()),
        other => Some(sorted(other).to_string()),
    }
}

/// Sorts the fields of all objects by name, because a `Map` may keep another order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().map(|(name, field)| (name.clone(), sorted(field))).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(fields.into_iter().collect())
        }
        plain => plain.clone(),
    }
}
