//! Cases about malicious names and filters.

use serde_json::{Map, Value, json};

use super::kit::ChannelChange::{Add, Set};
use super::kit::{Branch, CaseResult, cases, claim, get, has_values, ids, new_id, same, writes};
use super::{ContractViolation, Subject};
use hier_core::checkpoint::{Checkpointer, Claim, InboxMessage, LONGEST_NAME, ListQuery, Prune, SaverError};

cases!(super::Case, "hostile":
    names_of_threads,
    names_of_namespaces,
    names_of_channels_and_paths,
    names_of_runs_and_holders,
    keys_of_filters,
    values_of_filters,
    many_channels,
    names_that_are_too_long,
    empty_names_of_threads,
);

const NAMES: [&str; 18] = [
    "'; drop table checkpoints; --",
    "\" or 1=1 --",
    "' or '1'='1",
    "%",
    "_",
    "\\",
    "\\0",
    "nul\0inside",
    "\0",
    "\u{1}",
    "\u{1}\u{1}",
    "line\nbreak\ttab\r",
    "../../etc/passwd",
    "$1",
    "?1",
    ":name",
    "ünïcödé 🦀 \u{202e}",
    "{\"$gt\": \"\"}",
];

async fn names_of_threads(saver: Subject) -> CaseResult {
    let long = "x".repeat(2_000);
    let names = || NAMES.into_iter().chain([long.as_str()]);
    for name in names() {
        let lease = claim(&saver, name).await?;
        saver.commit(&lease, vec![Branch::root().next(&[Set("x", name.as_bytes())])].into()).await?;
    }
    for name in names() {
        has_values("the value", &get(&saver, name, "", None).await?, &[("x", &[name.as_bytes()])])?;
        same("how many checkpoints it has", &ids(&saver, name, "").await?.len(), &1)?;
    }
    let mut listed: Vec<_> = saver.admin()?.threads(None).await?.into_iter().map(|it| it.thread.to_string()).collect();
    listed.sort();
    let mut wanted: Vec<_> = names().map(str::to_owned).collect();
    wanted.sort();
    same("the threads", &listed, &wanted)?;
    saver.admin()?.copy_thread(NAMES[0], NAMES[3]).await?;
    has_values("the copy", &get(&saver, NAMES[3], "", None).await?, &[("x", &[NAMES[0].as_bytes()])])?;
    let threads = Some(vec!["%".to_owned(), "' or '1'='1".to_owned()]);
    saver
        .admin()?
        .prune(Prune { threads, strategy: hier_core::checkpoint::Strategy::Delete, ..Prune::default() })
        .await?;
    saver.delete_thread("_").await?;
    same("how many are left", &saver.admin()?.threads(None).await?.len(), &(wanted.len() - 3))
}

async fn names_of_namespaces(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    for name in NAMES {
        let mut branch = Branch::within(name);
        let records = vec![branch.next(&[Set("log", name.as_bytes())]), branch.next(&[Add("log", b"+")])];
        saver.commit(&lease, records.into()).await?;
        saver.commit(&lease, vec![writes(name, branch.tip()?.id, new_id(), name, &[(0, name, b"v")])].into()).await?;
    }
    for name in NAMES {
        let found = get(&saver, "t", name, None).await?;
        has_values("the value", &found, &[("log", &[name.as_bytes(), b"+"])])?;
        same("the paths", &found.writes.iter().map(|task| &*task.path).collect(), &vec![name])?;
        same("how many checkpoints it has", &ids(&saver, "t", name).await?.len(), &2)?;
    }
    Ok(())
}

async fn names_of_channels_and_paths(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let changes: Vec<_> = NAMES.iter().map(|name| Set(name, name.as_bytes())).collect();
    saver.commit(&lease, vec![branch.next(&changes)].into()).await?;
    let changes: Vec<_> = NAMES.iter().map(|name| Add(name, b"+")).collect();
    saver.commit(&lease, vec![branch.next(&changes)].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    let parts = NAMES.map(|name| [name.as_bytes(), b"+".as_slice()]);
    let wanted: Vec<(&str, &[&[u8]])> =
        NAMES.iter().zip(&parts).map(|(name, parts)| (*name, parts.as_slice())).collect();
    has_values("the values", &found, &wanted)?;
    saver.admin()?.prune(Prune::default()).await?;
    has_values("the values after a prune", &get(&saver, "t", "", None).await?, &wanted)
}

async fn names_of_runs_and_holders(saver: Subject) -> CaseResult {
    for (number, name) in NAMES.into_iter().enumerate() {
        let claim = Claim { holder: name.to_owned(), ..Claim::default() };
        let lease = saver.acquire("t", claim).await?;
        let mut branch = Branch::within(&format!("n{number}")).of_run(name);
        saver.commit(&lease, vec![branch.next(&[])].into()).await?;
        let holder = saver.admin()?.threads(None).await?.into_iter().next().and_then(|it| it.holder);
        same("the holder", &holder.as_deref(), &Some(name))?;
    }
    saver.admin()?.delete_for_runs(&[NAMES[2].to_owned(), "%".to_owned()]).await?;
    let left = saver.list(ListQuery { namespace: None, ..ListQuery::thread("t") }).await?.len();
    same("how many are left", &left, &(NAMES.len() - 2))
}

async fn keys_of_filters(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut made = Vec::new();
    for name in NAMES {
        let mut branch = Branch::root();
        branch.metadata.insert(name.to_owned(), json!("here"));
        saver.commit(&lease, vec![branch.next(&[])].into()).await?;
        made.push(branch.tip()?.id);
    }
    for (name, id) in NAMES.iter().zip(made) {
        let filter: Map<String, Value> = [((*name).to_owned(), json!("here"))].into_iter().collect();
        let found = saver.list(ListQuery { filter, ..ListQuery::thread("t") }).await?;
        same(name, &found.iter().map(|it| it.checkpoint.id).collect(), &vec![id])?;
    }
    for key in ["'] or 1=1 --", "$.source", "source' or '1'='1", "metadata", "1"] {
        let filter: Map<String, Value> = [(key.to_owned(), json!("here"))].into_iter().collect();
        same(key, &saver.list(ListQuery { filter, ..ListQuery::thread("t") }).await?, &Vec::new())?;
    }
    Ok(())
}

async fn values_of_filters(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut values: Vec<Value> = NAMES.iter().map(|name| json!(name)).collect();
    values.extend([json!(null), json!(true), json!(0), json!(-1), json!(u64::MAX), json!(0.5), json!([]), json!({})]);
    values.push(json!({"$ne": null, "nested": ["'", {"deep": "%"}]}));
    let mut made = Vec::new();
    for value in &values {
        let mut branch = Branch::root();
        branch.metadata.insert("key".to_owned(), value.clone());
        saver.commit(&lease, vec![branch.next(&[])].into()).await?;
        made.push(branch.tip()?.id);
    }
    for (value, id) in values.iter().zip(made) {
        let filter: Map<String, Value> = [("key".to_owned(), value.clone())].into_iter().collect();
        let found = saver.list(ListQuery { filter, ..ListQuery::thread("t") }).await?;
        same(&value.to_string(), &found.iter().map(|it| it.checkpoint.id).collect(), &vec![id])?;
    }
    for value in [json!({"$ne": null}), json!({"$gt": ""}), json!("%' or 1=1 --")] {
        let filter: Map<String, Value> = [("key".to_owned(), value.clone())].into_iter().collect();
        let found = saver.list(ListQuery { filter, ..ListQuery::thread("t") }).await?;
        same(&value.to_string(), &found, &Vec::new())?;
    }
    Ok(())
}

async fn many_channels(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let names: Vec<String> = (0..2_000).map(|number| format!("channel {number}")).collect();
    let changes: Vec<_> = names.iter().map(|name| Set(name, name.as_bytes())).collect();
    saver.commit(&lease, vec![branch.next(&changes)].into()).await?;
    saver.commit(&lease, vec![branch.next(&[Set(&names[7], b"new")])].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    same("how many values there are", &found.values.len(), &names.len())?;
    for (channel, chain) in &found.values {
        let wanted = if *channel == 7 { b"new".to_vec() } else { names[*channel].clone().into_bytes() };
        same(&names[*channel], &chain.full, &Some(wanted))?;
    }
    Ok(())
}

async fn names_that_are_too_long(saver: Subject) -> CaseResult {
    // Some databases escape this character, which doubles its length.
    let longest = ["x".repeat(LONGEST_NAME), "\u{1}".repeat(LONGEST_NAME / 2)];
    for name in &longest {
        let lease = claim(&saver, name).await?;
        saver.commit(&lease, vec![Branch::root().next(&[Set("x", b"1")])].into()).await?;
        same("how many checkpoints it has", &ids(&saver, name, "").await?.len(), &1)?;
    }
    for name in longest.iter().map(|name| format!("{name}y")) {
        is_refused(&saver, &longest[0], &name).await?;
    }
    Ok(())
}

async fn empty_names_of_threads(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![Branch::root().next(&[Set("x", b"1")])].into()).await?;
    is_refused(&saver, "t", "").await?;
    same("the threads", &saver.admin()?.threads(None).await?.len(), &1)
}

/// Fails unless each call refuses a thread of this name. `from` is a stored thread.
async fn is_refused(saver: &Subject, from: &str, name: &str) -> CaseResult {
    let refused = |call: &str, result: Result<(), SaverError>| match result {
        Err(SaverError::Invalid(_)) => Ok(()),
        other => Err(ContractViolation(format!("{call} for a wrong name: {other:?} instead of `Invalid`"))),
    };
    refused("`acquire`", saver.acquire(name, Claim::default()).await.map(|_| ()))?;
    refused("`copy_thread`", saver.admin()?.copy_thread(from, name).await)?;
    let Ok(inbox) = saver.inbox() else { return Ok(()) };
    let message = InboxMessage::message(new_id(), b"1".to_vec());
    refused("`post`", inbox.post(name, "graph", message).await.map(|_| ()))?;
    same("the inbox", &inbox.messages(name).await?.len(), &0)
}
