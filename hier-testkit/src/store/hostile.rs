//! Cases about malicious keys, labels, values and filters.

use serde_json::{Value, json};

use super::Subject;
use super::kit::{CaseResult, cases, holds, invalid, keys, object, plain, same, some};
use hier_core::checkpoint::LONGEST_NAME;
use hier_core::store::{Namespaces, Search, StoreExt};

cases! { super::Case, "hostile", plain;
    any_text_is_a_key,
    any_text_without_a_period_is_a_label,
    wildcards_stand_for_nothing_in_a_search,
    any_text_can_be_filtered_by,
    values_that_are_too_deep_are_refused,
    long_texts_come_back,
    keys_that_are_too_long_for_an_index_are_refused,
}

const TEXTS: [&str; 14] = [
    "'; drop table store_items; --",
    "\" or 1=1 --",
    "%",
    "_",
    "*",
    "\\",
    "\\0",
    "$1",
    "{s}",
    "ünïcödé \u{1F600}",
    "\u{202e}",
    "a/b",
    "line\nbreak",
    " ",
];

async fn any_text_is_a_key(store: Subject) -> CaseResult {
    let all = TEXTS.iter().copied().chain(["", "\0", "a.b", "..", "\0\\0"]);
    for (number, key) in all.clone().enumerate() {
        store.put(["a"], key, &json!({ "n": number })).await?;
    }
    for (number, key) in all.enumerate() {
        let item = some(&format!("the item of key {key:?}"), store.get(["a"], key).await?)?;
        same("its key", &item.key.as_str(), &key)?;
        same("its value", &item.value, &object(&json!({ "n": number })))?;
    }
    Ok(())
}

async fn any_text_without_a_period_is_a_label(store: Subject) -> CaseResult {
    for label in TEXTS {
        store.put([label, label], "k", &json!({ "label": label })).await?;
    }
    for label in TEXTS {
        let found = store.search(Search::below([label])).await?;
        same(&format!("how many there are below {label:?}"), &found.len(), &1)?;
        same("the namespace", &found[0].namespace, &vec![label.to_owned(), label.to_owned()])?;
    }
    same("how many namespaces there are", &store.namespaces(Namespaces::below([""; 0])).await?.len(), &TEXTS.len())
}

async fn wildcards_stand_for_nothing_in_a_search(store: Subject) -> CaseResult {
    store.put(["abc"], "k", &json!({})).await?;
    for prefix in ["%", "a%", "_bc", "*", "ab", "abc\u{10ffff}"] {
        same(&format!("the keys below {prefix:?}"), &keys(&store, Search::below([prefix])).await?, &vec![])?;
    }
    Ok(())
}

async fn any_text_can_be_filtered_by(store: Subject) -> CaseResult {
    for text in TEXTS {
        store.put(["a"], text, &Value::Object([(format!("{text}f"), json!(text))].into_iter().collect())).await?;
    }
    for text in TEXTS.into_iter().filter(|text| !text.starts_with('$')) {
        let field = format!("{text}f");
        same(
            "found by the value",
            &keys(&store, Search::below(["a"]).filter(&field, text)).await?,
            &vec![text.to_owned()],
        )?;
        let equal = json!({ "$eq": text });
        same(
            "found by `$eq`",
            &keys(&store, Search::below(["a"]).filter(&field, equal)).await?,
            &vec![text.to_owned()],
        )?;
        invalid(
            "as an operator",
            &store.search(Search::below(["a"]).filter(field, json!({ format!("${text}"): 1 }))).await,
        )?;
    }
    Ok(())
}

fn nested(levels: usize, with: fn(Value) -> Value) -> Value {
    (0..levels).fold(json!(1), |inner, _| with(inner))
}

async fn values_that_are_too_deep_are_refused(store: Subject) -> CaseResult {
    for with in [|inner| json!([inner]), |inner| json!({ "in": inner })] {
        let fits = json!({ "f": nested(100, with) });
        store.put(["a"], "k", &fits).await?;
        let item = some("the item", store.get(["a"], "k").await?)?;
        holds("a deep value comes back", item.value == object(&fits))?;
        invalid("a deeper value", &store.put(["a"], "k", &json!({ "f": nested(101, with) })).await)?;
        let search = Search::below(["a"]).filter("f", nested(1_000, with));
        invalid("a deeper filter", &store.search(search).await)?;
    }
    Ok(())
}

async fn long_texts_come_back(store: Subject) -> CaseResult {
    let long = "x\0".repeat(800);
    let value = json!({ "text": "y".repeat(300_000) });
    store.put(["a", "b".repeat(300).as_str()], &long, &value).await?;
    let item = some("the item", store.get(["a", "b".repeat(300).as_str()], &long).await?)?;
    holds("the value comes back", item.value == object(&value))
}

/// Returns an incompressible text of this length.
fn noise(bytes: usize) -> String {
    let mut state = 1_u64;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + u8::try_from((state >> 33) % 75).unwrap_or_default())
    };
    (0..bytes).map(letter).collect::<String>().replace(['.', '\\'], "_")
}

async fn keys_that_are_too_long_for_an_index_are_refused(store: Subject) -> CaseResult {
    let value = json!({ "a": 1 });
    for bytes in [1_024, LONGEST_NAME] {
        let text = noise(bytes);
        store.put(["a"], &text, &value).await?;
        holds("a long key is found", store.get(["a"], &text).await?.is_some())?;
        store.put([text.as_str()], "k", &value).await?;
        holds("a long label is found", store.get([text.as_str()], "k").await?.is_some())?;
        let (first, second) = text.split_at(bytes / 2);
        store.put([first, &second[1..]], "k", &value).await?;
        same("the items found below the prefix", &store.search(Search::below([first])).await?.len(), &1)?;
        store.delete(["a"], &text).await?;
    }
    let escaped = "\u{1}".repeat(LONGEST_NAME / 2);
    store.put(["a"], &escaped, &value).await?;
    for text in [noise(LONGEST_NAME + 1), "x".repeat(100_000), format!("{escaped}\u{1}")] {
        invalid("a key is refused", &store.put(["a"], &text, &value).await)?;
        invalid("a label is refused", &store.put([text.as_str()], "k", &value).await)?;
        invalid("reading is refused, too", &store.get(["a"], &text).await)?;
    }
    let (first, second) = (noise(LONGEST_NAME / 2), noise(LONGEST_NAME / 2));
    invalid("labels count together", &store.put([first.as_str(), &second], "k", &value).await)
}
