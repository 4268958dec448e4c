use std::fmt::Debug;

use serde_json::{Map, Value};

use super::{ContractViolation, Subject};
pub(super) use crate::contract::{CaseResult, cases, holds, same, some};
use hier_core::store::{Index, Item, Op, Search, StoreError, StoreExt, StoreOptions};

/// The default configuration.
#[allow(clippy::unnecessary_wraps)] // others fail
pub(super) fn plain() -> Result<StoreOptions, StoreError> {
    Ok(StoreOptions::default())
}

/// Fails unless the request was refused as invalid.
pub(super) fn invalid<T: Debug>(what: &str, result: &Result<T, StoreError>) -> CaseResult {
    match result {
        Err(StoreError::Invalid(_)) => Ok(()),
        other => Err(ContractViolation(format!("{what}: {other:?} instead of `Invalid`"))),
    }
}

pub(super) fn put(namespace: &[&str], key: &str, value: &Value) -> Op {
    Op::Put {
        namespace: namespace.iter().map(|label| (*label).to_owned()).collect(),
        key: key.to_owned(),
        value: Some(object(value)),
        index: Index::Configured,
        time_to_live: None,
    }
}

pub(super) fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Returns the keys of the found items, in order.
pub(super) async fn keys(store: &Subject, search: Search) -> Result<Vec<String>, ContractViolation> {
    Ok(store.search(search).await?.into_iter().map(|item| item.key).collect())
}

pub(super) fn keys_of(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.key.as_str()).collect()
}
