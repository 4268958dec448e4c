//! Claims, and the check that each commit begins with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_checkpoint::checkpoint::{Claim, Lease, SaverError, WhenRunning};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::fault::Fault;
use super::mail;

/// A thread that is held by the one who asks.
pub(super) struct Held {
    pub(super) key: i64,
    /// In milliseconds.
    time_to_live: Option<i64>,
}

/// Milliseconds since 1970.
pub(super) fn now() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How long a lease is for: what is added to the time must not run over.
fn lasts(duration: Duration) -> i64 {
    millis(duration).min(i64::MAX / 4)
}

pub(super) fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// The present holder, unless the clock has been set back since.
pub(super) fn holder(connection: &Connection, thread: &str) -> Result<Option<String>, Fault> {
    let sql = "select holder from threads where name = ?1 and holder is not null and leased_until > ?2
        and leased_until <= ?2 + coalesce(lasts, leased_until)";
    Ok(connection.prepare_cached(sql)?.query_row(params![thread, now()], |row| row.get(0)).optional()?)
}

/// A lease that runs for longer than it was for was taken before the clock was set back: from now on it runs as long as it was
/// for. A holder who lives renews it, and one who died holds the thread no longer than that.
fn bound(connection: &Connection, thread: &str) -> Result<(), Fault> {
    let sql = "update threads set leased_until = ?2 + lasts where name = ?1 and leased_until > ?2 + lasts";
    connection.prepare_cached(sql)?.execute(params![thread, now()])?;
    Ok(())
}

/// What a claim has come to. A refusal is no fault: what it has changed is kept.
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
    let lives = claim.time_to_live.map(millis);
    // A thread has no time to expire at before its first commit.
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
    let driven = mail::is_driven(connection, thread)?;
    Ok(Ok(Lease::new(thread, token, claim.lasts).driven(driven)))
}

/// Of all threads, so that tokens grow also where a thread was deleted in between.
fn next_token(connection: &Connection) -> Result<i64, Fault> {
    let sql = "update tokens set last = last + 1 returning last";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The thread, if nobody else has claimed it since.
fn held(connection: &Connection, thread: &str, token: u64) -> Result<Held, Fault> {
    let sql = "select key, time_to_live from threads where name = ? and token = ?";
    let token = i64::try_from(token).unwrap_or(-1);
    let read = |row: &rusqlite::Row<'_>| Ok(Held { key: row.get(0)?, time_to_live: row.get(1)? });
    let held = connection.prepare_cached(sql)?.query_row(params![thread, token], read).optional()?;
    held.ok_or_else(|| superseded(thread))
}

/// A thread that is held, with one of its namespaces.
pub(super) struct HeldSpace {
    pub(super) held: Held,
    /// The key of the namespace, if it is there.
    pub(super) space: Option<i64>,
    /// Whether it has the checkpoint that was asked for.
    pub(super) has_checkpoint: bool,
}

/// As [`held`], and looks with the same statement for a namespace and a checkpoint of it: each commit begins with that.
pub(super) fn held_space(
    connection: &Connection,
    (thread, token): (&str, u64),
    (namespace, checkpoint): (Option<&str>, Option<Uuid>),
) -> Result<HeldSpace, Fault> {
    let sql = "select threads.key, time_to_live, spaces.key,
            exists (select 1 from checkpoints where space = spaces.key and id = ?4)
        from threads left join spaces on spaces.thread = threads.key and spaces.name = ?3
        where threads.name = ?1 and token = ?2";
    let token = i64::try_from(token).unwrap_or(-1);
    let checkpoint = checkpoint.as_ref().map(Uuid::as_bytes);
    let read = |row: &rusqlite::Row<'_>| {
        let held = Held { key: row.get(0)?, time_to_live: row.get(1)? };
        Ok(HeldSpace { held, space: row.get(2)?, has_checkpoint: row.get(3)? })
    };
    let asked = params![thread, token, namespace, checkpoint];
    let held = connection.prepare_cached(sql)?.query_row(asked, read).optional()?;
    held.ok_or_else(|| superseded(thread))
}

fn superseded(thread: &str) -> Fault {
    SaverError::Superseded { thread: thread.to_owned() }.into()
}

impl Held {
    /// Something was committed: the thread's time to live begins anew.
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
