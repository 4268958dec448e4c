//! Claims, renews and releases threads.

use std::time::Duration;

use hier_checkpoint::checkpoint::{Claim, Lease, SaverError, SupersededBy, WhenRunning};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_postgres::types::Type;

use super::Postgres;
use super::fault::PostgresFault;
use super::session::retrying;
use super::text::{self, escape};
use hier_checkpoint::backend::lease::{Claimed, wait_for};

/// The interval at which a claim checks whether another process has released the thread.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The minimum time limit of an attempt to renew.
const SHORTEST_RENEWAL: Duration = Duration::from_secs(1);

impl Postgres {
    pub(super) async fn claim(&self, thread: &str, claim: &Claim) -> Result<Lease, SaverError> {
        match claim.when_running {
            WhenRunning::TakeOver | WhenRunning::Reject => self.claim_or_release(thread, claim).await,
            WhenRunning::Wait(at_most) => {
                wait_for(&self.0.released, LOOK_AGAIN, at_most, || self.claim_or_release(thread, claim)).await
            }
        }
    }

    /// Claims a thread in a separate task. If this call is dropped, the task still completes the claim, which the
    /// server may have executed, and then releases the thread.
    async fn claim_or_release(&self, thread: &str, claim: &Claim) -> Result<Lease, SaverError> {
        let (this, thread, claim, runtime) = (self.clone(), thread.to_owned(), claim.clone(), Handle::current());
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let turn = this.0.claim_locks.lock(&thread).await;
            let claimed = this.try_claim(&thread, &claim, || !answer.is_closed()).await;
            let this = this.clone();
            let release = move |lease: Lease| {
                let releasing = async move {
                    // If this fails, the lease expires.
                    let _ = this.release_now(&lease).await;
                    drop(turn);
                };
                runtime.spawn(releasing);
            };
            // If the call was dropped, this drops the claim, which releases the thread.
            let _ = answer.send(claimed.map(|lease| Claimed::new(lease, release)));
        });
        let claimed = answered.await.map_err(|_| self.stopped())??;
        claimed.take().ok_or_else(|| self.stopped())
    }

    async fn try_claim(&self, thread: &str, claim: &Claim, is_wanted: impl Fn() -> bool) -> Result<Lease, SaverError> {
        let session = &self.0.session;
        self.ready().await?;
        let (name, holder) = (escape(thread), text::claimed_by(&claim.holder));
        let (lasts, lives) = (millis(claim.lasts), claim.time_to_live.map(millis));
        let take_over = claim.when_running == WhenRunning::TakeOver;
        let with = [
            (&name as _, Type::TEXT),
            (&holder as _, Type::TEXT),
            (&lasts as _, Type::INT8),
            (&lives as _, Type::INT8),
            (&claim.keeps_time_to_live as _, Type::BOOL),
            (&take_over as _, Type::BOOL),
        ];
        // The holder may release the thread between the two statements.
        loop {
            let claimed = retrying!(session, client => {
                if !is_wanted() {
                    return Err(PostgresFault::Saver(SaverError::Invalid("the caller dropped the call that claims the thread".to_owned())));
                }
                session.query_often(&client, &session.statements.claim, &with).await
            })?;
            if let Some(row) = claimed.first() {
                let read = || Ok((row.try_get::<_, i64>(0)?, row.try_get(1)?));
                let (token, driven) = read().map_err(|fault: PostgresFault| fault.into_saver_error(&session.place))?;
                let token = u64::try_from(token).unwrap_or_default();
                return Ok(Lease::new(thread, token, claim.lasts).driven(driven));
            }
            if let Some(holder) = self.holder(thread).await? {
                return Err(SaverError::Busy { thread: thread.to_owned(), holder });
            }
        }
    }

    async fn holder(&self, thread: &str) -> Result<Option<String>, SaverError> {
        let session = &self.0.session;
        let name = escape(thread);
        let with = [(&name as _, Type::TEXT)];
        let rows = retrying!(session, client => session.query(&client, &session.statements.holder, &with).await)?;
        let holder = rows.first().map(|row| row.try_get::<_, &str>(0)).transpose();
        let holder = holder.map_err(|error| PostgresFault::from(error).into_saver_error(&session.place))?;
        Ok(holder.map(text::holder))
    }

    /// Renews a lease. Retries for no longer than the duration of the lease, because afterwards it has expired.
    pub(super) async fn renew_lease(&self, lease: &Lease) -> Result<(), SaverError> {
        let session = &self.0.session;
        self.ready().await?;
        let (name, token) = (escape(&lease.thread), i64::try_from(lease.token).unwrap_or(-1));
        let lasts = millis(lease.lasts);
        let with = [(&name as _, Type::TEXT), (&token as _, Type::INT8), (&lasts as _, Type::INT8)];
        let limit = (lease.lasts / 3).max(SHORTEST_RENEWAL);
        let attempts = session.attempts_for(lease.lasts);
        let rows = retrying!(session, attempts, client => {
            session.query_often(&client.within(limit), &session.statements.renew, &with).await
        })?;
        if rows.is_empty() { Err(self.lost(&lease.thread, lease.token).await) } else { Ok(()) }
    }

    /// Returns the error for a lease with this token that no longer holds the thread.
    pub(super) async fn lost(&self, thread: &str, token: u64) -> SaverError {
        let session = &self.0.session;
        let name = escape(thread);
        let with = [(&name as _, Type::TEXT)];
        let rows = retrying!(session, client => session.query(&client, &session.statements.token, &with).await);
        let current = rows.and_then(|rows| {
            let token = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose();
            token.map_err(|error| PostgresFault::from(error).into_saver_error(&session.place))
        });
        match current {
            Ok(current) => SaverError::superseded(thread, token, current.and_then(|token| u64::try_from(token).ok())),
            // The lease is lost in any case. Only the reason is unknown.
            Err(_) => SaverError::Superseded { thread: thread.to_owned(), by: SupersededBy::Claim },
        }
    }

    pub(super) async fn release_lease(&self, lease: &Lease) -> Result<(), SaverError> {
        let _turn = self.0.claim_locks.lock(&lease.thread).await;
        self.release_now(lease).await
    }

    async fn release_now(&self, lease: &Lease) -> Result<(), SaverError> {
        let session = &self.0.session;
        self.ready().await?;
        let (name, token) = (escape(&lease.thread), i64::try_from(lease.token).unwrap_or(-1));
        let with = [(&name as _, Type::TEXT), (&token as _, Type::INT8)];
        retrying!(session, client => session.query_often(&client, &session.statements.release, &with).await)?;
        self.0.released.notify_waiters();
        Ok(())
    }
}

pub(super) fn millis(duration: Duration) -> i64 {
    // A hundred years, which is longer than needed and within the range of Postgres.
    const MOST: i64 = 100 * 365 * 24 * 60 * 60 * 1_000;
    i64::try_from(duration.as_millis()).unwrap_or(MOST).min(MOST)
}
