use super::Subject;
use super::kit::ChannelChange::{Add, Set};
use super::kit::{Branch, CaseResult, cases, claim, deleted, get, has_values, holds, ids, new_id, same, writes};
use hier_core::checkpoint::{Checkpointer, ListQuery, SaverError, background};

cases!(super::Case, "copy":
    a_copy_has_the_whole_history,
    copy_and_source_continue_independently,
    the_target_loses_its_own_history,
    a_run_of_the_target_is_superseded,
    a_run_of_the_source_continues,
    an_unknown_source_leaves_no_history,
    copying_onto_itself_changes_nothing,
    the_target_loses_its_background_threads,
    a_copy_has_no_name_of_a_background_thread,
);

async fn a_copy_has_the_whole_history(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let (mut root, mut child) = (Branch::root().of_run("one"), Branch::within("a:1"));
    let mut records =
        vec![root.next(&[Set("log", b"0")]), root.next(&[Add("log", b"1")]), child.next(&[Set("y", b"2")])];
    records.push(writes("", root.tip()?.id, new_id(), "a", &[(-3, "__interrupt__", b"?"), (0, "x", b"v")]));
    records.push(writes("a:1", child.tip()?.id, new_id(), "b", &[(0, "y", b"w")]));
    saver.commit(&lease, records.into()).await?;
    saver.admin()?.copy_thread("t", "copy").await?;
    let all = |thread: &str| ListQuery { namespace: None, ..ListQuery::thread(thread) };
    let brief = |listed: Vec<hier_core::checkpoint::Listed>| -> Vec<_> {
        listed.into_iter().map(|it| (it.namespace, it.checkpoint)).collect()
    };
    let source = brief(saver.list(all("t")).await?);
    same("the number of checkpoints", &source.len(), &3)?;
    same("the copy's list", &brief(saver.list(all("copy")).await?), &source)?;
    for (namespace, checkpoint) in source {
        let wanted = get(&saver, "t", &namespace, Some(checkpoint.id)).await?;
        same("a checkpoint", &get(&saver, "copy", &namespace, Some(checkpoint.id)).await?, &wanted)?;
    }
    Ok(())
}

async fn copy_and_source_continue_independently(saver: Subject) -> CaseResult {
    let mut branch = Branch::root();
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0")])].into()).await?;
    saver.admin()?.copy_thread("t", "copy").await?;
    let copy = claim(&saver, "copy").await?;
    let mut elsewhere = branch.clone();
    saver.commit(&copy, vec![elsewhere.next(&[Add("log", b"copy")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[Add("log", b"source")])].into()).await?;
    has_values("the source", &get(&saver, "t", "", None).await?, &[("log", &[b"0", b"source"])])?;
    has_values("the copy", &get(&saver, "copy", "", None).await?, &[("log", &[b"0", b"copy"])])?;
    saver.delete_thread("copy").await?;
    has_values("the source", &get(&saver, "t", "", None).await?, &[("log", &[b"0", b"source"])])
}

async fn the_target_loses_its_own_history(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"source")])].into()).await?;
    let target = claim(&saver, "target").await?;
    saver
        .commit(&target, vec![Branch::within("child").next(&[]), Branch::root().next(&[Set("x", b"target")])].into())
        .await?;
    saver.admin()?.copy_thread("t", "target").await?;
    same("the root's checkpoints", &ids(&saver, "target", "").await?, &vec![branch.tip()?.id])?;
    same("the child's checkpoints", &ids(&saver, "target", "child").await?, &Vec::new())?;
    has_values("the value", &get(&saver, "target", "", None).await?, &[("x", &[b"source"])])
}

async fn a_run_of_the_target_is_superseded(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![Branch::root().next(&[Set("x", b"source")])].into()).await?;
    let target = claim(&saver, "target").await?;
    saver.admin()?.copy_thread("t", "target").await?;
    deleted("a commit of the target's run", &saver.commit(&target, vec![Branch::root().next(&[])].into()).await)?;
    let next = claim(&saver, "target").await?;
    holds("the token is greater", next.token > target.token)
}

async fn a_run_of_the_source_continues(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    saver.admin()?.copy_thread("t", "copy").await?;
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    same("the source's", &ids(&saver, "t", "").await?.len(), &2)?;
    same("the copy's", &ids(&saver, "copy", "").await?.len(), &1)
}

async fn an_unknown_source_leaves_no_history(saver: Subject) -> CaseResult {
    let target = claim(&saver, "target").await?;
    saver.commit(&target, vec![Branch::root().next(&[])].into()).await?;
    saver.admin()?.copy_thread("unknown", "target").await?;
    same("the target", &saver.get("target", "", None).await?, &None)?;
    saver.admin()?.copy_thread("unknown", "other").await?;
    same("the threads", &saver.admin()?.threads(None).await?, &Vec::new())
}

async fn copying_onto_itself_changes_nothing(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"0")])].into()).await?;
    saver.admin()?.copy_thread("t", "t").await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"0"])])?;
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    Ok(())
}

async fn the_target_loses_its_background_threads(saver: Subject) -> CaseResult {
    let (inner, other) = (background::thread_of("target", "a-1"), background::thread_of("target", "b-1"));
    let nested = background::thread_of(&inner, "c-1");
    for thread in ["target", "target2", &inner, &other, &nested] {
        let lease = claim(&saver, thread).await?;
        saver.commit(&lease, vec![Branch::root().next(&[Set("x", thread.as_bytes())])].into()).await?;
    }
    // The source is a background thread of the target. The copy must keep the source and the background threads of the
    // source.
    saver.admin()?.copy_thread(&inner, "target").await?;
    let mut threads = saver.admin()?.threads(None).await?;
    threads.sort_by(|one, other| one.thread.cmp(&other.thread));
    let threads: Vec<_> = threads.iter().map(|it| &*it.thread).collect();
    same("the threads", &threads, &vec!["target", &*inner, &*nested, "target2"])?;
    has_values("the copy", &get(&saver, "target", "", None).await?, &[("x", &[inner.as_bytes()])])
}

async fn a_copy_has_no_name_of_a_background_thread(saver: Subject) -> CaseResult {
    let inner = background::thread_of("t", "a-1");
    match saver.admin()?.copy_thread("t", &inner).await {
        Err(SaverError::Invalid(why)) => {
            holds("the error names the thread", why.contains("is that of a background run of thread `t`"))
        }
        other => same("the copy", &other.is_ok(), &false),
    }
}
