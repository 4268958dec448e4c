use std::time::Duration;

use serde_json::json;

use super::Subject;
use super::kit::{CaseResult, cases, invalid, plain, same};
use hier_core::store::{Namespaces, Search, StoreExt};

cases! { super::Case, "namespaces", plain;
    they_come_in_the_order_of_their_labels,
    patterns_match_at_both_ends,
    a_depth_cuts_them,
    pages_fit_together,
    empty_namespaces_are_not_listed,
    labels_are_checked,
}

async fn fill(store: &Subject) -> CaseResult {
    for place in ["b", "a.x.z", "a.y.z", "a", "a.x", "c.y.z.z", "a-b"] {
        store.put(place.split('.'), "k", &json!({})).await?;
    }
    Ok(())
}

async fn list(store: &Subject, query: Namespaces) -> Result<Vec<String>, super::ContractViolation> {
    Ok(store.namespaces(query).await?.into_iter().map(|labels| labels.join(".")).collect())
}

fn all() -> Namespaces {
    Namespaces::below([""; 0])
}

async fn they_come_in_the_order_of_their_labels(store: Subject) -> CaseResult {
    fill(&store).await?;
    let wanted = ["a", "a.x", "a.x.z", "a.y.z", "a-b", "b", "c.y.z.z"].map(str::to_owned).to_vec();
    same("all of them", &list(&store, all()).await?, &wanted)
}

async fn patterns_match_at_both_ends(store: Subject) -> CaseResult {
    fill(&store).await?;
    for (query, wanted) in [
        (Namespaces::below(["a"]), "a a.x a.x.z a.y.z"),
        (Namespaces::below(["*", "y"]), "a.y.z c.y.z.z"),
        (all().ending(["z"]), "a.x.z a.y.z c.y.z.z"),
        (all().ending(["y", "*"]), "a.y.z"),
        (Namespaces::below(["a"]).ending(["x", "z"]), "a.x.z"),
        (Namespaces::below(["*", "*", "*", "*"]), "c.y.z.z"),
        (Namespaces::below(["nobody"]), ""),
    ] {
        let what = format!("{query:?}");
        same(&what, &list(&store, query).await?.join(" "), &wanted.to_owned())?;
    }
    Ok(())
}

async fn a_depth_cuts_them(store: Subject) -> CaseResult {
    fill(&store).await?;
    let wanted = ["a", "a-b", "b", "c"].map(str::to_owned).to_vec();
    same("to one label", &list(&store, all().max_depth(1)).await?, &wanted)?;
    let ending = all().ending(["z"]).max_depth(2);
    same("the namespaces, cut after they matched", &list(&store, ending).await?.join(" "), &"a.x a.y c.y".to_owned())?;
    invalid("no labels at all", &store.namespaces(all().max_depth(0)).await)
}

async fn pages_fit_together(store: Subject) -> CaseResult {
    fill(&store).await?;
    let mut found = Vec::new();
    for page in 0..4 {
        found.extend(list(&store, all().limit(2).offset(page * 2)).await?);
    }
    same("the pages together", &found, &list(&store, all()).await?)
}

async fn empty_namespaces_are_not_listed(store: Subject) -> CaseResult {
    store.get(["asked"], "k").await?;
    store.search(Search::below(["searched"])).await?;
    store.put(["emptied"], "k", &json!({})).await?;
    store.delete(["emptied"], "k").await?;
    store.put_for(["expired"], "k", &json!({}), Duration::ZERO).await?;
    same("the namespaces", &list(&store, all()).await?, &vec![])
}

async fn labels_are_checked(store: Subject) -> CaseResult {
    let bad: [&[&str]; 6] = [&[], &[""], &["a", ""], &["a.b"], &["a", "b\0"], &["hier"]];
    for labels in bad {
        let labels = labels.iter().copied();
        invalid("putting", &store.put(labels.clone(), "k", &json!({})).await)?;
        invalid("getting", &store.get(labels.clone(), "k").await)?;
        invalid("deleting", &store.delete(labels.clone(), "k").await)?;
    }
    invalid("searching", &store.search(Search::below(["a.b"])).await)?;
    store.put(["a", "hier"], "k", &json!({})).await?;
    store.put(["hierarchy"], "k", &json!({})).await?;
    store.put(["*"], "k", &json!({})).await?;
    Ok(())
}
