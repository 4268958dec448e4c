//! Deletes threads, each in a transaction that locks the thread.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use hier_checkpoint::checkpoint::{Checkpoint, Checkpointer, Deletion, ListQuery, SaverError, background};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::client::PooledClient;
use super::fault::PostgresFault;
use super::session::{Parameter, PostgresSession, Transaction, retrying};
use super::text::{escape, unescape};
use hier_checkpoint::backend::retention::{PieceKey, Unread, unneeded};
use hier_checkpoint::backend::rows::{open_body, seal_body};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The maximum number of expired threads that one transaction deletes, in addition to their background threads. Each of
/// its statements must end within the time limit, even if all of the threads are long.
pub(super) const EXPIRED: u64 = 10;

/// The maximum number of namespaces that one statement deletes.
const NAMESPACES: usize = 1_000;

/// Checkpoints with their namespaces. The checkpoints of each namespace are ordered from newest to oldest.
pub(super) type History = Vec<(Arc<str>, Checkpoint)>;

#[derive(Clone, Copy)]
pub(super) struct ThreadEditor<'a> {
    pub(super) session: &'a PostgresSession,
    pub(super) client: &'a PooledClient,
    pub(super) vault: &'a ValueCodec,
}

impl Postgres {
    /// Deletes the parts of a thread that the plan selects. Returns the number of deleted checkpoints.
    async fn delete_some_of(
        &self,
        thread: &str,
        plan: &(impl Fn(&History) -> Deletion + Sync + Send),
    ) -> Result<u64, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        let deleted = retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = ThreadEditor { session, client: transaction.client(), vault };
            let changed = change.delete_some(thread, plan).await;
            transaction.end(changed).await
        });
        self.0.conversations.forget(thread);
        let deleted = deleted?;
        self.0.released.notify_waiters();
        Ok(deleted)
    }

    /// Deletes the parts of these threads that the plan selects. Skips threads that cannot be read and reports them at
    /// the end. Reads each thread without a lock first, because the plan selects nothing in most threads.
    pub(super) async fn delete_of(
        &self,
        threads: Vec<String>,
        plan: impl Fn(&str, &History) -> Deletion + Sync + Send,
    ) -> Result<u64, SaverError> {
        let (mut deleted, mut unread) = (0, Unread::default());
        for thread in threads {
            let all = ListQuery { namespace: None, ..ListQuery::thread(&*thread) };
            let listed = unread.pass(self.list(all).await)?;
            let history: History = listed.into_iter().map(|it| (it.namespace, it.checkpoint)).collect();
            let plan = |history: &History| plan(&thread, history);
            if !plan(&history).is_empty() {
                deleted += unread.pass(self.delete_some_of(&thread, &plan).await)?;
            }
        }
        unread.report().map(|()| deleted)
    }
}

impl Postgres {
    /// Deletes expired threads, and rows of threads without checkpoints and without a holder. Returns the number of
    /// deleted threads. If one part fails, the other parts still run.
    pub(super) async fn sweep_threads(&self) -> Result<u64, SaverError> {
        let (expired, empty, runs) = (self.sweep_expired().await, self.sweep_empty().await, self.sweep_runs().await);
        empty?;
        Ok(expired? + runs?)
    }

    async fn sweep_expired(&self) -> Result<u64, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        let (mut swept, mut after) = (0, Some(String::new()));
        while let Some(last) = after {
            let (count, next) = retrying!(session, client => {
                let transaction = Transaction::begin(client).await?;
                let change = ThreadEditor { session, client: transaction.client(), vault };
                let changed = change.sweep(&last).await;
                transaction.end(changed).await
            })?;
            swept += count;
            after = next;
        }
        Ok(swept)
    }

    async fn sweep_empty(&self) -> Result<(), SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = ThreadEditor { session, client: transaction.client(), vault };
            let changed = change.delete_empty().await;
            transaction.end(changed).await
        })
    }
}

impl ThreadEditor<'_> {
    pub(super) async fn query(
        self,
        sql: &str,
        with: &[Parameter<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, PostgresFault> {
        self.session.query(self.client, &self.session.statements.with_schema(sql), with).await
    }

    /// Locks a thread until the end of the transaction, and returns its key.
    pub(super) async fn hold(self, thread: &str) -> Result<Option<i64>, PostgresFault> {
        let name = escape(thread);
        let rows = self.query("select key from {s}.threads where name = $1 for update", &[(&name, Type::TEXT)]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    async fn history(self, thread: &str, key: i64) -> Result<History, PostgresFault> {
        let sql = "select namespace, id, body from {s}.checkpoints where thread = $1 order by namespace, id desc";
        let rows = self.query(sql, &[(&key, Type::INT8)]).await?;
        let all = rows.iter().map(|row| {
            let namespace = unescape(row.try_get(0)?);
            let checkpoint = open_body(self.vault, thread, &namespace, row.try_get(1)?, row.try_get(2)?)?;
            Ok((namespace, checkpoint))
        });
        all.collect()
    }

    /// Deletes the parts of a thread that the plan selects. Returns the number of deleted checkpoints.
    pub(super) async fn delete_some(
        self,
        thread: &str,
        plan: &(impl Fn(&History) -> Deletion + Sync),
    ) -> Result<u64, PostgresFault> {
        let Some(key) = self.hold(thread).await? else { return Ok(0) };
        let history = self.history(thread, key).await?;
        let deletion = plan(&history);
        if deletion.is_empty() {
            return Ok(0);
        }
        let mut checkpoints: BTreeMap<&Arc<str>, Vec<&Checkpoint>> = BTreeMap::new();
        for (namespace, checkpoint) in &history {
            checkpoints.entry(namespace).or_default().push(checkpoint);
        }
        let (mut emptied, mut shortened) = (Vec::new(), Vec::new());
        for (namespace, all) in checkpoints {
            match all.iter().filter(|checkpoint| deletion.has(namespace, checkpoint.id)).count() {
                0 => {}
                count if count == all.len() => emptied.push(escape(namespace)),
                _ => shortened.push((namespace, all)),
            }
        }
        // In parts, so that each statement ends within its time limit.
        for part in emptied.chunks(NAMESPACES) {
            self.delete_namespaces(key, part).await?;
        }
        for (namespace, all) in shortened {
            self.delete_in(thread, key, namespace, all, &deletion).await?;
        }
        if deletion.ends_lease {
            let sql = "update {s}.threads set token = 0, holder = null, leased_until = null where key = $1";
            self.query(sql, &[(&key, Type::INT8)]).await?;
        }
        Ok(deletion.checkpoints.len() as u64)
    }

    /// Deletes all data of these namespaces. A thread may have a namespace for each call of a subgraph.
    async fn delete_namespaces(self, key: i64, namespaces: &[Cow<'_, str>]) -> Result<(), PostgresFault> {
        let sql = "with pieces as (delete from {s}.pieces where thread = $1 and namespace = any($2)),
                writes as (delete from {s}.writes where thread = $1 and namespace = any($2)),
                overwritten as (delete from {s}.overwritten where thread = $1 and namespace = any($2))
            delete from {s}.checkpoints where thread = $1 and namespace = any($2)";
        self.query(sql, &[(&key, Type::INT8), (&namespaces, Type::TEXT_ARRAY)]).await.map(|_| ())
    }

    async fn delete_in(
        self,
        thread: &str,
        key: i64,
        namespace: &Arc<str>,
        checkpoints: Vec<&Checkpoint>,
        deletion: &Deletion,
    ) -> Result<(), PostgresFault> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            checkpoints.into_iter().partition(|checkpoint| deletion.has(namespace, checkpoint.id));
        let gone: Vec<Uuid> = gone.iter().map(|checkpoint| checkpoint.id).collect();
        let name = escape(namespace);
        let with = [(&key as _, Type::INT8), (&name as _, Type::TEXT), (&gone as _, Type::UUID_ARRAY)];
        self.query("delete from {s}.checkpoints where thread = $1 and namespace = $2 and id = any($3)", &with).await?;
        self.query("delete from {s}.writes where thread = $1 and namespace = $2 and checkpoint = any($3)", &with)
            .await?;
        let sql = "delete from {s}.overwritten where thread = $1 and namespace = $2 and checkpoint = any($3)";
        self.query(sql, &with).await?;
        for checkpoint in &kept {
            if checkpoint.parent.is_some_and(|parent| deletion.has(namespace, parent)) {
                let mut cut_off = (*checkpoint).clone();
                cut_off.parent = None;
                let body = seal_body(self.vault, thread, namespace, &cut_off)?;
                let sql = "update {s}.checkpoints set body = $4 where thread = $1 and namespace = $2 and id = $3";
                let with = [&with[..2], &[(&cut_off.id as _, Type::UUID), (&body as _, Type::BYTEA)]].concat();
                self.query(sql, &with).await?;
            }
        }
        let pieces = self.piece_keys(&with[..2]).await?;
        let (channels, versions): (Vec<_>, Vec<_>) = unneeded(kept, &pieces).into_iter().unzip();
        let channels: Vec<_> = channels.iter().map(|channel| escape(channel)).collect();
        let sql = "delete from {s}.pieces p using unnest($3::text[], $4::uuid[]) r (channel, version)
            where p.thread = $1 and p.namespace = $2 and p.channel = r.channel and p.version = r.version";
        let with = [&with[..2], &[(&channels as _, Type::TEXT_ARRAY), (&versions as _, Type::UUID_ARRAY)]].concat();
        self.query(sql, &with).await?;
        Ok(())
    }

    async fn piece_keys(self, space: &[Parameter<'_>]) -> Result<Vec<PieceKey>, PostgresFault> {
        let sql = "select channel, version, base from {s}.pieces where thread = $1 and namespace = $2";
        let rows = self.query(sql, space).await?;
        rows.iter().map(|row| Ok((unescape(row.try_get(0)?), row.try_get(1)?, row.try_get(2)?))).collect()
    }

    /// Deletes a thread with all its data. Its lease is superseded.
    pub(super) async fn delete_thread(self, thread: &str) -> Result<(), PostgresFault> {
        self.delete_threads(&[escape(thread).into_owned()]).await
    }

    /// Deletes the threads with these stored names, and their background threads.
    pub(super) async fn delete_threads(self, names: &[String]) -> Result<(), PostgresFault> {
        self.delete_only(&[names, &self.within(names).await?].concat()).await
    }

    /// Returns the stored names of the background threads of these threads. This compares prefixes, which the escaping
    /// of names preserves.
    pub(super) async fn within(self, names: &[String]) -> Result<Vec<String>, PostgresFault> {
        let ranges = names.iter().map(|name| background::names_within(name));
        let (low, high): (Vec<_>, Vec<_>) = ranges.map(|Range { start, end }| (start, end)).unzip();
        let sql = "with ranges as (select * from unnest($1::text[], $2::text[]) r (low, high))
            select name from {s}.threads, ranges where name >= low and name < high
            union select thread from {s}.mail, ranges where thread >= low and thread < high
            union select name from {s}.run_threads, ranges where name >= low and name < high";
        texts(&self.query(sql, &[(&low, Type::TEXT_ARRAY), (&high, Type::TEXT_ARRAY)]).await?)
    }

    pub(super) async fn delete_only(self, names: &[String]) -> Result<(), PostgresFault> {
        let sql = "select key from {s}.threads where name = any($1) order by name for update";
        let keys = keys(&self.query(sql, &[(&names, Type::TEXT_ARRAY)]).await?)?;
        self.delete_mail(names).await?;
        if keys.is_empty() { Ok(()) } else { self.delete_keys(&keys).await }
    }

    async fn delete_mail(self, threads: &[String]) -> Result<(), PostgresFault> {
        let sql =
            "with mail as (delete from {s}.mail where thread = any($1)) delete from {s}.due where thread = any($1)";
        self.query(sql, &[(&threads, Type::TEXT_ARRAY)]).await.map(|_| ())
    }

    async fn delete_keys(self, keys: &[i64]) -> Result<(), PostgresFault> {
        let sql = "with checkpoints as (delete from {s}.checkpoints where thread = any($1)),
                pieces as (delete from {s}.pieces where thread = any($1)),
                writes as (delete from {s}.writes where thread = any($1)),
                overwritten as (delete from {s}.overwritten where thread = any($1))
            delete from {s}.threads where key = any($1)";
        self.query(sql, &[(&keys, Type::INT8_ARRAY)]).await.map(|_| ())
    }

    /// Deletes at most [`EXPIRED`] expired threads whose names follow `after`. A background thread expires with its
    /// outer thread. Returns the number of deleted threads, and the name from which the next call continues, if there
    /// may be more.
    pub(super) async fn sweep(self, after: &str) -> Result<(u64, Option<String>), PostgresFault> {
        let sql = format!(
            "select name from {{s}}.threads where expires <= clock_timestamp() and name > $1
            and (holder is null or leased_until <= clock_timestamp()) order by name limit {EXPIRED}
            for update skip locked"
        );
        let mut expired = texts(&self.query(&sql, &[(&after, Type::TEXT)]).await?)?;
        let next = expired.last().filter(|_| expired.len() as u64 == EXPIRED).cloned();
        let outer: Vec<&str> = expired.iter().filter_map(|name| background::outer_of(name)).collect();
        if !outer.is_empty() {
            let sql = "select name from {s}.threads where name = any($1)";
            let outer: BTreeSet<String> =
                texts(&self.query(sql, &[(&outer, Type::TEXT_ARRAY)]).await?)?.into_iter().collect();
            expired.retain(|name| background::outer_of(name).is_none_or(|name| !outer.contains(name)));
        }
        self.delete_threads(&expired).await?;
        Ok((expired.len() as u64, next))
    }

    /// Deletes rows of threads without checkpoints and without a holder.
    pub(super) async fn delete_empty(self) -> Result<(), PostgresFault> {
        let sql = "select key from {s}.threads t where holder is null
            and not exists (select 1 from {s}.checkpoints c where c.thread = t.key) for update skip locked";
        let held = keys(&self.query(sql, &[]).await?)?;
        // A run may have committed and ended before the lock. Only a new statement sees its checkpoints.
        let sql = "select key from {s}.threads t where key = any($1)
            and not exists (select 1 from {s}.checkpoints c where c.thread = t.key)";
        self.delete_keys(&keys(&self.query(sql, &[(&held, Type::INT8_ARRAY)]).await?)?).await
    }

    /// Returns all threads, or the background threads of these threads.
    pub(super) async fn names(self, within: Option<&[String]>) -> Result<Vec<String>, PostgresFault> {
        if let Some(outer) = within {
            let outer: Vec<String> = outer.iter().map(|name| escape(name).into_owned()).collect();
            return Ok(self.within(&outer).await?.iter().map(|name| unescape(name).to_string()).collect());
        }
        let sql = "select name from {s}.threads
            union select thread from {s}.mail where taken is null or run is not null";
        let rows = self.query(sql, &[]).await?;
        rows.iter().map(|row| Ok(unescape(row.try_get(0)?).to_string())).collect()
    }
}

fn texts(rows: &[tokio_postgres::Row]) -> Result<Vec<String>, PostgresFault> {
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

fn keys(rows: &[tokio_postgres::Row]) -> Result<Vec<i64>, PostgresFault> {
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
