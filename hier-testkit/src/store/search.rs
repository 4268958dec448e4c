//! Cases about search without filters: prefixes, order and pages.

use serde_json::json;

use super::Subject;
use super::kit::{CaseResult, cases, invalid, keys, plain, put, same};
use hier_core::store::{Search, StoreExt, TOOL_TEXTS};

cases! { super::Case, "search", plain;
    a_prefix_matches_whole_labels,
    an_empty_prefix_matches_everything,
    an_empty_prefix_omits_the_texts_of_tools,
    items_are_ordered_by_creation,
    pages_fit_together,
    more_than_one_page_of_rows,
    semantic_search_requires_an_index,
}

async fn fill(store: &Subject) -> CaseResult {
    let ops = vec![
        put(&["b", "x"], "1", &json!({})),
        put(&["a"], "2", &json!({})),
        put(&["b"], "3", &json!({})),
        put(&["bb"], "4", &json!({})),
        put(&["b", "x"], "5", &json!({})),
        put(&["b", "x", "y"], "6", &json!({})),
        put(&["b", "xx"], "7", &json!({})),
    ];
    store.batch(ops).await?;
    Ok(())
}

async fn a_prefix_matches_whole_labels(store: Subject) -> CaseResult {
    fill(&store).await?;
    same(
        "below `b`",
        &keys(&store, Search::below(["b"])).await?,
        &["1", "5", "3", "6", "7"].map(str::to_owned).to_vec(),
    )?;
    same("below `b.x`", &keys(&store, Search::below(["b", "x"])).await?, &["1", "5", "6"].map(str::to_owned).to_vec())?;
    same("below `x`", &keys(&store, Search::below(["x"])).await?, &vec![])
}

async fn an_empty_prefix_matches_everything(store: Subject) -> CaseResult {
    fill(&store).await?;
    let found = keys(&store, Search::below([""; 0])).await?;
    same("everything", &found, &["1", "5", "2", "3", "4", "6", "7"].map(str::to_owned).to_vec())
}

async fn an_empty_prefix_omits_the_texts_of_tools(store: Subject) -> CaseResult {
    store.batch(vec![put(&TOOL_TEXTS, "tool", &json!({})), put(&["a"], "1", &json!({}))]).await?;
    same("everything", &keys(&store, Search::below([""; 0])).await?, &vec!["1".to_owned()])?;
    same("the tools", &keys(&store, Search::below(TOOL_TEXTS)).await?, &vec!["tool".to_owned()])?;
    same("below `hier`", &keys(&store, Search::below(["hier"])).await?, &vec!["tool".to_owned()])
}

async fn items_are_ordered_by_creation(store: Subject) -> CaseResult {
    for key in ["c", "a", "b"] {
        store.put(["a"], key, &json!({})).await?;
    }
    // A second put keeps the position. Deleting and putting changes it.
    store.put(["a"], "c", &json!({ "n": 2 })).await?;
    store.delete(["a"], "a").await?;
    store.put(["a"], "a", &json!({})).await?;
    same("the order", &keys(&store, Search::below(["a"])).await?, &["c", "b", "a"].map(str::to_owned).to_vec())
}

async fn pages_fit_together(store: Subject) -> CaseResult {
    fill(&store).await?;
    let all = keys(&store, Search::below([""; 0])).await?;
    let mut found = Vec::new();
    for page in 0..4 {
        found.extend(keys(&store, Search::below([""; 0]).limit(2).offset(page * 2)).await?);
    }
    same("the pages together", &found, &all)?;
    same("a page of nothing", &keys(&store, Search::below([""; 0]).limit(0)).await?, &vec![])?;
    let beyond = Search::below([""; 0]).offset(usize::MAX).limit(usize::MAX);
    same("a page behind the end", &keys(&store, beyond).await?, &vec![])
}

async fn more_than_one_page_of_rows(store: Subject) -> CaseResult {
    let ops = (0..2_500).map(|n| put(&["many", &format!("{}", n % 7)], &format!("{n}"), &json!({ "n": n }))).collect();
    store.batch(ops).await?;
    let all = store.search(Search::below(["many"]).limit(usize::MAX)).await?;
    same("how many there are", &all.len(), &2_500)?;
    let last = Search::below(["many"]).filter("n", json!({ "$gte": 2_498 })).limit(5);
    same("the last of them", &keys(&store, last).await?, &["2499".to_owned(), "2498".to_owned()].to_vec())
}

async fn semantic_search_requires_an_index(store: Subject) -> CaseResult {
    invalid("a search by meaning", &store.search(Search::below(["a"]).near("figs")).await)
}
