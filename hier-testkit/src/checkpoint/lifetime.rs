use std::time::{Duration, SystemTime};

use super::Subject;
use super::kit::ChannelChange::Set;
use super::kit::{Branch, CaseResult, cases, claim, deleted, holds, same};
use hier_core::checkpoint::{Checkpointer, Claim, Lease, SaverError, background};

cases!(super::Case, "lifetime":
    an_expired_thread_is_swept,
    a_thread_without_time_to_live_is_kept,
    a_leased_thread_is_not_swept,
    a_background_thread_expires_with_its_thread,
    an_unexpired_thread_is_not_swept,
    each_claim_resets_the_time_to_live,
    a_claim_can_keep_the_time_to_live,
    threads_report_their_expiry,
    a_writer_that_released_is_superseded_after_the_sweep,
);

async fn claim_for(saver: &Subject, thread: &str, time_to_live: Option<Duration>) -> Result<Lease, SaverError> {
    saver.acquire(thread, Claim { time_to_live, ..Claim::default() }).await
}

const HOUR: Duration = Duration::from_hours(1);

async fn an_expired_thread_is_swept(saver: Subject) -> CaseResult {
    same("an empty saver", &saver.admin()?.sweep().await?, &0)?;
    for thread in ["t", "other"] {
        let lease = claim_for(&saver, thread, Some(Duration::ZERO)).await?;
        saver
            .commit(&lease, vec![Branch::root().next(&[Set("x", b"0")]), Branch::within("child").next(&[])].into())
            .await?;
        saver.release(&lease).await?;
    }
    same("how many were swept", &saver.admin()?.sweep().await?, &2)?;
    same("the threads", &saver.admin()?.threads(None).await?, &Vec::new())?;
    same("the latest", &saver.get("t", "", None).await?, &None)?;
    same("how many were swept the second time", &saver.admin()?.sweep().await?, &0)
}

async fn a_thread_without_time_to_live_is_kept(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &0)?;
    holds("it is still there", saver.get("t", "", None).await?.is_some())
}

async fn a_leased_thread_is_not_swept(saver: Subject) -> CaseResult {
    let lease = claim_for(&saver, "t", Some(Duration::ZERO)).await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    same("how many were swept while it was held", &saver.admin()?.sweep().await?, &0)?;
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &1)
}

async fn a_background_thread_expires_with_its_thread(saver: Subject) -> CaseResult {
    let inner = background::thread_of("t", "a-1");
    let live = async |thread: &str, time_to_live: Duration| {
        let lease = claim_for(&saver, thread, Some(time_to_live)).await?;
        saver.commit(&lease, vec![Branch::root().next(&[Set("x", b"0")])].into()).await?;
        saver.release(&lease).await
    };
    live("t", HOUR).await?;
    live(&inner, Duration::ZERO).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &0)?;
    holds("the background thread is still there", saver.get(&inner, "", None).await?.is_some())?;
    saver.delete_thread("t").await?;
    live("t", Duration::ZERO).await?;
    live(&inner, HOUR).await?;
    same("how many were swept with the thread", &saver.admin()?.sweep().await?, &1)?;
    same("the threads", &saver.admin()?.threads(None).await?, &Vec::new())?;
    live(&inner, Duration::ZERO).await?;
    same("how many were swept without the thread", &saver.admin()?.sweep().await?, &1)
}

async fn an_unexpired_thread_is_not_swept(saver: Subject) -> CaseResult {
    let lease = claim_for(&saver, "t", Some(HOUR)).await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &0)?;
    holds("it is still there", saver.get("t", "", None).await?.is_some())
}

async fn each_claim_resets_the_time_to_live(saver: Subject) -> CaseResult {
    let lease = claim_for(&saver, "t", Some(Duration::ZERO)).await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    saver.release(&lease).await?;
    let lease = claim_for(&saver, "t", None).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &0)?;
    let lease = claim_for(&saver, "t", Some(Duration::ZERO)).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &1)
}

async fn a_claim_can_keep_the_time_to_live(saver: Subject) -> CaseResult {
    for (thread, time_to_live) in [("short", Some(Duration::ZERO)), ("long", Some(HOUR)), ("forever", None)] {
        let lease = claim_for(&saver, thread, time_to_live).await?;
        let mut branch = Branch::root();
        saver.commit(&lease, vec![branch.next(&[])].into()).await?;
        saver.release(&lease).await?;
        let claim = Claim { keeps_time_to_live: true, time_to_live: Some(Duration::ZERO), ..Claim::default() };
        let lease = saver.acquire(thread, claim).await?;
        saver.commit(&lease, vec![branch.next(&[])].into()).await?;
        saver.release(&lease).await?;
    }
    same("how many were swept", &saver.admin()?.sweep().await?, &1)?;
    let mut threads = saver.admin()?.threads(None).await?;
    threads.sort_by(|one, other| one.thread.cmp(&other.thread));
    let found: Vec<_> = threads.iter().map(|it| (&*it.thread, it.expires.is_some())).collect();
    same("the threads that expire", &found, &vec![("forever", false), ("long", true)])
}

async fn threads_report_their_expiry(saver: Subject) -> CaseResult {
    let before = SystemTime::now();
    let lease = claim_for(&saver, "t", Some(HOUR)).await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    let expires = saver.admin()?.threads(None).await?.first().and_then(|it| it.expires);
    // A database may store times in milliseconds, and may use its own clock.
    let slack = Duration::from_secs(5);
    let in_range = |at: SystemTime| at >= before + HOUR - slack && at <= SystemTime::now() + HOUR + slack;
    holds("it expires an hour after the commit", expires.is_some_and(in_range))?;
    let lease = claim_for(&saver, "t", None).await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    same("when it expires", &saver.admin()?.threads(None).await?.first().and_then(|it| it.expires), &None)
}

async fn a_writer_that_released_is_superseded_after_the_sweep(saver: Subject) -> CaseResult {
    let lease = claim_for(&saver, "t", Some(Duration::ZERO)).await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"0")])].into()).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &1)?;
    deleted("a late commit", &saver.commit(&lease, vec![branch.next(&[])].into()).await)
}
