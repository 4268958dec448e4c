//! Rules for namespaces and values.
//!
//! * A namespace has at least one label. A label is not empty and does not contain a period or NUL, because stores join
//!   labels with periods.
//! * The first label is not `hier`, which the framework reserves for the descriptions of tools.
//! * The prefix of a search follows the same rules for labels, but may be empty.
//! * A joined namespace and a key have at most [`LONGEST_NAME`] bytes each, because databases index them.
//! * A value is nested at most 100 levels deep, so that all JSON parsers can read it.

use serde_json::{Map, Value};

use super::StoreError;
use crate::checkpoint::{LONGEST_NAME, name_bytes};

/// The first label of the namespaces that the framework reserves.
const RESERVED: &str = "hier";
/// The namespace in which agents store tool descriptions for similarity searches.
pub const TOOL_TEXTS: [&str; 2] = [RESERVED, "tools"];
pub(super) const DEEPEST: usize = 100;

pub(super) fn check_namespace(namespace: &[String]) -> Result<(), StoreError> {
    if namespace.is_empty() {
        return invalid("the namespace is empty: give it at least one label, which names the owner of the item");
    }
    if namespace[0] == RESERVED && namespace != TOOL_TEXTS {
        return invalid(format!("namespaces below `{RESERVED}` belong to the framework: begin with another label"));
    }
    check_labels(namespace)
}

pub(super) fn check_key(key: &str) -> Result<(), StoreError> {
    check_length("a key", name_bytes(key))
}

fn check_length(what: &str, bytes: usize) -> Result<(), StoreError> {
    if bytes <= LONGEST_NAME {
        return Ok(());
    }
    invalid(format!("{what} has {bytes} bytes: give one of at most {LONGEST_NAME} (U+0000 and U+0001 count twice)"))
}

pub(super) fn check_labels(labels: &[String]) -> Result<(), StoreError> {
    let bytes = labels.iter().map(|label| name_bytes(label) + 1).sum::<usize>();
    check_length("a namespace with its periods", bytes.saturating_sub(1))?;
    for label in labels {
        if label.is_empty() {
            return invalid(format!("a label of namespace {labels:?} is empty: give it a name"));
        }
        if label.contains(['.', '\0']) {
            return invalid(format!("label {label:?} has a period or NUL: replace it, for example with `_`"));
        }
    }
    Ok(())
}

pub(super) fn check_value(value: &Map<String, Value>) -> Result<(), StoreError> {
    if value.values().all(|field| is_shallow(field, DEEPEST)) {
        return Ok(());
    }
    invalid(format!("the value is nested deeper than {DEEPEST} levels: store its inner parts as text"))
}

fn is_shallow(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_shallow(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| is_shallow(field, levels - 1)),
        _ => true,
    }
}

pub(super) fn invalid<T>(reason: impl Into<String>) -> Result<T, StoreError> {
    Err(StoreError::Invalid(reason.into()))
}
