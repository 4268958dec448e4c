//! Removals and changes in the public API of a crate since another version, which may break programs.
//!
//! It compares the JSON of rustdoc for both, item by item, as users name them. It does not see that an item is implemented
//! for fewer types by a blanket implementation, or changes of behaviour.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Auto traits of the compiler's own, which no program can name.
const INTERNAL: &[&str] = &["Freeze", "UnsafeUnpin"];

type Fields = BTreeMap<String, Box<RawValue>>;

/// An item as users see it.
struct Item {
    /// Its kind, types and generics, without nested items.
    shape: Value,
    /// True if additions next to it break nothing: a variant, a field, a method of a trait.
    may_come: bool,
}

/// The items of a version, by their paths.
type Surface = BTreeMap<String, Item>;

/// Returns the breaking changes between the documentation of two versions, one line each.
///
/// # Errors
///
/// If one of them is not rustdoc's JSON.
pub fn breaks(old: &str, new: &str) -> Result<Vec<String>, String> {
    let (old, new) = (surface(old)?, surface(new)?);
    let mut lines = Vec::new();
    for (path, item) in &old {
        match new.get(path) {
            // It was reported with its parent.
            None if whole(path).is_some_and(|it| old.contains_key(it) && !new.contains_key(it)) => {}
            None => lines.push(format!("gone: {path}")),
            Some(now) if now.shape != item.shape => {
                lines.push(format!("changed: {path}\n    {}\n    {}", item.shape, now.shape));
            }
            Some(_) => {}
        }
    }
    for (path, _) in new.iter().filter(|(path, item)| !item.may_come && !old.contains_key(*path)) {
        if whole(path).is_some_and(|it| old.contains_key(it)) {
            lines.push(format!("new, where there was all: {path}"));
        }
    }
    Ok(lines)
}

/// The path of what an item is a part of.
fn whole(path: &str) -> Option<&str> {
    let (whole, _) = path.split_once("::impl ").or_else(|| path.rsplit_once("::"))?;
    Some(whole)
}

fn surface(documentation: &str) -> Result<Surface, String> {
    let documentation: Fields = serde_json::from_str(documentation).map_err(|error| error.to_string())?;
    let field = |name: &str| documentation.get(name).ok_or_else(|| format!("the documentation has no `{name}`"));
    let items: Fields = serde_json::from_str(field("index")?.get()).map_err(|error| error.to_string())?;
    let mut reader = Reader { items, found: Surface::new() };
    reader.read(field("root")?.get(), None, true);
    Ok(reader.found)
}

struct Reader {
    items: Fields,
    found: Surface,
}

impl Reader {
    /// Adds an item with its contents, under `path` or else its own name.
    fn read(&mut self, id: &str, path: Option<&str>, may_come: bool) {
        let Some(item) = self.items.get(id).and_then(|item| serde_json::from_str::<Fields>(item.get()).ok()) else {
            return;
        };
        let of = |name: &str| item.get(name).and_then(|field| serde_json::from_str::<Value>(field.get()).ok());
        let (Some(mut inner), name) = (of("inner"), of("name")) else { return };
        if of("crate_id") != Some(0.into()) {
            return;
        }
        let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
        let path = path.map_or_else(|| name.to_owned(), |path| format!("{path}::{name}"));
        let Some((kind, inner)) = inner.as_object_mut().and_then(|inner| inner.iter_mut().next()) else { return };
        let open = of("attrs").is_some_and(|attributes| attributes.to_string().contains("non_exhaustive"));
        match &**kind {
            "module" => return self.each(&inner["items"], &path, true),
            "use" => return self.import(inner, &path),
            _ => {}
        }
        let mut part = |pointer: &str| inner.pointer_mut(pointer).map(Value::take).unwrap_or_default();
        let fields = ["/kind/plain/fields", "/kind/struct/fields", "/kind/tuple", "/fields"].map(&mut part);
        let fields: Vec<Value> = fields.iter().filter_map(Value::as_array).flatten().cloned().collect();
        let stripped = ["/kind/plain/has_stripped_fields", "/kind/struct/has_stripped_fields", "/has_stripped_fields"];
        let stripped = stripped.map(&mut part).contains(&Value::Bool(true)) || fields.contains(&Value::Null);
        let (variants, methods, impls) = (part("/variants"), part("/items"), part("/impls"));
        part("/implementations");
        let has_body = part("/has_body") == true;
        // In a trait a method with a body may come; in an implementation each may.
        let may_come = may_come || has_body;
        let shape = serde_json::json!([kind, without_ids(inner.take())]);
        if !path.is_empty() {
            self.found.insert(path.clone(), Item { shape, may_come });
        }
        self.each(&Value::Array(fields), &path, open || stripped);
        self.each(&variants, &path, open);
        self.each(&methods, &path, false);
        self.implementations(&impls, &path);
    }

    fn each(&mut self, ids: &Value, path: &str, may_come: bool) {
        for id in ids.as_array().into_iter().flatten().filter(|id| !id.is_null()) {
            self.read(&id.to_string(), Some(path), may_come);
        }
    }

    /// Adds an imported item at the place of the import. `path` ends with the import's own name, which is empty.
    fn import(&mut self, import: &Value, path: &str) {
        let around = path.strip_suffix("::").unwrap_or(path);
        let (id, name) = (import["id"].to_string(), import["name"].as_str().unwrap_or_default());
        let is_glob = import["is_glob"] == true;
        let before = std::mem::take(&mut self.found);
        self.read(&id, Some(around), true);
        let read = std::mem::replace(&mut self.found, before);
        if read.is_empty() {
            // An item of another crate.
            let shape = serde_json::json!(["use", import["source"]]);
            self.found.insert(format!("{around}::{name}"), Item { shape, may_come: true });
        }
        // Under the name that it has here: the module's own parts, if all of it is imported.
        for (path, item) in read {
            let rest = path[around.len()..].trim_start_matches("::");
            let rest = rest.split_once("::").map_or("", |(_, rest)| rest);
            let name = if is_glob { "" } else { name };
            let parts = [around, name, rest];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            self.found.insert(parts.join("::"), item);
        }
    }

    /// Inherent ones are part of the type. Of a trait's items, only their existence counts.
    fn implementations(&mut self, ids: &Value, path: &str) {
        for id in ids.as_array().into_iter().flatten() {
            let item = self.items.get(&id.to_string()).map(|item| item.get());
            let Some(Ok(item)) = item.map(serde_json::from_str::<Fields>) else { continue };
            let inner = item.get("inner").and_then(|inner| serde_json::from_str::<Value>(inner.get()).ok());
            let Some(block) = inner.as_ref().map(|inner| &inner["impl"]) else { continue };
            let name = block["trait"]["path"].as_str();
            if block["blanket_impl"].is_object() || name.is_some_and(|name| INTERNAL.contains(&name)) {
                continue;
            }
            if block["trait"].is_null() {
                self.each(&block["items"], path, true);
            } else {
                let of = without_ids(block["trait"].clone());
                let shape = serde_json::json!([block["is_negative"], without_ids(block["generics"].clone())]);
                self.found.insert(format!("{path}::impl {of}"), Item { shape, may_come: true });
            }
        }
    }
}

/// Ids are other ones in each version.
fn without_ids(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("id");
            fields.values_mut().for_each(|field| *field = without_ids(field.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_ids(value.take())),
        _ => {}
    }
    value
}
