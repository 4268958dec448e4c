use std::time::{Duration, Instant};

use serde_json::json;

use super::Subject;
use super::kit::{CaseResult, cases, holds, keys, plain, same, some};
use hier_core::store::{Op, OpResult, Search, StoreError, StoreExt};

cases! { super::Case, "lifetime", plain;
    expired_items_are_gone_at_once,
    a_sweep_counts_the_deleted_items,
    reading_starts_the_time_anew,
    searching_starts_the_time_anew,
    putting_again_replaces_the_time,
    an_expired_item_is_created_anew,
    very_long_times_never_expire,
}

/// A short time to live that is long enough for the reads of a slow machine.
pub(super) const SHORT: Duration = Duration::from_millis(600);

async fn get(store: &Subject, key: &str, refresh: bool) -> Result<bool, StoreError> {
    let get = Op::Get { namespace: vec!["a".to_owned()], key: key.to_owned(), refresh: Some(refresh) };
    Ok(matches!(store.batch(vec![get]).await?.as_slice(), [OpResult::Item(Some(_))]))
}

async fn expired_items_are_gone_at_once(store: Subject) -> CaseResult {
    store.put_for(["a"], "k", &json!({}), Duration::ZERO).await?;
    same("the item", &store.get(["a"], "k").await?, &None)?;
    same("the search results", &keys(&store, Search::below(["a"])).await?, &vec![])
}

async fn a_sweep_counts_the_deleted_items(store: Subject) -> CaseResult {
    store.put_for(["a"], "gone", &json!({}), Duration::ZERO).await?;
    store.put_for(["b"], "gone", &json!({}), Duration::ZERO).await?;
    store.put_for(["a"], "later", &json!({}), Duration::from_hours(1)).await?;
    store.put(["a"], "never", &json!({})).await?;
    same("the items deleted by the first sweep", &store.sweep().await?, &2)?;
    same("the items deleted by the second sweep", &store.sweep().await?, &0)?;
    same(
        "the remaining keys",
        &keys(&store, Search::below(["a"])).await?,
        &vec!["later".to_owned(), "never".to_owned()],
    )
}

/// Reads `kept` until `lost`, which was put at the same time, has expired. Then `kept` must still exist.
pub(super) async fn outlives(store: &Subject, read: Op) -> CaseResult {
    for _ in 0..20 {
        let (mut last, mut in_time) = (Instant::now(), true);
        store.put_for(["a"], "kept", &json!({ "kept": true }), SHORT).await?;
        store.put_for(["a"], "lost", &json!({ "kept": false }), SHORT).await?;
        while get(store, "lost", false).await? {
            store.batch(vec![read.clone()]).await?;
            in_time &= last.elapsed() < SHORT / 2;
            last = Instant::now();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let is_kept = get(store, "kept", false).await?;
        // The attempt does not count if the machine paused for so long that the item had to expire.
        if is_kept || (in_time && last.elapsed() < SHORT / 2) {
            return holds("what was read lives on", is_kept);
        }
    }
    holds("it is read in time", false)
}

async fn reading_starts_the_time_anew(store: Subject) -> CaseResult {
    outlives(&store, Op::Get { namespace: vec!["a".to_owned()], key: "kept".to_owned(), refresh: None }).await
}

async fn searching_starts_the_time_anew(store: Subject) -> CaseResult {
    outlives(&store, Op::Search(Search::below(["a"]).filter("kept", true))).await
}

async fn putting_again_replaces_the_time(store: Subject) -> CaseResult {
    store.put_for(["a"], "k", &json!({}), Duration::from_hours(1)).await?;
    store.put_for(["a"], "k", &json!({}), Duration::ZERO).await?;
    same("a time that has become short", &store.get(["a"], "k").await?, &None)?;
    store.put_for(["a"], "k", &json!({}), SHORT).await?;
    store.put_for(["a"], "other", &json!({}), SHORT).await?;
    store.put(["a"], "k", &json!({})).await?;
    while get(&store, "other", false).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    some("an item without a time", store.get(["a"], "k").await?).map(|_| ())
}

async fn an_expired_item_is_created_anew(store: Subject) -> CaseResult {
    store.put(["a"], "first", &json!({})).await?;
    store.put_for(["a"], "k", &json!({ "old": 1 }), Duration::ZERO).await?;
    store.put(["a"], "second", &json!({})).await?;
    store.put(["a"], "k", &json!({})).await?;
    let item = some("the item", store.get(["a"], "k").await?)?;
    same("its times", &item.created_at, &item.updated_at)?;
    same("the order", &keys(&store, Search::below(["a"])).await?, &["first", "second", "k"].map(str::to_owned).to_vec())
}

async fn very_long_times_never_expire(store: Subject) -> CaseResult {
    store.put_for(["a"], "k", &json!({}), Duration::MAX).await?;
    some("the item", store.get(["a"], "k").await?)?;
    same("the items deleted by a sweep", &store.sweep().await?, &0)
}
