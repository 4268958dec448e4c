//! Reads a thread's runs, lets a caller decide, and stores that; again if somebody else has changed them meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use hier_core::checkpoint::SaverError;
use hier_core::runs::{Queue, RunsError, ThreadRow};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::Postgres;
use super::super::fault::Fault;
use super::super::mail::Mailbox;
use super::super::session::{Session, Transaction, retrying};
use super::change::{Answer, Beside, Seen};
use super::tables::Tables;

/// After so many changes by others a change holds the thread before it reads it.
const PATIENCE: usize = 3;

/// A change as it is asked for.
pub(super) struct Asked<'a> {
    pub(super) thread: &'a str,
    /// The id of a run that is to be added.
    pub(super) new: Option<Uuid>,
    pub(super) beside: Beside<'a>,
    /// The thread as it was when it was last looked at.
    pub(super) known: Option<Seen>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(thread: &'a str) -> Self {
        Self { thread, new: None, beside: Beside::default(), known: None }
    }
}

/// What came of a change.
pub(super) enum Changed<T> {
    /// It is stored: what was decided, and the thread as it is now.
    Stored { result: T, thread: Box<ThreadRow>, token: u64 },
    /// It was stored before, and only its answer was lost.
    Before(Box<Seen>),
    /// There was nothing to be changed.
    Nothing,
    /// It cannot be stored.
    Refused(Answer),
}

/// A change, however often it is tried.
struct Op {
    id: Uuid,
    /// Whether it was sent to the server: what came of that may not be known.
    sent: AtomicBool,
}

impl Op {
    fn new(session: &Session) -> Self {
        Self { id: session.new_change(), sent: AtomicBool::new(false) }
    }

    /// Whether it was stored by an attempt of which the answer was lost. Others may have changed the thread since.
    async fn is_stored(&self, tables: Tables<'_>, seen: &Seen) -> Result<bool, Fault> {
        if !self.sent.load(Ordering::Relaxed) || seen.op == Some(self.id) {
            return Ok(seen.op == Some(self.id));
        }
        let found = tables.query("select 1 from {s}.run_changes where op = $1", &[(&self.id, Type::UUID)]).await?;
        Ok(!found.is_empty())
    }
}

/// One attempt.
enum Attempt<T> {
    Ended(Changed<T>),
    /// Somebody else was faster.
    Again,
    /// It takes several statements, and so a transaction.
    IsLong,
    /// The caller has refused it.
    Failed(RunsError),
}

impl Postgres {
    /// Changes a thread's runs as the caller decides, with everything or not at all.
    pub(super) async fn change<T: Send>(
        &self,
        mut asked: Asked<'_>,
        decide: impl Fn(&Seen) -> Result<Option<(Queue, T)>, RunsError> + Send + Sync,
    ) -> Result<Changed<T>, RunsError> {
        self.ready().await?;
        // Those of this process one after the other: each begins with what the one before it has left.
        let _turn = self.0.changes.take(asked.thread).await;
        // One for all attempts, so that it is stored once.
        let (op, mut rounds, mut is_long) = (Op::new(&self.0.session), 0, false);
        loop {
            is_long |= rounds > PATIENCE;
            match self.attempt(&mut asked, &op, is_long, &decide).await? {
                Attempt::Ended(changed) => return Ok(changed),
                Attempt::Failed(error) => return Err(error),
                Attempt::IsLong => is_long = true,
                Attempt::Again => rounds += 1,
            }
        }
    }

    async fn attempt<T: Send>(
        &self,
        asked: &mut Asked<'_>,
        op: &Op,
        is_long: bool,
        decide: &(impl Fn(&Seen) -> Result<Option<(Queue, T)>, RunsError> + Send + Sync),
    ) -> Result<Attempt<T>, SaverError> {
        let (session, vault, unreadable) = (&self.0.session, &self.0.vault, &self.0.unreadable);
        let thread = asked.thread;
        retrying!(session, client => {
            if is_long {
                let transaction = Transaction::begin(client).await?;
                let tables = Tables { session, client: transaction.client(), vault, unreadable };
                let attempt = async {
                    tables.hold(thread).await?;
                    let seen = tables.see(thread, asked.new).await?;
                    self.once(tables, asked, seen, (op, true), decide).await
                };
                match attempt.await {
                    Ok(done @ Attempt::Ended(Changed::Stored { .. })) => transaction.end(Ok(done)).await,
                    Ok(other) => transaction.undo().await.map(|()| other),
                    Err(fault) => transaction.end(Err(fault)).await,
                }
            } else {
                let tables = Tables { session, client: &client, vault, unreadable };
                let seen = match asked.known.take() {
                    Some(seen) => seen,
                    None => tables.see(thread, asked.new).await?,
                };
                self.once(tables, asked, seen, (op, false), decide).await
            }
        })
    }

    async fn once<T: Send>(
        &self,
        tables: Tables<'_>,
        asked: &Asked<'_>,
        seen: Seen,
        (op, is_held): (&Op, bool),
        decide: &(impl Fn(&Seen) -> Result<Option<(Queue, T)>, RunsError> + Send + Sync),
    ) -> Result<Attempt<T>, Fault> {
        if op.is_stored(tables, &seen).await? {
            return Ok(Attempt::Ended(Changed::Before(Box::new(seen))));
        }
        let (queue, result) = match decide(&seen) {
            Ok(Some(decided)) => decided,
            Ok(None) => return Ok(Attempt::Ended(Changed::Nothing)),
            Err(error) => return Ok(Attempt::Failed(error)),
        };
        let claim = asked.beside.claim.filter(|_| queue.starts());
        let beside = Beside { claim, ..asked.beside };
        // Whoever goes on with the thread is spared from reading it again.
        let goes_on = !beside.ends && (beside.lease.is_some() || beside.claim.is_some());
        let live = if goes_on { queue.live().to_vec() } else { Vec::new() };
        let (mut thread, change) = queue.changed();
        let has_more = asked.beside.also.is_some() || change.is_crowded || !change.undone.is_empty();
        if !is_held && has_more {
            return Ok(Attempt::IsLong);
        }
        if change.is_crowded {
            tables.trim(&mut thread).await?;
        }
        let was_sent = op.sent.swap(true, Ordering::Relaxed);
        let answer = tables.put(&seen, op.id, (&thread, &change), beside).await?;
        if !matches!(answer, Answer::Done(_)) {
            // This attempt has stored nothing, that is known.
            op.sent.store(was_sent, Ordering::Relaxed);
        }
        match answer {
            Answer::Done(token) => {
                if let Some(also) = asked.beside.also {
                    let mailbox = Mailbox { session: tables.session, client: tables.client, thread: asked.thread };
                    mailbox.change(also, op.id).await?;
                }
                if !change.undone.is_empty() {
                    // Also what was stored with this.
                    tables.undo(&thread.id, &change.undone).await?;
                }
                if goes_on {
                    let mut next = thread.clone();
                    next.values = None;
                    let next = Seen { thread: Some((next, live)), op: Some(op.id), there: None, ..seen };
                    self.0.known.keep(asked.thread, next);
                }
                Ok(Attempt::Ended(Changed::Stored { result, thread: Box::new(thread), token }))
            }
            Answer::Changed => Ok(Attempt::Again),
            refused => Ok(Attempt::Ended(Changed::Refused(refused))),
        }
    }
}
