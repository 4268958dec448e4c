use serde_json::{Value, json};

use super::Subject;
use super::kit::{CaseResult, cases, invalid, keys, plain, same};
use hier_core::store::{Search, StoreExt};

cases! { super::Case, "filters", plain;
    equal_values,
    operators,
    numbers_are_compared_by_value,
    objects_match_in_part,
    lists_match_item_by_item,
    missing_fields_count_as_null,
    incomparable_values_do_not_match,
    several_fields_must_all_match,
    unknown_operators_are_refused,
}

async fn finds(store: &Subject, value: Value, filter: Value) -> Result<bool, super::ContractViolation> {
    store.put(["filters"], "k", &json!({ "f": value })).await?;
    Ok(!store.search(Search::below(["filters"]).filter("f", filter)).await?.is_empty())
}

async fn all_as_said(store: &Subject, table: &[(Value, Value, bool)]) -> CaseResult {
    for (value, filter, wanted) in table {
        let found = finds(store, value.clone(), filter.clone()).await?;
        same(&format!("whether {value} is found with {filter}"), &found, wanted)?;
    }
    Ok(())
}

async fn equal_values(store: Subject) -> CaseResult {
    let table = [
        (json!("a"), json!("a"), true),
        (json!("a"), json!("A"), false),
        (json!(true), json!(true), true),
        (json!(true), json!(1), false),
        (json!("1"), json!(1), false),
        (json!(null), json!(null), true),
        (json!(null), json!(0), false),
    ];
    all_as_said(&store, &table).await
}

async fn operators(store: Subject) -> CaseResult {
    let table = [
        (json!(3), json!({ "$eq": 3 }), true),
        (json!(3), json!({ "$ne": 3 }), false),
        (json!(3), json!({ "$ne": 4 }), true),
        (json!(3), json!({ "$gt": 2 }), true),
        (json!(3), json!({ "$gt": 3 }), false),
        (json!(3), json!({ "$gte": 3 }), true),
        (json!(3), json!({ "$lt": 3 }), false),
        (json!(3), json!({ "$lt": 3.5 }), true),
        (json!(3), json!({ "$lte": 3 }), true),
        (json!(3), json!({ "$gt": 1, "$lt": 3 }), false),
        (json!(3), json!({ "$gt": 1, "$lt": 4 }), true),
        (json!("2026-11-21"), json!({ "$gte": "2026-11-20" }), true),
        (json!("2026-11-21"), json!({ "$lt": "2026-11-20" }), false),
        (json!({ "a": 1, "b": 2 }), json!({ "$eq": { "a": 1 } }), false),
    ];
    all_as_said(&store, &table).await
}

async fn numbers_are_compared_by_value(store: Subject) -> CaseResult {
    let table = [
        (json!(1), json!(1.0), true),
        (json!(-0.0), json!(0), true),
        (json!(u64::MAX), json!({ "$gt": u64::MAX - 1 }), true),
        (json!(u64::MAX), json!({ "$gt": i64::MIN }), true),
        (json!(9_007_199_254_740_993_i64), json!({ "$gt": 9_007_199_254_740_992_i64 }), true),
        (json!("10"), json!({ "$gt": "9" }), true),
        (json!(10), json!({ "$gt": "9.5" }), true),
        (json!([1, { "a": 2 }]), json!({ "$eq": [1.0, { "a": 2.0 }] }), true),
    ];
    all_as_said(&store, &table).await
}

async fn objects_match_in_part(store: Subject) -> CaseResult {
    let value = json!({ "a": 1, "b": { "c": 2, "d": 3 } });
    let table = [
        (value.clone(), json!({ "a": 1 }), true),
        (value.clone(), json!({ "b": { "d": 3 } }), true),
        (value.clone(), json!({ "b": { "d": { "$lt": 3 } } }), false),
        (value.clone(), json!({ "b": { "d": { "$lte": 3 } }, "a": 1 }), true),
        (value.clone(), json!({}), true),
        (json!(1), json!({}), false),
        (json!([1]), json!({ "0": 1 }), false),
    ];
    all_as_said(&store, &table).await
}

async fn lists_match_item_by_item(store: Subject) -> CaseResult {
    let table = [
        (json!([1, 2]), json!([1, 2]), true),
        (json!([1, 2]), json!([1]), false),
        (json!([1, 2]), json!([2, 1]), false),
        (json!([1, { "a": 1, "b": 2 }]), json!([{ "$gt": 0 }, { "a": 1 }]), true),
        (json!("12"), json!(["1", "2"]), false),
        (json!([]), json!([]), true),
    ];
    all_as_said(&store, &table).await
}

async fn missing_fields_count_as_null(store: Subject) -> CaseResult {
    store.put(["filters"], "k", &json!({ "f": { "a": 1 } })).await?;
    for (filter, wanted) in [
        (json!(null), true),
        (json!({ "$ne": 1 }), true),
        (json!({ "$eq": null }), true),
        (json!({ "$gt": 0 }), false),
        (json!({ "$lte": 0 }), false),
        (json!(1), false),
    ] {
        let found = keys(&store, Search::below(["filters"]).filter("missing", filter.clone())).await?;
        same(&format!("whether a missing field is as {filter}"), &!found.is_empty(), &wanted)?;
        let nested = Search::below(["filters"]).filter("f", json!({ "missing": filter.clone() }));
        same(
            &format!("whether a nested missing field is as {filter}"),
            &!keys(&store, nested).await?.is_empty(),
            &wanted,
        )?;
    }
    Ok(())
}

async fn incomparable_values_do_not_match(store: Subject) -> CaseResult {
    let table = [
        (json!("many"), json!({ "$gt": 1 }), false),
        (json!("many"), json!({ "$lte": 1 }), false),
        (json!(null), json!({ "$lt": 1 }), false),
        (json!(true), json!({ "$gte": 1 }), false),
        (json!([2]), json!({ "$gt": 1 }), false),
        (json!(5), json!({ "$gt": "a" }), false),
        (json!({ "a": 1 }), json!({ "$lt": "a" }), false),
    ];
    all_as_said(&store, &table).await
}

async fn several_fields_must_all_match(store: Subject) -> CaseResult {
    store.put(["a"], "k", &json!({ "x": 1, "y": 2 })).await?;
    let both = |y: i32| Search::below(["a"]).filter("x", 1).filter("y", y);
    same("both", &keys(&store, both(2)).await?, &vec!["k".to_owned()])?;
    same("one of them", &keys(&store, both(3)).await?, &vec![])
}

async fn unknown_operators_are_refused(store: Subject) -> CaseResult {
    for filter in [
        json!({ "$regex": ".*" }),
        json!({ "$gt": 1, "$or": [] }),
        json!({ "$gt": 1, "plain": 2 }),
        json!({ "a": { "$": 1 } }),
        json!([{ "$in": [1] }]),
        json!({ "$gt": null }),
        json!({ "$lt": [1] }),
        json!({ "$gte": true }),
    ] {
        invalid(&format!("{filter}"), &store.search(Search::below(["a"]).filter("f", filter.clone())).await)?;
    }
    Ok(())
}
