//! Cases about single items: put, get and delete.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Subject;
use super::kit::{CaseResult, cases, holds, invalid, object, plain, same, some};
use hier_core::store::StoreExt;

cases! { super::Case, "items", plain;
    put_values_can_be_read,
    a_put_replaces_the_whole_value,
    putting_again_keeps_the_time_of_making,
    deleted_items_are_gone,
    deleting_a_missing_item_is_accepted,
    equal_keys_of_different_namespaces_are_different_items,
    every_value_is_read_back_unchanged,
    types_of_the_callers_come_back,
    values_that_are_not_objects_are_refused,
}

async fn put_values_can_be_read(store: Subject) -> CaseResult {
    same("an item that was never put", &store.get(["users", "ada"], "food").await?, &None)?;
    store.put(["users", "ada"], "food", &json!({ "likes": "figs" })).await?;
    let item = some("the item", store.get(["users", "ada"], "food").await?)?;
    same("the namespace", &item.namespace, &vec!["users".to_owned(), "ada".to_owned()])?;
    same("the key", &item.key.as_str(), &"food")?;
    same("the value", &item.value, &object(&json!({ "likes": "figs" })))?;
    same("the score", &item.score, &None)?;
    same("a new item's times", &item.created_at, &item.updated_at)
}

async fn a_put_replaces_the_whole_value(store: Subject) -> CaseResult {
    store.put(["a"], "k", &json!({ "old": 1, "both": 1 })).await?;
    store.put(["a"], "k", &json!({ "both": 2 })).await?;
    let item = some("the item", store.get(["a"], "k").await?)?;
    same("the value", &item.value, &object(&json!({ "both": 2 })))
}

async fn putting_again_keeps_the_time_of_making(store: Subject) -> CaseResult {
    store.put(["a"], "k", &json!({ "n": 1 })).await?;
    let first = some("the item", store.get(["a"], "k").await?)?;
    // Two puts may get the same time from the clock. The loop repeats the put until the time differs.
    let mut second = first.clone();
    while second.updated_at == first.updated_at {
        store.put(["a"], "k", &json!({ "n": 2 })).await?;
        second = some("the item", store.get(["a"], "k").await?)?;
    }
    same("the time of making", &second.created_at, &first.created_at)?;
    holds("the time of the last put grows", second.updated_at > first.updated_at)
}

async fn deleted_items_are_gone(store: Subject) -> CaseResult {
    store.put(["a"], "k", &json!({ "n": 1 })).await?;
    store.put(["a"], "other", &json!({ "n": 1 })).await?;
    store.delete(["a"], "k").await?;
    same("a deleted item", &store.get(["a"], "k").await?, &None)?;
    some("the other item", store.get(["a"], "other").await?).map(|_| ())
}

async fn deleting_a_missing_item_is_accepted(store: Subject) -> CaseResult {
    store.delete(["nobody"], "nothing").await?;
    same("namespaces", &store.namespaces(hier_core::store::Namespaces::below([""; 0])).await?, &vec![])
}

async fn equal_keys_of_different_namespaces_are_different_items(store: Subject) -> CaseResult {
    let places: [&[&str]; 4] = [&["a"], &["a", "b"], &["b"], &["ab"]];
    for (number, place) in places.iter().enumerate() {
        store.put(place.iter().copied(), "k", &json!({ "n": number })).await?;
    }
    for (number, place) in places.iter().enumerate() {
        let item = some("the item", store.get(place.iter().copied(), "k").await?)?;
        same("the value", &item.value, &object(&json!({ "n": number })))?;
    }
    Ok(())
}

async fn every_value_is_read_back_unchanged(store: Subject) -> CaseResult {
    let value = json!({
        "": "an empty name", "a.b": 1, "$gt": { "$ref": "#" }, "nul\0": "\0", "text": "ä\u{1F600}\u{7F}\"\\'",
        "numbers": [0, -1, i64::MIN, u64::MAX, 0.1, 1e300, 5e-324, 1.0, 0.300_000_000_000_000_04],
        "null": null, "yes": true, "empty": [{}, [], ""], "nested": { "deep": [[[{ "er": [1] }]]] },
    });
    store.put(["a"], "k", &value).await?;
    let item = some("the item", store.get(["a"], "k").await?)?;
    same("the value", &item.value, &object(&value))
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Taste {
    likes: Vec<String>,
    stars: u8,
}

async fn types_of_the_callers_come_back(store: Subject) -> CaseResult {
    let taste = Taste { likes: vec!["figs".to_owned()], stars: 5 };
    store.put(["a"], "k", &taste).await?;
    same("the value", &store.get_as::<Taste>(["a"], "k").await?, &Some(taste))?;
    same("an item that is not there", &store.get_as::<Taste>(["a"], "other").await?, &None)?;
    store.put(["a"], "k", &json!({ "likes": "figs" })).await?;
    invalid("a value of another type", &store.get_as::<Taste>(["a"], "k").await)
}

async fn values_that_are_not_objects_are_refused(store: Subject) -> CaseResult {
    invalid("a list", &store.put(["a"], "k", &[1, 2]).await)?;
    invalid("a number", &store.put(["a"], "k", &1).await)?;
    invalid("nothing", &store.put(["a"], "k", &()).await)?;
    same("the item", &store.get(["a"], "k").await?, &None)
}
