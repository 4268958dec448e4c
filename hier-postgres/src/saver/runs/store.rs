//! Reads a thread's runs, lets a change decide, and stores that; again if somebody else has changed them meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::runs::{Changed, Run, RunsError, ThreadChange, ThreadDecision, ThreadRow};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::Postgres;
use super::super::fault::Fault;
use super::super::mail::Mailbox;
use super::super::session::{Session, Transaction, retrying};
use super::change::{Answer, Beside, Seen, claimed};
use super::item::Item;
use super::tables::Tables;

/// After so many changes by others a change holds the thread before it reads it.
const PATIENCE: usize = 3;

/// A change as it is asked for.
pub(super) struct Asked<'a> {
    pub(super) change: &'a ThreadChange,
    pub(super) beside: Beside<'a>,
    /// The thread as it was when it was last looked at.
    pub(super) known: Option<Seen>,
    /// Whether it waits for whoever is at work on the thread. It is refused otherwise.
    pub(super) waits: bool,
}

impl Asked<'_> {
    /// The id of a run that is to be added.
    fn new_run(&self) -> Option<Uuid> {
        self.change.new_run().and_then(|run| run.id)
    }
}

/// What came of a change.
pub(super) enum ChangeOutcome {
    /// It is stored.
    Stored(Box<Changed>),
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
    async fn is_stored(&self, postgres: &Postgres, held: Option<Tables<'_>>, seen: &Seen) -> Result<bool, Fault> {
        if !self.sent.load(Ordering::Relaxed) || seen.op == Some(self.id) {
            return Ok(seen.op == Some(self.id));
        }
        let Some(tables) = held else {
            let client = postgres.0.session.client().await?;
            return self.is_kept(postgres.tables(&client)).await;
        };
        self.is_kept(tables).await
    }

    async fn is_kept(&self, tables: Tables<'_>) -> Result<bool, Fault> {
        let found = tables.query("select 1 from {s}.run_changes where op = $1", &[(&self.id, Type::UUID)]).await?;
        Ok(!found.is_empty())
    }
}

/// A change that was decided, and is to be stored.
struct Decided<'a> {
    runs: Vec<Run>,
    started: Option<Run>,
    seen: Seen,
    thread: ThreadRow,
    undone: Vec<Uuid>,
    settled: Vec<Uuid>,
    item: Arc<Item>,
    /// The runs that have not ended, if the thread is gone on with.
    live: Option<Vec<Run>>,
    asked: &'a Asked<'a>,
}

/// One attempt.
enum Attempt {
    Ended(ChangeOutcome),
    /// Somebody else was faster.
    Again,
    /// It takes several statements, and so a transaction.
    IsLong,
    /// The caller has refused it.
    Failed(RunsError),
}

impl Postgres {
    /// Changes a thread's runs, with everything or not at all.
    pub(super) async fn store_change(&self, mut asked: Asked<'_>) -> Result<ChangeOutcome, RunsError> {
        self.ready().await?;
        let thread = &*asked.change.thread;
        // Those of this process one after the other: each begins with what the one before it has left.
        let turn = if asked.waits { Some(self.0.changes.take(thread).await) } else { self.0.changes.try_take(thread) };
        let Some(_turn) = turn else { return Ok(ChangeOutcome::Refused(Answer::Alone)) };
        // One for all attempts, so that it is stored once.
        let (op, mut rounds, mut is_long) = (Op::new(&self.0.session), 0, false);
        loop {
            if rounds > PATIENCE {
                // Unless an attempt was sent of which it is not known whether it was stored: nobody would do what it claimed.
                if !asked.waits && !op.sent.load(Ordering::Relaxed) {
                    return Ok(ChangeOutcome::Refused(Answer::Changed));
                }
                is_long = true;
            }
            match self.attempt(&mut asked, &op, is_long).await? {
                Attempt::Ended(changed) => return Ok(changed),
                Attempt::Failed(error) => return Err(error),
                Attempt::IsLong => is_long = true,
                Attempt::Again => rounds += 1,
            }
        }
    }

    async fn attempt(&self, asked: &mut Asked<'_>, op: &Op, is_long: bool) -> Result<Attempt, SaverError> {
        if is_long {
            // Rare, and large.
            return Box::pin(self.attempt_long(asked, op)).await;
        }
        retrying!(self.0.session.attempts() => self.attempt_short(asked, op).await)
    }

    /// One in a transaction that holds the thread from the beginning.
    async fn attempt_long(&self, asked: &Asked<'_>, op: &Op) -> Result<Attempt, SaverError> {
        let session = &self.0.session;
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let tables = self.tables(transaction.client());
            let attempt = async {
                tables.hold(&asked.change.thread).await?;
                let seen = tables.see(&asked.change.thread, asked.new_run()).await?;
                match self.decided(Some(tables), asked, seen, op).await? {
                    Ok(decided) => self.put_held(tables, decided, op).await,
                    Err(attempt) => Ok(attempt),
                }
            };
            match attempt.await {
                Ok(done @ Attempt::Ended(ChangeOutcome::Stored(_))) => transaction.end(Ok(done)).await,
                Ok(other) => transaction.undo().await.map(|()| other),
                Err(fault) => transaction.end(Err(fault)).await,
            }
        })
    }

    /// One that takes a statement to look at the thread, unless it is known, and one to store what was decided.
    async fn attempt_short(&self, asked: &mut Asked<'_>, op: &Op) -> Result<Attempt, Fault> {
        let seen = match asked.known.take() {
            Some(seen) => seen,
            None => self.see(&asked.change.thread, asked.new_run()).await?,
        };
        match self.decided(None, asked, seen, op).await? {
            Ok(decided) => self.put_short(decided, op).await,
            Err(attempt) => Ok(attempt),
        }
    }

    /// What is to be stored; or how the attempt has ended without. In the transaction that holds the thread, if there is one.
    async fn decided<'a>(
        &self,
        held: Option<Tables<'_>>,
        asked: &'a Asked<'a>,
        seen: Seen,
        op: &Op,
    ) -> Result<Result<Decided<'a>, Attempt>, Fault> {
        if op.is_stored(self, held, &seen).await? {
            return Ok(Err(Attempt::Ended(ChangeOutcome::Before(Box::new(seen)))));
        }
        let mut decision = match asked.change.clone().decide(seen.snapshot()) {
            Ok(Some(decision)) => decision,
            Ok(None) => return Ok(Err(Attempt::Ended(ChangeOutcome::Nothing))),
            Err(error) => return Ok(Err(Attempt::Failed(error))),
        };
        // The statement takes the thread, or stores nothing.
        decision.start();
        let ThreadDecision { queue, runs, started, .. } = decision;
        let claim = asked.beside.claim.filter(|_| started.is_some());
        let beside = Beside { claim, ..asked.beside };
        // Whoever goes on with the thread is spared from reading it again.
        let goes_on = !beside.ends && (beside.lease.is_some() || beside.claim.is_some());
        let live = goes_on.then(|| queue.live().to_vec());
        let (mut thread, change) = queue.changed();
        let ends = !change.undone.is_empty() || !change.settled.is_empty();
        let has_more = asked.beside.also.is_some() || asked.beside.document.is_some() || change.is_crowded || ends;
        match held {
            None if has_more => return Ok(Err(Attempt::IsLong)),
            Some(tables) if change.is_crowded => tables.trim(&mut thread).await?,
            _ => {}
        }
        let item = Arc::new(Item::of(&self.0.vault, &seen, op.id, (&thread, &change), beside)?);
        let (undone, settled) = (change.undone, change.settled);
        Ok(Ok(Decided { runs, started, seen, thread, undone, settled, item, live, asked }))
    }

    /// Stores it in a transaction that holds the thread, with what takes statements of its own.
    async fn put_held(&self, tables: Tables<'_>, decided: Decided<'_>, op: &Op) -> Result<Attempt, Fault> {
        let was_sent = op.sent.swap(true, Ordering::Relaxed);
        let beside = decided.asked.beside;
        if let (Some(run), Some(records)) = (beside.also.and_then(|also| also.run), beside.records) {
            tables.kept().keep(&decided.asked.change.thread, run, records).await?;
        }
        let answer = tables.put(&decided.item, true).await?;
        if matches!(answer, Answer::Done(_)) {
            if let Some(also) = decided.asked.beside.also {
                let mailbox =
                    Mailbox { session: tables.session, client: tables.client, thread: &decided.asked.change.thread };
                mailbox.change(also, op.id).await?;
            }
            if !decided.undone.is_empty() {
                // Also what was stored with this.
                tables.undo(&decided.thread.id, &decided.undone).await?;
            }
            if let Some(document) = beside.document {
                tables.put_due(document).await?;
            }
            if !decided.settled.is_empty() {
                tables.kept().settle(&decided.settled).await?;
            }
        }
        Ok(self.answered(decided, answer, op, was_sent))
    }

    /// Stores it with a statement, if it can be together with others.
    async fn put_short(&self, decided: Decided<'_>, op: &Op) -> Result<Attempt, Fault> {
        let mut was_sent = op.sent.swap(true, Ordering::Relaxed);
        if decided.item.may_share() {
            match self.share(&decided.item).await {
                // An earlier attempt may be what is at work on the thread.
                Some(Answer::Alone) if !decided.asked.waits && !was_sent => {
                    return Ok(Attempt::Ended(ChangeOutcome::Refused(Answer::Alone)));
                }
                Some(Answer::Alone | Answer::LacksParent) => {}
                Some(answer) => return Ok(self.answered(decided, answer, op, was_sent)),
                None => was_sent = true,
            }
        }
        Box::pin(self.put_alone(decided, op, was_sent)).await
    }

    /// Stores it with a statement of its own.
    async fn put_alone(&self, decided: Decided<'_>, op: &Op, was_sent: bool) -> Result<Attempt, Fault> {
        let client = self.0.session.client().await?;
        // Whether an earlier attempt was stored is known once whoever is at work on the thread has ended.
        let waits = decided.asked.waits || was_sent;
        let answer = self.tables(&client).put(&decided.item, waits).await?;
        if matches!(answer, Answer::Alone) && !waits {
            return Ok(Attempt::Ended(ChangeOutcome::Refused(answer)));
        }
        Ok(self.answered(decided, answer, op, was_sent))
    }

    fn answered(&self, decided: Decided<'_>, answer: Answer, op: &Op, was_sent: bool) -> Attempt {
        let Decided { runs, started, seen, mut thread, live, asked, .. } = decided;
        let Answer::Done(token) = answer else {
            // This attempt has stored nothing, that is known.
            op.sent.store(was_sent, Ordering::Relaxed);
            return match answer {
                Answer::Changed | Answer::Alone | Answer::LacksParent => Attempt::Again,
                refused => Attempt::Ended(ChangeOutcome::Refused(refused)),
            };
        };
        let changed = Changed::new(&thread, runs, claimed(asked.change, started, Some(token)));
        if let Some(live) = live {
            thread.values = None;
            let next = Seen { thread: Some((thread, live)), op: Some(op.id), there: None, ..seen };
            self.0.known.keep(&asked.change.thread, next);
        }
        Attempt::Ended(ChangeOutcome::Stored(Box::new(changed)))
    }
}
