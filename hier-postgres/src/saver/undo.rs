//! Undoes runs. Until a run ends, the saver keeps the writes that the run overwrites and the messages that it takes.
//! All methods need a transaction that locks the thread.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::PooledClient;
use super::fault::PostgresFault;
use super::session::{Parameter, PostgresSession};
use super::text::escape;
use hier_checkpoint::backend::rows::Batch;
#[cfg(feature = "encryption")]
use {super::read::write, super::text::unescape, hier_checkpoint::backend::value_codec::ValueCodec};

/// The writes that runs have overwritten, and the messages that they have taken.
#[derive(Clone, Copy)]
pub(super) struct UndoLog<'a> {
    pub(super) session: &'a PostgresSession,
    pub(super) client: &'a PooledClient,
}

impl UndoLog<'_> {
    async fn query(self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<tokio_postgres::Row>, PostgresFault> {
        self.session.query(self.client, &self.session.statements.with_schema(sql), with).await
    }

    /// Keeps the writes that a run is about to change.
    pub(super) async fn keep(self, thread: &str, run: Uuid, batch: &Batch) -> Result<(), PostgresFault> {
        if batch.writes.is_empty() {
            return Ok(());
        }
        let name = escape(thread);
        let namespaces: Vec<_> = batch.writes.iter().map(|row| escape(&row.namespace)).collect();
        let checkpoints: Vec<Uuid> = batch.writes.iter().map(|row| row.checkpoint).collect();
        let tasks: Vec<Uuid> = batch.writes.iter().map(|row| row.task).collect();
        let slots: Vec<i32> = batch.writes.iter().map(|row| row.slot).collect();
        let sql = "insert into {s}.overwritten (run, thread, namespace, checkpoint, task, slot, path, channel, value)
            select $2, t.key, r.namespace, r.checkpoint, r.task, r.slot, old.path, old.channel, old.value
            from {s}.threads t
            cross join unnest($3::text[], $4::uuid[], $5::uuid[], $6::int4[]) r (namespace, checkpoint, task, slot)
            left join {s}.writes old on old.thread = t.key and old.namespace = r.namespace
                and old.checkpoint = r.checkpoint and old.task = r.task and old.slot = r.slot
            where t.name = $1
            on conflict do nothing";
        let with: [Parameter<'_>; 6] = [
            (&name, Type::TEXT),
            (&run, Type::UUID),
            (&namespaces, Type::TEXT_ARRAY),
            (&checkpoints, Type::UUID_ARRAY),
            (&tasks, Type::UUID_ARRAY),
            (&slots, Type::INT4_ARRAY),
        ];
        self.query(sql, &with).await.map(|_| ())
    }

    /// Restores the writes that a run has overwritten and the messages that it has taken.
    pub(super) async fn undo(self, thread: &str, run: Uuid) -> Result<(), PostgresFault> {
        let (name, of_run): (_, [Parameter<'_>; 1]) = (escape(thread), [(&run, Type::UUID)]);
        for sql in [
            "delete from {s}.writes w using {s}.overwritten o where o.run = $1 and o.value is null
                and w.thread = o.thread and w.namespace = o.namespace and w.checkpoint = o.checkpoint
                and w.task = o.task and w.slot = o.slot",
            "insert into {s}.writes (thread, namespace, checkpoint, task, slot, path, channel, value)
            select thread, namespace, checkpoint, task, slot, path, channel, value from {s}.overwritten
            where run = $1 and value is not null
            on conflict (thread, namespace, checkpoint, task, slot)
            do update set path = excluded.path, channel = excluded.channel, value = excluded.value",
            "delete from {s}.overwritten where run = $1",
        ] {
            self.query(sql, &of_run).await?;
        }
        let sql = "update {s}.mail set taken = null, run = null where thread = $1 and run = $2";
        self.query(sql, &[(&name, Type::TEXT), (&run, Type::UUID)]).await.map(|_| ())
    }

    /// Discards the kept writes and messages of ended runs.
    pub(super) async fn settle(self, runs: &[Uuid]) -> Result<(), PostgresFault> {
        let sql = "with kept as (delete from {s}.overwritten where run = any($1))
            update {s}.mail set value = '', size = 0, run = null where run = any($1)";
        self.query(sql, &[(&runs, Type::UUID_ARRAY)]).await.map(|_| ())
    }

    /// Encrypts the kept writes of a thread with the current key.
    #[cfg(feature = "encryption")]
    pub(super) async fn reencrypt(self, vault: &ValueCodec, thread: &str, key: i64) -> Result<(), PostgresFault> {
        let sql = "select namespace, checkpoint, task, slot, path, channel, value, run from {s}.overwritten
            where thread = $1 and value is not null";
        for row in self.query(sql, &[(&key, Type::INT8)]).await? {
            let run: Uuid = row.try_get(7)?;
            let kept = write(&row, 1, unescape(row.try_get(0)?))?.open(vault, thread)?.seal(vault, thread)?;
            let namespace = escape(&kept.namespace);
            let sql = "update {s}.overwritten set value = $7 where run = $1 and thread = $2 and namespace = $3
                and checkpoint = $4 and task = $5 and slot = $6";
            let with: [Parameter<'_>; 7] = [
                (&run, Type::UUID),
                (&key, Type::INT8),
                (&namespace, Type::TEXT),
                (&kept.checkpoint, Type::UUID),
                (&kept.task, Type::UUID),
                (&kept.slot, Type::INT4),
                (&kept.value, Type::BYTEA),
            ];
            self.query(sql, &with).await?;
        }
        Ok(())
    }
}
