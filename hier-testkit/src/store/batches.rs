//! Cases about several operations in one call.

use serde_json::json;

use super::Subject;
use super::kit::{CaseResult, cases, holds, invalid, object, plain, put, same, some};
use hier_core::store::{Namespaces, Op, OpResult, Search, StoreExt};

cases! { super::Case, "batches", plain;
    results_come_in_the_order_of_the_operations,
    reads_see_the_state_before_the_writes,
    the_last_put_of_a_key_wins,
    a_delete_after_a_put_deletes,
    a_namespace_that_is_filled_again_keeps_its_place,
    an_empty_batch_does_nothing,
    one_invalid_operation_fails_the_batch,
    concurrent_batches_lose_nothing,
}

fn get(key: &str) -> Op {
    Op::Get { namespace: vec!["a".to_owned()], key: key.to_owned(), refresh: None }
}

async fn results_come_in_the_order_of_the_operations(store: Subject) -> CaseResult {
    store.put(["a"], "k", &json!({ "n": 1 })).await?;
    let ops = vec![
        put(&["a"], "x", &json!({})),
        get("k"),
        Op::Search(Search::below(["a"])),
        Op::Namespaces(Namespaces::below([""; 0])),
        get("nothing"),
    ];
    let results = store.batch(ops).await?;
    same("the number of results", &results.len(), &5)?;
    same("of the put", &results[0], &OpResult::Done)?;
    holds("the item is there", matches!(&results[1], OpResult::Item(Some(item)) if item.key == "k"))?;
    holds("the search finds it", matches!(&results[2], OpResult::Items(items) if items.len() == 1))?;
    same("the namespaces", &results[3], &OpResult::Namespaces(vec![vec!["a".to_owned()]]))?;
    same("the result of a missing item", &results[4], &OpResult::Item(None))
}

async fn reads_see_the_state_before_the_writes(store: Subject) -> CaseResult {
    store.put(["a"], "k", &json!({ "n": 1 })).await?;
    let ops = vec![put(&["a"], "k", &json!({ "n": 2 })), put(&["b"], "k", &json!({})), get("k"), {
        Op::Namespaces(Namespaces::below([""; 0]))
    }];
    let results = store.batch(ops).await?;
    let OpResult::Item(Some(item)) = &results[2] else { return holds("the item is there", false) };
    same("the value", &item.value, &object(&json!({ "n": 1 })))?;
    same("the namespaces", &results[3], &OpResult::Namespaces(vec![vec!["a".to_owned()]]))?;
    let item = some("the item", store.get(["a"], "k").await?)?;
    same("the value afterwards", &item.value, &object(&json!({ "n": 2 })))
}

async fn the_last_put_of_a_key_wins(store: Subject) -> CaseResult {
    let ops = (0..5).map(|n| put(&["a"], "k", &json!({ "n": n }))).collect();
    store.batch(ops).await?;
    let item = some("the item", store.get(["a"], "k").await?)?;
    same("the value", &item.value, &object(&json!({ "n": 4 })))
}

async fn a_delete_after_a_put_deletes(store: Subject) -> CaseResult {
    let Op::Put { namespace, key, index, time_to_live, .. } = put(&["a"], "k", &json!({})) else {
        return holds("a put is a put", false);
    };
    let delete = Op::Put { namespace, key, index, time_to_live, value: None };
    store.batch(vec![put(&["a"], "k", &json!({ "n": 1 })), delete.clone()]).await?;
    same("the item", &store.get(["a"], "k").await?, &None)?;
    store.batch(vec![delete, put(&["a"], "k", &json!({ "n": 2 }))]).await?;
    some("the item", store.get(["a"], "k").await?).map(|_| ())
}

async fn a_namespace_that_is_filled_again_keeps_its_place(store: Subject) -> CaseResult {
    store.put(["a"], "first", &json!({})).await?;
    store.put(["b"], "k", &json!({})).await?;
    let Op::Put { namespace, key, index, time_to_live, .. } = put(&["a"], "first", &json!({})) else {
        return holds("a put is a put", false);
    };
    let delete = Op::Put { namespace, key, index, time_to_live, value: None };
    store.batch(vec![delete, put(&["a"], "second", &json!({}))]).await?;
    let found = store.search(Search::below([""; 0])).await?;
    same("the keys", &found.iter().map(|item| item.key.as_str()).collect(), &vec!["second", "k"])
}

async fn an_empty_batch_does_nothing(store: Subject) -> CaseResult {
    same("the results", &store.batch(Vec::new()).await?, &vec![])
}

async fn one_invalid_operation_fails_the_batch(store: Subject) -> CaseResult {
    let ops = vec![put(&["a"], "k", &json!({ "n": 1 })), put(&["a.b"], "k", &json!({}))];
    invalid("a batch with a bad namespace", &store.batch(ops).await)?;
    same("the earlier item", &store.get(["a"], "k").await?, &None)
}

async fn concurrent_batches_lose_nothing(store: Subject) -> CaseResult {
    let mut running = tokio::task::JoinSet::new();
    for task in 0..8 {
        let store = store.clone();
        running.spawn(async move {
            for round in 0..10 {
                let key = format!("{task}-{round}");
                let shared = format!("{}", round % 3);
                let ops = vec![
                    put(&["shared", &shared], &key, &json!({ "n": 1 })),
                    put(&["one"], "same", &json!({ "of": key })),
                ];
                store.batch(ops).await?;
                if round % 2 == 1 {
                    store.delete(["shared", &shared], key).await?;
                }
            }
            Ok::<_, hier_core::store::StoreError>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| super::ContractViolation(error.to_string()))??;
    }
    let found = store.search(Search::below(["shared"]).limit(1_000)).await?;
    same("how many items are left", &found.len(), &40)?;
    same("how many there are of the shared key", &store.search(Search::below(["one"])).await?.len(), &1)
}
