//! Reads a thread's runs, decides a change, and stores it. Starts over if another process has changed the runs
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_checkpoint::checkpoint::{Lease, SaverError};
use hier_runs::{Changed, Run, RunsError, ThreadChange, ThreadDecision, ThreadRow};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::Postgres;
use super::super::batcher::Batchable as _;
use super::super::fault::PostgresFault;
use super::super::mail::InboxTables;
use super::super::session::{PostgresSession, Transaction, retrying};
use super::change::{ChangeAnswer, ChangeExtras, LoadedThread, claimed};
use super::change_row::ChangeRow;
use super::tables::RunTables;

/// The number of conflicts after which a change locks the thread before it reads it.
const PATIENCE: usize = 3;

pub(super) struct ChangeRequest<'a> {
    pub(super) change: &'a ThreadChange,
    pub(super) extras: ChangeExtras<'a>,
    /// The thread in the state that this process has last stored.
    pub(super) known: Option<LoadedThread>,
    /// True if the change waits for other processes that are changing the thread. If false, such a change is refused.
    pub(super) waits: bool,
}

impl ChangeRequest<'_> {
    fn new_run(&self) -> Option<Uuid> {
        self.change.new_run().and_then(|run| run.id)
    }
}

pub(super) enum ChangeOutcome {
    Stored(Box<Changed>),
    /// An earlier attempt has stored the change, but its answer was lost.
    Before(Box<LoadedThread>),
    Nothing,
    Refused(ChangeAnswer),
}

/// The identity that all attempts of a change share.
struct ChangeId {
    id: Uuid,
    /// True if an attempt was sent and its result may be unknown.
    sent: AtomicBool,
}

impl ChangeId {
    fn new(session: &PostgresSession) -> Self {
        Self { id: session.new_change(), sent: AtomicBool::new(false) }
    }

    /// Returns true if an attempt whose answer was lost has stored the change. Other changes may follow it.
    async fn is_stored(
        &self,
        postgres: &Postgres,
        held: Option<RunTables<'_>>,
        seen: &LoadedThread,
    ) -> Result<bool, PostgresFault> {
        if !self.sent.load(Ordering::Relaxed) || seen.op == Some(self.id) {
            return Ok(seen.op == Some(self.id));
        }
        let Some(tables) = held else {
            let client = postgres.0.session.client().await?;
            return self.is_kept(postgres.tables(&client)).await;
        };
        self.is_kept(tables).await
    }

    async fn is_kept(&self, tables: RunTables<'_>) -> Result<bool, PostgresFault> {
        let found = tables.query("select 1 from {s}.run_changes where op = $1", &[(&self.id, Type::UUID)]).await?;
        Ok(!found.is_empty())
    }
}

struct DecidedChange<'a> {
    runs: Vec<Run>,
    started: Option<Run>,
    seen: LoadedThread,
    thread: ThreadRow,
    undone: Vec<Uuid>,
    settled: Vec<Uuid>,
    item: Arc<ChangeRow>,
    /// The live runs, if this process continues to hold the thread after the change.
    live: Option<Vec<Run>>,
    request: &'a ChangeRequest<'a>,
}

enum AttemptOutcome {
    Ended(ChangeOutcome),
    /// Another process has changed the runs first.
    Again,
    /// The change needs several statements, and therefore a transaction.
    IsLong,
    Failed(RunsError),
}

impl Postgres {
    pub(super) async fn store_change(&self, mut request: ChangeRequest<'_>) -> Result<ChangeOutcome, RunsError> {
        self.ready().await?;
        let thread = &*request.change.thread;
        // One change at a time in this process, so that each change starts from the result of the previous one.
        let turn = if request.waits {
            Some(self.0.change_locks.lock(thread).await)
        } else {
            self.0.change_locks.try_lock(thread)
        };
        let Some(_turn) = turn else { return Ok(ChangeOutcome::Refused(ChangeAnswer::Alone)) };
        // All attempts use one id, so that they store the change once.
        let (op, mut rounds, mut is_long) = (ChangeId::new(&self.0.session), 0, false);
        loop {
            if rounds > PATIENCE {
                // If the result of an attempt is unknown, it may have claimed a run. Without the claim's result, no
                // worker would execute this run.
                if !request.waits && !op.sent.load(Ordering::Relaxed) {
                    return Ok(ChangeOutcome::Refused(ChangeAnswer::Changed));
                }
                is_long = true;
            }
            match self.attempt(&mut request, &op, is_long).await? {
                AttemptOutcome::Ended(changed) => return Ok(changed),
                AttemptOutcome::Failed(error) => return Err(error),
                AttemptOutcome::IsLong => is_long = true,
                AttemptOutcome::Again => rounds += 1,
            }
        }
    }

    async fn attempt(
        &self,
        request: &mut ChangeRequest<'_>,
        op: &ChangeId,
        is_long: bool,
    ) -> Result<AttemptOutcome, SaverError> {
        if is_long {
            // The future is large and rarely needed.
            return Box::pin(self.attempt_long(request, op)).await;
        }
        retrying!(self.0.session.attempts() => self.attempt_short(request, op).await)
    }

    /// Makes an attempt in a transaction that locks the thread first.
    async fn attempt_long(&self, request: &ChangeRequest<'_>, op: &ChangeId) -> Result<AttemptOutcome, SaverError> {
        let session = &self.0.session;
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let tables = self.tables(transaction.client());
            let attempt = async {
                tables.hold(&request.change.thread).await?;
                let seen = tables.load(&request.change.thread, request.new_run()).await?;
                match self.decided(Some(tables), request, seen, op).await? {
                    Ok(decided) => self.put_held(tables, decided, op).await,
                    Err(attempt) => Ok(attempt),
                }
            };
            match attempt.await {
                Ok(done @ AttemptOutcome::Ended(ChangeOutcome::Stored(_))) => transaction.end(Ok(done)).await,
                Ok(other) => transaction.undo().await.map(|()| other),
                Err(fault) => transaction.end(Err(fault)).await,
            }
        })
    }

    /// Makes an attempt without a transaction. The first statement reads the thread unless it is known, and the second
    /// one stores the decision.
    async fn attempt_short(
        &self,
        request: &mut ChangeRequest<'_>,
        op: &ChangeId,
    ) -> Result<AttemptOutcome, PostgresFault> {
        let seen = match request.known.take() {
            Some(seen) => seen,
            None => self.load_shared(&request.change.thread, request.new_run()).await?,
        };
        match self.decided(None, request, seen, op).await? {
            Ok(decided) => self.put_short(decided, op).await,
            Err(attempt) => Ok(attempt),
        }
    }

    /// Decides the change. Returns `Err` if the attempt ends without a change to store. `held` contains the tables in a
    /// transaction that locks the thread.
    async fn decided<'a>(
        &self,
        held: Option<RunTables<'_>>,
        request: &'a ChangeRequest<'a>,
        seen: LoadedThread,
        op: &ChangeId,
    ) -> Result<Result<DecidedChange<'a>, AttemptOutcome>, PostgresFault> {
        if op.is_stored(self, held, &seen).await? {
            return Ok(Err(AttemptOutcome::Ended(ChangeOutcome::Before(Box::new(seen)))));
        }
        let mut decision = match request.change.clone().decide(seen.snapshot()) {
            Ok(Some(decision)) => decision,
            Ok(None) => return Ok(Err(AttemptOutcome::Ended(ChangeOutcome::Nothing))),
            Err(error) => {
                // Without the lease, the change is refused for this reason, whatever other runs have stored.
                let is_held = self.is_held(held, request.extras.lease).await?;
                let error = if is_held { error } else { self.superseded(request.change).await };
                return Ok(Err(AttemptOutcome::Failed(error)));
            }
        };
        // The statement must claim the thread for this run, or it stores nothing.
        decision.start();
        let ThreadDecision { queue, runs, started, .. } = decision;
        let claim = request.extras.claim.filter(|_| started.is_some());
        let extras = ChangeExtras { claim, ..request.extras };
        // The next change of this process then need not read the thread.
        let continues = !extras.ends && (extras.lease.is_some() || extras.claim.is_some());
        let live = continues.then(|| queue.live().to_vec());
        let (mut thread, change) = queue.changed();
        let ends = !change.undone.is_empty() || !change.settled.is_empty();
        let has_more = request.extras.also.is_some() || request.extras.document.is_some() || change.is_crowded || ends;
        match held {
            None if has_more => return Ok(Err(AttemptOutcome::IsLong)),
            Some(tables) if change.is_crowded => tables.trim(&mut thread).await?,
            _ => {}
        }
        let item = Arc::new(ChangeRow::encode(&self.0.vault, &seen, op.id, (&thread, &change), extras)?);
        let (undone, settled) = (change.undone, change.settled);
        Ok(Ok(DecidedChange { runs, started, seen, thread, undone, settled, item, live, request }))
    }

    /// Returns true if the lease is valid, and for a change without a lease.
    async fn is_held(&self, held: Option<RunTables<'_>>, lease: Option<&Lease>) -> Result<bool, PostgresFault> {
        let Some(lease) = lease else { return Ok(true) };
        match held {
            Some(tables) => tables.is_held(lease).await,
            None => self.tables(&self.0.session.client().await?).is_held(lease).await,
        }
    }

    /// Stores the change, and its parts that need separate statements, in a transaction that locks the thread.
    async fn put_held(
        &self,
        tables: RunTables<'_>,
        decided: DecidedChange<'_>,
        op: &ChangeId,
    ) -> Result<AttemptOutcome, PostgresFault> {
        let was_sent = op.sent.swap(true, Ordering::Relaxed);
        let extras = decided.request.extras;
        if let (Some(run), Some(records)) = (extras.also.and_then(|also| also.run), extras.records) {
            tables.kept().keep(&decided.request.change.thread, run, records).await?;
        }
        let answer = tables.put(&decided.item, true).await?;
        if matches!(answer, ChangeAnswer::Done(_)) {
            if let Some(also) = decided.request.extras.also {
                let mailbox = InboxTables {
                    session: tables.session,
                    client: tables.client,
                    thread: &decided.request.change.thread,
                };
                mailbox.change(also, op.id).await?;
            }
            if !decided.undone.is_empty() {
                // The undone records include records that this change has stored.
                tables.undo(&decided.thread.id, &decided.undone).await?;
            }
            if let Some(document) = extras.document {
                tables.put_due(document).await?;
            }
            if !decided.settled.is_empty() {
                tables.kept().settle(&decided.settled).await?;
            }
        }
        Ok(self.answered(decided, answer, op, was_sent))
    }

    /// Stores the change with one statement, which it shares with other changes if possible.
    async fn put_short(&self, decided: DecidedChange<'_>, op: &ChangeId) -> Result<AttemptOutcome, PostgresFault> {
        let mut was_sent = op.sent.swap(true, Ordering::Relaxed);
        if decided.item.may_share() && decided.item.is_small() {
            match self.send_shared(decided.item.clone()).await {
                // An earlier attempt may still hold the lock of the thread.
                Some(ChangeAnswer::Alone) if !decided.request.waits && !was_sent => {
                    return Ok(AttemptOutcome::Ended(ChangeOutcome::Refused(ChangeAnswer::Alone)));
                }
                Some(ChangeAnswer::Alone | ChangeAnswer::LacksParent) => {}
                Some(answer) => return Ok(self.answered(decided, answer, op, was_sent)),
                None => was_sent = true,
            }
        }
        Box::pin(self.put_alone(decided, op, was_sent)).await
    }

    async fn put_alone(
        &self,
        decided: DecidedChange<'_>,
        op: &ChangeId,
        was_sent: bool,
    ) -> Result<AttemptOutcome, PostgresFault> {
        let client = self.0.session.client().await?;
        // Once the thread is not locked, the result of an earlier attempt is known.
        let waits = decided.request.waits || was_sent;
        let answer = self.tables(&client).put(&decided.item, waits).await?;
        if matches!(answer, ChangeAnswer::Alone) && !waits {
            return Ok(AttemptOutcome::Ended(ChangeOutcome::Refused(answer)));
        }
        Ok(self.answered(decided, answer, op, was_sent))
    }

    fn answered(
        &self,
        decided: DecidedChange<'_>,
        answer: ChangeAnswer,
        op: &ChangeId,
        was_sent: bool,
    ) -> AttemptOutcome {
        let DecidedChange { runs, started, seen, mut thread, live, request, .. } = decided;
        let ChangeAnswer::Done(token) = answer else {
            // This attempt has stored nothing.
            op.sent.store(was_sent, Ordering::Relaxed);
            return match answer {
                ChangeAnswer::Changed | ChangeAnswer::Alone | ChangeAnswer::LacksParent => AttemptOutcome::Again,
                refused => AttemptOutcome::Ended(ChangeOutcome::Refused(refused)),
            };
        };
        let changed = Changed::new(&thread, runs, claimed(request.change, started, Some(token)));
        if let Some(live) = live {
            thread.values = None;
            let next = LoadedThread { thread: Some((thread, live)), op: Some(op.id), there: None, ..seen };
            self.0.thread_cache.insert(&request.change.thread, next);
        }
        AttemptOutcome::Ended(ChangeOutcome::Stored(Box::new(changed)))
    }
}
