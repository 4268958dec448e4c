//! Time to live.

use std::time::{Duration, SystemTime};

use super::Subject;
use super::kit::Change::Set;
use super::kit::{Line, Outcome, cases, claim, holds, same, superseded};
use hier_core::checkpoint::{Checkpointer, Claim, Lease, SaverError};

cases!(super::Case, "lifetime":
    a_thread_whose_time_has_passed_is_swept,
    a_thread_without_a_time_lives_for_ever,
    a_thread_that_is_held_is_not_swept,
    a_thread_whose_time_has_not_passed_is_not_swept,
    each_claim_sets_the_time_anew,
    threads_say_when_they_expire,
    whoever_released_it_is_superseded_after_the_sweep,
);

async fn claim_for(saver: &Subject, thread: &str, time_to_live: Option<Duration>) -> Result<Lease, SaverError> {
    saver.acquire(thread, Claim { time_to_live, ..Claim::default() }).await
}

const HOUR: Duration = Duration::from_hours(1);

async fn a_thread_whose_time_has_passed_is_swept(saver: Subject) -> Outcome {
    same("an empty saver", &saver.admin()?.sweep().await?, &0)?;
    for thread in ["t", "other"] {
        let lease = claim_for(&saver, thread, Some(Duration::ZERO)).await?;
        saver
            .commit(&lease, vec![Line::root().next(&[Set("x", b"0")]), Line::within("child").next(&[])].into())
            .await?;
        saver.release(&lease).await?;
    }
    same("how many were swept", &saver.admin()?.sweep().await?, &2)?;
    same("the threads", &saver.admin()?.threads(None).await?, &Vec::new())?;
    same("the latest", &saver.get("t", "", None).await?, &None)?;
    same("how many were swept the second time", &saver.admin()?.sweep().await?, &0)
}

async fn a_thread_without_a_time_lives_for_ever(saver: Subject) -> Outcome {
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![Line::root().next(&[])].into()).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &0)?;
    holds("it is still there", saver.get("t", "", None).await?.is_some())
}

async fn a_thread_that_is_held_is_not_swept(saver: Subject) -> Outcome {
    let lease = claim_for(&saver, "t", Some(Duration::ZERO)).await?;
    let mut line = Line::root();
    saver.commit(&lease, vec![line.next(&[])].into()).await?;
    same("how many were swept while it was held", &saver.admin()?.sweep().await?, &0)?;
    saver.commit(&lease, vec![line.next(&[])].into()).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &1)
}

async fn a_thread_whose_time_has_not_passed_is_not_swept(saver: Subject) -> Outcome {
    let lease = claim_for(&saver, "t", Some(HOUR)).await?;
    saver.commit(&lease, vec![Line::root().next(&[])].into()).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &0)?;
    holds("it is still there", saver.get("t", "", None).await?.is_some())
}

async fn each_claim_sets_the_time_anew(saver: Subject) -> Outcome {
    let lease = claim_for(&saver, "t", Some(Duration::ZERO)).await?;
    saver.commit(&lease, vec![Line::root().next(&[])].into()).await?;
    saver.release(&lease).await?;
    let lease = claim_for(&saver, "t", None).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &0)?;
    let lease = claim_for(&saver, "t", Some(Duration::ZERO)).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &1)
}

async fn threads_say_when_they_expire(saver: Subject) -> Outcome {
    let before = SystemTime::now();
    let lease = claim_for(&saver, "t", Some(HOUR)).await?;
    saver.commit(&lease, vec![Line::root().next(&[])].into()).await?;
    let expires = saver.admin()?.threads(None).await?.first().and_then(|it| it.expires);
    // Servers may count in milliseconds, by a clock of their own.
    let slack = Duration::from_secs(5);
    let in_range = |at: SystemTime| at >= before + HOUR - slack && at <= SystemTime::now() + HOUR + slack;
    holds("it expires an hour after the commit", expires.is_some_and(in_range))?;
    let lease = claim_for(&saver, "t", None).await?;
    saver.commit(&lease, vec![Line::root().next(&[])].into()).await?;
    same("when it expires", &saver.admin()?.threads(None).await?.first().and_then(|it| it.expires), &None)
}

async fn whoever_released_it_is_superseded_after_the_sweep(saver: Subject) -> Outcome {
    let lease = claim_for(&saver, "t", Some(Duration::ZERO)).await?;
    let mut line = Line::root();
    saver.commit(&lease, vec![line.next(&[Set("x", b"0")])].into()).await?;
    saver.release(&lease).await?;
    same("how many were swept", &saver.admin()?.sweep().await?, &1)?;
    superseded("a late commit", &saver.commit(&lease, vec![line.next(&[])].into()).await)
}
