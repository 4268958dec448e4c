//! The foreign crates in the public API of a crate. Their breaking versions are breaking for ours.
//!
//! It reads rustdoc's JSON, which has no private or hidden items. An item's own part of it
//! is nested deeper than `serde_json` reads, so it is searched as text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use serde_json::value::RawValue;

/// The crates that come with the compiler.
const STANDARD: &[&str] = &["alloc", "core", "proc_macro", "std"];

/// The named items of each crate, each with the first place that names it.
pub type Foreign = BTreeMap<String, BTreeMap<String, String>>;

type Fields = BTreeMap<String, Box<RawValue>>;

/// Returns the foreign crates in the documentation of a crate.
///
/// # Errors
///
/// If it is not rustdoc's JSON.
pub fn foreign(documentation: &str) -> Result<Foreign, String> {
    let documentation: Fields = serde_json::from_str(documentation).map_err(|error| error.to_string())?;
    let field = |name: &str| documentation.get(name).ok_or_else(|| format!("the documentation has no `{name}`"));
    let read = |name: &str| serde_json::from_str::<Value>(field(name)?.get()).map_err(|error| error.to_string());
    let (paths, crates) = (read("paths")?, read("external_crates")?);
    let items: Fields = serde_json::from_str(field("index")?.get()).map_err(|error| error.to_string())?;
    let mut found = Foreign::new();
    for item in items.values() {
        let item: Fields = serde_json::from_str(item.get()).map_err(|error| error.to_string())?;
        let text = |name: &str| item.get(name).map_or("null", |field| field.get());
        // Items of other crates are in it, too, where their docs are shown here.
        if text("crate_id") != "0" || is_made_by_the_compiler(text("inner")) {
            continue;
        }
        for path in mentions(text("inner")).iter().filter_map(|id| paths.get(id)) {
            let name = crates[path["crate_id"].to_string()]["name"].as_str();
            let Some(name) = name.filter(|name| !STANDARD.contains(name)) else { continue };
            let parts: Vec<&str> = path["path"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let place = place(text("span"));
            let first = found.entry(name.to_owned()).or_default().entry(parts.join("::")).or_insert(place.clone());
            if place < *first {
                *first = place;
            }
        }
    }
    Ok(found)
}

/// Returns true for generated items: auto traits and blanket implementations of others.
fn is_made_by_the_compiler(inner: &str) -> bool {
    inner.starts_with("{\"impl\":") && (inner.contains("\"is_synthetic\":true") || inner.contains("\"blanket_impl\":{"))
}

/// The ids of the items that an item names. In a text that is quoted, no quotation mark stands before a colon without a backslash.
fn mentions(inner: &str) -> BTreeSet<&str> {
    let ids = inner.split("\"id\":").skip(1);
    ids.map(|rest| &rest[..rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len())]).collect()
}

fn place(span: &str) -> String {
    let span: Value = serde_json::from_str(span).unwrap_or_default();
    match (span["filename"].as_str(), span["begin"][0].as_u64()) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => "(what a macro wrote)".to_owned(),
    }
}

/// Returns the differences between the found crates and the allowed ones, one line each, with the fix.
pub fn differences(ours: &str, found: &Foreign, allowed: &[(&str, &str)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, items) in found {
        if !allowed.iter().any(|(allowed, _)| allowed == name) {
            for (item, place) in items {
                lines
                    .push(format!("{place}: `{item}` is in the public API of `{ours}`: hide it behind a type of ours"));
            }
        }
    }
    for (name, _) in allowed {
        if !found.contains_key(*name) {
            lines.push(format!("`{name}` is no longer in the public API of `{ours}`: take it out of the list"));
        }
    }
    lines
}
