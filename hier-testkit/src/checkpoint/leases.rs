//! Cases about leases, which allow one writer per thread.

use std::time::Duration;

use futures_util::future::join_all;

use super::kit::ChannelChange::{Add, Set};
use super::kit::{
    Branch, CaseResult, cases, claim, deleted, get, has_values, holds, ids, new_id, same, superseded, writes,
};
use super::{ContractViolation, Subject};
use hier_core::checkpoint::{Checkpointer, Claim, Commit, LeaseState, SaverError, WhenRunning};

cases!(super::Case, "leases":
    tokens_grow,
    tokens_grow_over_a_deletion,
    a_superseded_writer_stores_nothing,
    a_superseded_commit_among_others,
    renewing_fails_for_a_superseded_writer,
    releasing_a_lost_lease_does_nothing,
    reject_reports_the_holder,
    reject_claims_a_free_thread,
    wait_gets_the_thread_when_it_is_released,
    wait_gives_up,
    wait_does_not_wait_for_a_free_thread,
    waiting_claims_succeed_one_after_the_other,
    wait_ends_when_the_lease_of_a_dead_writer_expires,
    leases_of_other_threads_do_not_matter,
    claims_at_once_leave_one_writer,
    a_last_commit_reports_if_it_releases,
    a_last_commit_that_is_refused_releases_nothing,
    a_waiting_claim_gets_the_lease_of_a_last_commit,
);

fn claiming(holder: &str, when_running: WhenRunning) -> Claim {
    Claim { holder: holder.to_owned(), when_running, ..Claim::default() }
}

const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_secs(30);

async fn tokens_grow(saver: Subject) -> CaseResult {
    let mut last = 0;
    for _ in 0..5 {
        let lease = claim(&saver, "t").await?;
        same("the thread of the lease", &&*lease.thread, &"t")?;
        same("how long it runs", &lease.lasts, &Claim::default().lasts)?;
        holds("the token is greater than the last", lease.token > last)?;
        last = lease.token;
        saver.release(&lease).await?;
    }
    Ok(())
}

async fn tokens_grow_over_a_deletion(saver: Subject) -> CaseResult {
    let old = claim(&saver, "t").await?;
    saver.commit(&old, vec![Branch::root().next(&[])].into()).await?;
    saver.delete_thread("t").await?;
    deleted("a commit after the deletion", &saver.commit(&old, vec![Branch::root().next(&[])].into()).await)?;
    let new = claim(&saver, "t").await?;
    holds("the token is greater than before the deletion", new.token > old.token)?;
    superseded("a commit with the old lease", &saver.commit(&old, vec![Branch::root().next(&[])].into()).await)?;
    same("the stored data", &saver.get("t", "", None).await?, &None)
}

async fn a_superseded_writer_stores_nothing(saver: Subject) -> CaseResult {
    let mut branch = Branch::root();
    let old = claim(&saver, "t").await?;
    saver.commit(&old, vec![branch.next(&[Set("x", b"old")])].into()).await?;
    let first = branch.tip()?.id;
    let new = claim(&saver, "t").await?;
    let mut stale = branch.clone();
    let records = vec![writes("", first, new_id(), "a", &[(0, "x", b"stale")]), stale.next(&[Set("x", b"stale")])];
    superseded("the old run's commit", &saver.commit(&old, records.into()).await)?;
    superseded("its empty commit", &saver.commit(&old, Vec::new().into()).await)?;
    same("the checkpoints", &ids(&saver, "t", "").await?, &vec![first])?;
    holds("no write was stored", get(&saver, "t", "", None).await?.writes.is_empty())?;
    saver.commit(&new, vec![branch.next(&[Set("x", b"new")])].into()).await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"new"])])
}

/// A saver may store several calls together. A refused commit must not affect the others.
async fn a_superseded_commit_among_others(saver: Subject) -> CaseResult {
    let stale = claim(&saver, "t").await?;
    let fresh = claim(&saver, "t").await?;
    let other = claim(&saver, "other").await?;
    let (mut branch, mut elsewhere) = (Branch::root(), Branch::root());
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for number in 0..10_u8 {
        bad.push(saver.commit(&stale, vec![Branch::root().next(&[Set("x", b"stale")])].into()));
        let change = if number == 0 { Set("log", b"0") } else { Add("log", b"+") };
        good.push(saver.commit(&fresh, vec![branch.next(&[change])].into()));
        good.push(saver.commit(&other, vec![elsewhere.next(&[Set("x", &[number])])].into()));
    }
    for result in join_all(bad).await {
        superseded("a stale commit", &result)?;
    }
    for result in join_all(good).await {
        result?;
    }
    same("the checkpoints", &ids(&saver, "t", "").await?.len(), &10)?;
    let parts: Vec<&[u8]> = std::iter::once(&b"0"[..]).chain([&b"+"[..]; 9]).collect();
    has_values("the value", &get(&saver, "t", "", None).await?, &[("log", &parts)])?;
    has_values("the other's value", &get(&saver, "other", "", None).await?, &[("x", &[&[9]])])
}

async fn renewing_fails_for_a_superseded_writer(saver: Subject) -> CaseResult {
    let old = claim(&saver, "t").await?;
    saver.renew(&old).await?;
    let new = claim(&saver, "t").await?;
    superseded("renewing the old lease", &saver.renew(&old).await)?;
    saver.renew(&new).await?;
    Ok(())
}

async fn releasing_a_lost_lease_does_nothing(saver: Subject) -> CaseResult {
    let old = claim(&saver, "t").await?;
    let new = saver.acquire("t", claiming("new", WhenRunning::TakeOver)).await?;
    saver.release(&old).await?;
    match saver.acquire("t", claiming("third", WhenRunning::Reject)).await {
        Err(SaverError::Busy { .. }) => {}
        other => {
            return Err(ContractViolation(format!("{other:?} instead of `Busy`: the old release freed the thread")));
        }
    }
    saver.commit(&new, vec![Branch::root().next(&[])].into()).await?;
    Ok(())
}

async fn reject_reports_the_holder(saver: Subject) -> CaseResult {
    let lease = saver.acquire("t", claiming("Ada's run", WhenRunning::Reject)).await?;
    match saver.acquire("t", claiming("second", WhenRunning::Reject)).await {
        Err(SaverError::Busy { thread, holder }) => {
            same("the thread", &thread.as_str(), &"t")?;
            same("the holder", &holder.as_str(), &"Ada's run")?;
        }
        other => return Err(ContractViolation(format!("{other:?} instead of `Busy`"))),
    }
    // The refused claim did not end the lease.
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    Ok(())
}

async fn reject_claims_a_free_thread(saver: Subject) -> CaseResult {
    let first = saver.acquire("t", claiming("first", WhenRunning::Reject)).await?;
    saver.commit(&first, vec![Branch::root().next(&[])].into()).await?;
    saver.release(&first).await?;
    let second = saver.acquire("t", claiming("second", WhenRunning::Reject)).await?;
    holds("the token is greater", second.token > first.token)?;
    superseded(
        "a commit after the release and a claim",
        &saver.commit(&first, vec![Branch::root().next(&[])].into()).await,
    )
}

async fn wait_gets_the_thread_when_it_is_released(saver: Subject) -> CaseResult {
    let first = claim(&saver, "t").await?;
    let second = saver.acquire("t", claiming("second", WhenRunning::Wait(LATE)));
    let release = async {
        saver.commit(&first, vec![Branch::root().next(&[])].into()).await?;
        saver.release(&first).await
    };
    let (second, released) = tokio::join!(second, release);
    released?;
    let second = second?;
    holds("the token is greater", second.token > first.token)?;
    saver.commit(&second, vec![Branch::root().next(&[])].into()).await?;
    Ok(())
}

async fn wait_gives_up(saver: Subject) -> CaseResult {
    let first = saver.acquire("t", claiming("first", WhenRunning::TakeOver)).await?;
    match saver.acquire("t", claiming("second", WhenRunning::Wait(SOON))).await {
        Err(SaverError::Busy { holder, .. }) => same("the holder", &holder.as_str(), &"first")?,
        other => return Err(ContractViolation(format!("{other:?} instead of `Busy`"))),
    }
    saver.commit(&first, vec![Branch::root().next(&[])].into()).await?;
    Ok(())
}

async fn wait_does_not_wait_for_a_free_thread(saver: Subject) -> CaseResult {
    let lease = saver.acquire("t", claiming("first", WhenRunning::Wait(Duration::ZERO))).await?;
    saver.release(&lease).await?;
    saver.acquire("t", claiming("second", WhenRunning::Wait(Duration::ZERO))).await?;
    Ok(())
}

async fn waiting_claims_succeed_one_after_the_other(saver: Subject) -> CaseResult {
    let first = claim(&saver, "t").await?;
    let waiting = (0..5).map(|number| {
        let saver = saver.clone();
        async move {
            let claim = claiming(&format!("waiter {number}"), WhenRunning::Wait(LATE));
            let lease = saver.acquire("t", claim).await?;
            saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
            saver.release(&lease).await?;
            Ok::<_, SaverError>(lease.token)
        }
    });
    let (tokens, released) = tokio::join!(join_all(waiting), saver.release(&first));
    released?;
    let mut tokens = tokens.into_iter().collect::<Result<Vec<_>, _>>()?;
    tokens.sort_unstable();
    tokens.dedup();
    same("how many got it", &tokens.len(), &5)
}

async fn wait_ends_when_the_lease_of_a_dead_writer_expires(saver: Subject) -> CaseResult {
    if !saver.capabilities().leases_expire {
        return Ok(());
    }
    let dead = saver.acquire("t", Claim { lasts: SOON, ..claiming("dead", WhenRunning::TakeOver) }).await?;
    let next = saver.acquire("t", claiming("next", WhenRunning::Wait(LATE))).await?;
    holds("the token is greater", next.token > dead.token)?;
    superseded(
        "a commit of the one that was thought dead",
        &saver.commit(&dead, vec![Branch::root().next(&[])].into()).await,
    )
}

async fn leases_of_other_threads_do_not_matter(saver: Subject) -> CaseResult {
    let first = claim(&saver, "t").await?;
    let second = saver.acquire("other", claiming("second", WhenRunning::Reject)).await?;
    saver.commit(&first, vec![Branch::root().next(&[])].into()).await?;
    saver.commit(&second, vec![Branch::root().next(&[])].into()).await?;
    saver.release(&second).await?;
    saver.renew(&first).await?;
    Ok(())
}

async fn claims_at_once_leave_one_writer(saver: Subject) -> CaseResult {
    let claims = (0..8).map(|_| saver.acquire("t", Claim::default()));
    let leases = join_all(claims).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let last = leases.iter().map(|lease| lease.token).max().unwrap_or_default();
    for lease in &leases {
        let result = saver.commit(lease, vec![Branch::root().next(&[])].into()).await;
        if lease.token == last {
            result?;
        } else {
            superseded("a commit without the last token", &result)?;
        }
    }
    same("the number of checkpoints", &ids(&saver, "t", "").await?.len(), &1)
}

async fn a_last_commit_reports_if_it_releases(saver: Subject) -> CaseResult {
    let mut branch = Branch::root();
    for _ in 0..2 {
        let lease = claim(&saver, "t").await?;
        let state = saver.commit(&lease, Commit::new(vec![branch.next(&[])]).release()).await?;
        let released = state == LeaseState::Released;
        match saver.acquire("t", claiming("next", WhenRunning::Reject)).await {
            Ok(next) if released => saver.release(&next).await?,
            Err(SaverError::Busy { .. }) if !released => saver.release(&lease).await?,
            other => {
                return Err(ContractViolation(format!(
                    "{other:?} after a commit that reported `released: {released}`"
                )));
            }
        }
        same("the newest", &get(&saver, "t", "", None).await?.checkpoint.id, &branch.tip()?.id)?;
        // A second release has no effect.
        saver.release(&lease).await?;
    }
    Ok(())
}

async fn a_last_commit_that_is_refused_releases_nothing(saver: Subject) -> CaseResult {
    let old = claim(&saver, "t").await?;
    let new = claim(&saver, "t").await?;
    let refused = saver.commit(&old, Commit::new(vec![Branch::root().next(&[Set("x", b"stale")])]).release()).await;
    superseded("the last commit of a superseded run", &refused)?;
    let mut branch = Branch::root();
    saver.commit(&new, vec![branch.next(&[Set("x", b"x")])].into()).await?;
    // The base of this commit was never stored.
    let mut astray = branch.clone();
    astray.next(&[Set("x", b"never stored")]);
    let refused = saver.commit(&new, Commit::new(vec![astray.next(&[Add("x", b"+")])]).release()).await;
    holds("it is refused", matches!(refused, Err(SaverError::Gone { .. })))?;
    match saver.acquire("t", claiming("third", WhenRunning::Reject)).await {
        Err(SaverError::Busy { .. }) => {}
        other => {
            return Err(ContractViolation(format!(
                "{other:?} instead of `Busy`: a commit that was refused freed the thread"
            )));
        }
    }
    saver.commit(&new, vec![branch.next(&[Set("x", b"y")])].into()).await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"y"])])
}

async fn a_waiting_claim_gets_the_lease_of_a_last_commit(saver: Subject) -> CaseResult {
    let first = claim(&saver, "t").await?;
    let second = saver.acquire("t", claiming("second", WhenRunning::Wait(LATE)));
    let last = async {
        let commit = Commit::new(vec![Branch::root().next(&[])]).release();
        if saver.commit(&first, commit).await? == LeaseState::Held {
            saver.release(&first).await?;
        }
        Ok::<_, SaverError>(())
    };
    let (second, released) = tokio::join!(second, last);
    released?;
    holds("the token is greater", second?.token > first.token)
}
