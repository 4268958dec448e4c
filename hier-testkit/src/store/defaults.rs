//! Cases for a store with a short default time to live, which reads do not extend.

use std::time::Duration;

use serde_json::json;

use super::Subject;
use super::kit::{CaseResult, cases, holds, same, some};
use super::lifetime::{SHORT, outlives};
use hier_core::store::{Op, Search, StoreError, StoreExt, StoreOptions};

#[allow(clippy::unnecessary_wraps)] // other configurations can fail
fn options() -> Result<StoreOptions, StoreError> {
    Ok(StoreOptions::default().time_to_live(Duration::ZERO).refresh_on_read(false))
}

cases! { super::Case, "lifetime", options;
    items_live_as_long_as_the_store_is_configured,
    reads_leave_the_time_alone_if_configured,
}

async fn items_live_as_long_as_the_store_is_configured(store: Subject) -> CaseResult {
    store.put(["a"], "k", &json!({})).await?;
    same("an item without its own time", &store.get(["a"], "k").await?, &None)?;
    store.put_for(["a"], "k", &json!({}), Duration::from_hours(1)).await?;
    some("an item with its own time", store.get(["a"], "k").await?).map(|_| ())
}

async fn reads_leave_the_time_alone_if_configured(store: Subject) -> CaseResult {
    store.put_for(["a"], "k", &json!({}), SHORT).await?;
    let mut reads = 0;
    while store.get(["a"], "k").await?.is_some() {
        store.search(Search::below(["a"])).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        reads += 1;
        holds("the item expires though it is read", reads < 5_000)?;
    }
    // A read that requests a refresh extends the time to live.
    outlives(&store, Op::Get { namespace: vec!["a".to_owned()], key: "kept".to_owned(), refresh: Some(true) }).await
}
