//! Claims, and the check at the start of each commit.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_checkpoint::checkpoint::{Claim, Lease, SaverError, WhenRunning};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::fault::Fault;

/// A thread whose lease the caller holds.
pub(super) struct HeldThread {
    pub(super) key: i64,
    time_to_live: Option<i64>,
}

/// Returns the time in milliseconds since 1970.
pub(super) fn now() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the duration of a lease in milliseconds. The limit ensures that adding it to a time does not overflow.
fn lasts(duration: Duration) -> i64 {
    millis(duration).min(i64::MAX / 4)
}

pub(super) fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// Returns the holder of a valid lease. Ignores a lease that ends later than its duration from now, because the clock
/// was set back after the claim.
pub(super) fn holder(connection: &Connection, thread: &str) -> Result<Option<String>, Fault> {
    let sql = "select holder from threads where name = ?1 and holder is not null and leased_until > ?2
        and leased_until <= ?2 + coalesce(lasts, leased_until)";
    Ok(connection.prepare_cached(sql)?.query_row(params![thread, now()], |row| row.get(0)).optional()?)
}

/// If the clock was set back after the claim, limits the lease to its duration from now. A holder that is alive renews
/// the lease. A holder that died then holds the thread no longer than this.
fn bound(connection: &Connection, thread: &str) -> Result<(), Fault> {
    let sql = "update threads set leased_until = ?2 + lasts where name = ?1 and leased_until > ?2 + lasts";
    connection.prepare_cached(sql)?.execute(params![thread, now()])?;
    Ok(())
}

/// The result of a claim. A refusal is not a fault, so the transaction keeps its changes.
pub(super) type Claimed = Result<Lease, SaverError>;

pub(super) fn claim(connection: &Connection, thread: &str, claim: &Claim) -> Result<Claimed, Fault> {
    if claim.when_running != WhenRunning::TakeOver {
        bound(connection, thread)?;
        if let Some(holder) = holder(connection, thread)? {
            return Ok(Err(SaverError::Busy { thread: thread.to_owned(), holder }));
        }
    }
    let token = next_token(connection)?;
    let until = now().saturating_add(lasts(claim.lasts));
    let mut lives = claim.time_to_live.map(millis);
    if claim.keeps_time_to_live {
        let sql = "select time_to_live from threads where name = ?";
        lives = connection.prepare_cached(sql)?.query_row([thread], |row| row.get(0)).optional()?.flatten();
    }
    // A thread does not expire before its first commit.
    connection
        .prepare_cached(
            "insert into threads (name, token, holder, leased_until, time_to_live, lasts) values (?1, ?2, ?3, ?4, ?5, ?7)
            on conflict (name) do update set token = ?2, holder = ?3, leased_until = ?4, time_to_live = ?5, lasts = ?7,
            expires = case when exists (select 1 from spaces where thread = threads.key) then ?6 end",
        )?
        .execute(params![
            thread,
            token,
            claim.holder,
            until,
            lives,
            lives.map(|lives| now().saturating_add(lives)),
            lasts(claim.lasts)
        ])?;
    let token = u64::try_from(token).unwrap_or_default();
    let driven = is_driven(connection, thread)?;
    Ok(Ok(Lease::new(thread, token, claim.lasts).driven(driven)))
}

fn is_driven(connection: &Connection, thread: &str) -> Result<bool, Fault> {
    let sql = "select 1 from due where thread = ? and driven = 1";
    Ok(connection.prepare_cached(sql)?.exists([thread])?)
}

/// Returns a new token. One counter serves all threads, so that a thread's tokens also grow if the thread is deleted in
/// between.
fn next_token(connection: &Connection) -> Result<i64, Fault> {
    let sql = "update tokens set last = last + 1 returning last";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Returns the thread if this token is current.
fn held(connection: &Connection, thread: &str, lease: u64) -> Result<HeldThread, Fault> {
    let sql = "select key, time_to_live from threads where name = ? and token = ?";
    let token = i64::try_from(lease).unwrap_or(-1);
    let read = |row: &rusqlite::Row<'_>| Ok(HeldThread { key: row.get(0)?, time_to_live: row.get(1)? });
    let held = connection.prepare_cached(sql)?.query_row(params![thread, token], read).optional()?;
    held.map_or_else(|| Err(lost(connection, thread, lease)), Ok)
}

/// A held thread with one of its namespaces.
pub(super) struct HeldSpace {
    pub(super) held: HeldThread,
    /// The key of the namespace, if it exists.
    pub(super) space: Option<i64>,
    pub(super) has_checkpoint: bool,
}

/// Like [`held`], but the statement also looks up a namespace and one of its checkpoints. Each commit begins with this.
pub(super) fn held_space(
    connection: &Connection,
    (thread, lease): (&str, u64),
    (namespace, checkpoint): (Option<&str>, Option<Uuid>),
) -> Result<HeldSpace, Fault> {
    let sql = "select threads.key, time_to_live, spaces.key,
            exists (select 1 from checkpoints where space = spaces.key and id = ?4)
        from threads left join spaces on spaces.thread = threads.key and spaces.name = ?3
        where threads.name = ?1 and token = ?2";
    let token = i64::try_from(lease).unwrap_or(-1);
    let checkpoint = checkpoint.as_ref().map(Uuid::as_bytes);
    let read = |row: &rusqlite::Row<'_>| {
        let held = HeldThread { key: row.get(0)?, time_to_live: row.get(1)? };
        Ok(HeldSpace { held, space: row.get(2)?, has_checkpoint: row.get(3)? })
    };
    let asked = params![thread, token, namespace, checkpoint];
    let held = connection.prepare_cached(sql)?.query_row(asked, read).optional()?;
    held.map_or_else(|| Err(lost(connection, thread, lease)), Ok)
}

/// Returns the error for a lease with this token that no longer holds the thread.
pub(super) fn lost(connection: &Connection, thread: &str, lease: u64) -> Fault {
    let token = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    let sql = "select token from threads where name = ?";
    let current = connection.prepare_cached(sql).and_then(|mut sql| sql.query_row([thread], token).optional());
    match current {
        Ok(current) => {
            SaverError::superseded(thread, lease, current.and_then(|token| u64::try_from(token).ok())).into()
        }
        Err(error) => error.into(),
    }
}

impl HeldThread {
    /// Restarts the thread's time to live after a commit.
    pub(super) fn touch(&self, connection: &Connection) -> Result<(), Fault> {
        if let Some(lives) = self.time_to_live {
            let expires = now().saturating_add(lives);
            let sql = "update threads set expires = ? where key = ?";
            connection.prepare_cached(sql)?.execute(params![expires, self.key])?;
        }
        Ok(())
    }
}

pub(super) fn renew(connection: &Connection, lease: &Lease) -> Result<(), Fault> {
    let held = held(connection, &lease.thread, lease.token)?;
    let until = now().saturating_add(lasts(lease.lasts));
    let sql = "update threads set leased_until = ? where key = ?";
    connection.prepare_cached(sql)?.execute(params![until, held.key])?;
    Ok(())
}

pub(super) fn release(connection: &Connection, lease: &Lease) -> Result<(), Fault> {
    let sql = "update threads set holder = null, leased_until = null where name = ? and token = ?";
    let token = i64::try_from(lease.token).unwrap_or(-1);
    connection.prepare_cached(sql)?.execute(params![&*lease.thread, token])?;
    Ok(())
}
