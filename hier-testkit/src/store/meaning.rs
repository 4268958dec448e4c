//! Cases about semantic search.

use hier_core::async_trait;
use serde_json::json;

use super::Subject;
use super::kit::{CaseResult, cases, holds, invalid, keys, keys_of, object, same};
use hier_core::store::{Embedder, Index, Op, Search, StoreError, StoreExt, StoreOptions};

cases! { super::Case, "meaning", options;
    the_nearest_come_first,
    the_best_field_counts,
    items_without_vectors_follow,
    filters_and_pages_hold,
    equally_near_items_keep_their_order,
    an_item_can_be_left_out_of_the_index,
    an_item_can_name_its_own_fields,
    putting_again_replaces_the_vectors,
    a_text_that_cannot_be_embedded_stores_nothing,
}

/// An embedder that counts letters. Texts with the same letters are similar.
struct Letters;

#[async_trait]
impl Embedder for Letters {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, StoreError> {
        let vectors = texts.iter().map(|text| match text.as_str() {
            "unembeddable" => Err(StoreError::Embedding("the model refuses it".to_owned())),
            text => Ok(vector(text)),
        });
        vectors.collect()
    }
}

fn vector(text: &str) -> Vec<f32> {
    let mut counts = vec![0.0; 26];
    for letter in text.bytes().filter(u8::is_ascii_lowercase) {
        counts[usize::from(letter - b'a')] += 1.0;
    }
    counts
}

fn options() -> Result<StoreOptions, StoreError> {
    StoreOptions::default().index(Letters, ["text", "notes[*].said"])
}

async fn put(store: &Subject, texts: &[(&str, &str)]) -> CaseResult {
    for (key, text) in texts {
        store.put(["a"], *key, &json!({ "text": text, "long": text.len() > 3 })).await?;
    }
    Ok(())
}

async fn the_nearest_come_first(store: Subject) -> CaseResult {
    put(&store, &[("other", "xyz"), ("half", "abxy"), ("same", "ab")]).await?;
    let found = store.search(Search::below(["a"]).near("ab")).await?;
    same("the order", &keys_of(&found), &vec!["same", "half", "other"])?;
    let scores: Vec<_> = found.iter().map(|item| item.score.unwrap_or(f64::NAN)).collect();
    holds(&format!("the scores are 1, √½ and 0, not {scores:?}"), {
        (scores[0] - 1.0).abs() < 1e-6 && (scores[1] - 0.5_f64.sqrt()).abs() < 1e-6 && scores[2].abs() < 1e-6
    })?;
    let plain = store.search(Search::below(["a"])).await?;
    holds("without a text there are no scores", plain.iter().all(|item| item.score.is_none()))
}

async fn the_best_field_counts(store: Subject) -> CaseResult {
    store.put(["a"], "near", &json!({ "text": "zzz", "notes": [{ "said": "q" }, { "said": "fig" }] })).await?;
    store.put(["a"], "far", &json!({ "text": "figz", "notes": [] })).await?;
    let found = store.search(Search::below(["a"]).near("fig")).await?;
    same("the order", &keys_of(&found), &vec!["near", "far"])?;
    same("an item is found once", &found.len(), &2)
}

async fn items_without_vectors_follow(store: Subject) -> CaseResult {
    store.put(["a"], "blank", &json!({ "other": "fig" })).await?;
    put(&store, &[("far", "zzz"), ("near", "fig")]).await?;
    let found = store.search(Search::below(["a"]).near("fig")).await?;
    same("the order", &keys_of(&found), &vec!["near", "far", "blank"])?;
    same("the score of an item without a vector", &found[2].score, &None)?;
    same("with room for two", &keys(&store, Search::below(["a"]).near("fig").limit(2)).await?.len(), &2)
}

async fn filters_and_pages_hold(store: Subject) -> CaseResult {
    store.put(["a"], "blank", &json!({ "long": true })).await?;
    put(&store, &[("1", "fig"), ("2", "figs"), ("3", "figsx"), ("4", "figsxy"), ("5", "figsxyz")]).await?;
    store.put(["b"], "elsewhere", &json!({ "text": "fig", "long": true })).await?;
    let search = || Search::below(["a"]).near("fig").filter("long", true);
    let all = ["2", "3", "4", "5", "blank"].map(str::to_owned).to_vec();
    same("all", &keys(&store, search()).await?, &all)?;
    let mut pages = Vec::new();
    for page in 0..3 {
        pages.extend(keys(&store, search().limit(2).offset(page * 2)).await?);
    }
    same("the pages together", &pages, &all)
}

async fn equally_near_items_keep_their_order(store: Subject) -> CaseResult {
    put(&store, &[("c", "fig"), ("a", "fig"), ("b", "fig")]).await?;
    same(
        "the order",
        &keys(&store, Search::below(["a"]).near("fig")).await?,
        &["c", "a", "b"].map(str::to_owned).to_vec(),
    )
}

async fn put_with(store: &Subject, key: &str, value: serde_json::Value, index: Index) -> Result<(), StoreError> {
    let (namespace, key) = (vec!["a".to_owned()], key.to_owned());
    store
        .batch(vec![Op::Put { namespace, key, value: Some(object(&value)), index, time_to_live: None }])
        .await
        .map(|_| ())
}

async fn an_item_can_be_left_out_of_the_index(store: Subject) -> CaseResult {
    put_with(&store, "hidden", json!({ "text": "fig" }), Index::None).await?;
    put(&store, &[("far", "zzz")]).await?;
    let found = store.search(Search::below(["a"]).near("fig")).await?;
    same("the order", &keys_of(&found), &vec!["far", "hidden"])?;
    same("its score", &found[1].score, &None)
}

async fn an_item_can_name_its_own_fields(store: Subject) -> CaseResult {
    let value = json!({ "text": "zzz", "who": { "said": [["fig"], ["q"]] }, "x": "f", "y": { "z": "i" } });
    for (key, path, score) in [
        ("first", "who.said[0][*]", 1.0),
        ("last", "who.said[-1][0]", 0.0),
        ("any", "who.*[*][*]", 1.0),
        ("beyond", "who.said[7]", f64::NAN),
        ("several", "{x, y.z}", 1.0 / 3.0_f64.sqrt()),
        ("nowhere", "text.deeper", f64::NAN),
    ] {
        put_with(&store, "k", value.clone(), Index::Fields(vec![path.to_owned()])).await?;
        let found = store.search(Search::below(["a"]).near("fig")).await?;
        let near = found[0].score.unwrap_or(f64::NAN);
        let right = (near - score).abs() < 1e-6 || (near.is_nan() && score.is_nan());
        holds(&format!("the score of {key} is {score}, not {near}"), right)?;
    }
    for path in ["a..b", "a[", "a[x]", "{a", "a.", "[0]x", "{a,{b}}"] {
        let put = put_with(&store, "k", value.clone(), Index::Fields(vec![path.to_owned()])).await;
        invalid(&format!("the path {path}"), &put)?;
    }
    invalid("no path at all", &put_with(&store, "k", value, Index::Fields(vec![])).await)
}

async fn putting_again_replaces_the_vectors(store: Subject) -> CaseResult {
    put(&store, &[("k", "fig"), ("k", "zzz")]).await?;
    let found = store.search(Search::below(["a"]).near("fig")).await?;
    same("how many there are", &found.len(), &1)?;
    same("the score", &found[0].score, &Some(0.0))
}

async fn a_text_that_cannot_be_embedded_stores_nothing(store: Subject) -> CaseResult {
    let refused = store.put(["a"], "k", &json!({ "text": "unembeddable" })).await;
    holds("the embedder's error comes back", matches!(refused, Err(StoreError::Embedding(_))))?;
    same("the item", &store.get(["a"], "k").await?, &None)?;
    let refused = store.search(Search::below(["a"]).near("unembeddable")).await;
    holds("the embedder's error comes back", matches!(refused, Err(StoreError::Embedding(_))))
}
