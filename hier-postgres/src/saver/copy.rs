//! Copies threads, and seals their data again, each in a transaction that locks the thread.

use hier_checkpoint::checkpoint::background;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::commit::MAX_BYTES;
use super::delete::ThreadEditor;
use super::fault::PostgresFault;
use super::mail::InboxTables;
use super::read::write;
use super::records::{BatchOwner, store_batch};
use super::text::{escape, unescape};
#[cfg(feature = "encryption")]
use super::undo::UndoLog;
use hier_checkpoint::backend::retention::{PAGE_BYTES, PAGE_ROWS};
use hier_checkpoint::backend::rows::{Batch, CheckpointRow, PieceRow, open_body, seal_body};
#[cfg(feature = "encryption")]
use hier_checkpoint::backend::storage_key::StorageKey;

impl ThreadEditor<'_> {
    /// Replaces the history of `to` and of its background threads by a copy of the history of `from`. The copy is
    /// sealed again, because encrypted values are bound to their thread.
    pub(super) async fn copy_thread(self, from: &str, to: &str) -> Result<(), PostgresFault> {
        // The order is always the same, so that two copies do not deadlock.
        let (mut source, mut held) = (None, [from, to]);
        held.sort_unstable();
        for thread in held {
            let key = self.hold(thread).await?;
            source = if thread == from { key } else { source };
        }
        let (to_stored, from_stored) = (escape(to).into_owned(), escape(from).into_owned());
        let mut replaced = self.within(std::slice::from_ref(&to_stored)).await?;
        replaced.retain(|name| *name != from_stored && !background::is_within(name, &from_stored));
        replaced.push(to_stored);
        self.delete_only(&replaced).await?;
        let Some(source) = source else { return Ok(()) };
        let sql = "insert into {s}.threads (name, token, time_to_live, expires)
            select $2, 0, time_to_live, expires from {s}.threads
            where key = $1 and exists (select 1 from {s}.checkpoints where thread = $1) returning key";
        let name = escape(to);
        let rows = self.query(sql, &[(&source, Type::INT8), (&name, Type::TEXT)]).await?;
        let Some(copy) = rows.first() else { return Ok(()) };
        self.seal_for((from, source), (to, copy.try_get(0)?)).await?;
        InboxTables { session: self.session, client: self.client, thread: from }.copy_due(to).await
    }

    async fn store_all(self, key: i64, batch: Batch) -> Result<(), PostgresFault> {
        for part in batch.split(MAX_BYTES) {
            store_batch(self.session, self.client, &BatchOwner::Unclaimed(key), &part).await?;
        }
        Ok(())
    }

    /// Encrypts a thread with the current key. Returns 1 if the thread exists, and otherwise 0.
    #[cfg(feature = "encryption")]
    pub(super) async fn reencrypt(self, thread: &str) -> Result<u64, PostgresFault> {
        let held = self.hold(thread).await?;
        self.seal_mail(thread).await?;
        let Some(key) = held else { return Ok(0) };
        self.seal_for((thread, key), (thread, key)).await?;
        UndoLog { session: self.session, client: self.client }.reencrypt(self.vault, thread, key).await?;
        Ok(1)
    }

    #[cfg(feature = "encryption")]
    async fn seal_mail(self, thread: &str) -> Result<(), PostgresFault> {
        let name = escape(thread);
        let sql = "select id, value, signal from {s}.mail where thread = $1 and (taken is null or run is not null) for update";
        for row in self.query(sql, &[(&name, Type::TEXT)]).await? {
            let id: Uuid = row.try_get(0)?;
            let signal = row.try_get::<_, Option<&str>>(2)?.map(unescape);
            let place = StorageKey::InboxMessage { thread, id, signal: signal.as_deref() };
            let value = self.vault.seal(place, self.vault.open(place, row.try_get(1)?)?)?;
            let with = [(&name as _, Type::TEXT), (&id as _, Type::UUID), (&value as _, Type::BYTEA)];
            self.query("update {s}.mail set value = $3 where thread = $1 and id = $2", &with).await?;
        }
        Ok(())
    }

    /// Seals the records of the thread `from` for the thread `to`, and stores them there. Each thread has a name and a
    /// key. Reads and stores pages of limited size, because the records may exceed the memory.
    async fn seal_for(self, from: (&str, i64), to: (&str, i64)) -> Result<(), PostgresFault> {
        let (mut namespace, mut id) = (String::new(), Uuid::nil());
        loop {
            let with = [(&from.1 as _, Type::INT8), (&namespace as _, Type::TEXT), (&id as _, Type::UUID)];
            let rows = self.query(&page("checkpoints", "namespace, id", "body", "body"), &with).await?;
            let Some(last) = rows.last() else { break };
            (namespace, id) = (last.try_get(0)?, last.try_get(1)?);
            let mut batch = Batch::default();
            for row in &rows {
                let (namespace, id) = (unescape(row.try_get(0)?), row.try_get(1)?);
                let checkpoint = open_body(self.vault, from.0, &namespace, id, row.try_get(2)?)?;
                let body = seal_body(self.vault, to.0, &namespace, &checkpoint)?;
                batch.checkpoints.push(CheckpointRow { namespace, id, body });
            }
            self.store_all(to.1, batch).await?;
        }
        self.seal_pieces_for(from, to).await?;
        self.seal_writes_for(from, to).await
    }

    async fn seal_pieces_for(self, from: (&str, i64), to: (&str, i64)) -> Result<(), PostgresFault> {
        let sql = page("pieces", "namespace, channel, version", "base, value", "value");
        let (mut namespace, mut channel, mut version) = (String::new(), String::new(), Uuid::nil());
        loop {
            let with = [
                (&from.1 as _, Type::INT8),
                (&namespace as _, Type::TEXT),
                (&channel as _, Type::TEXT),
                (&version as _, Type::UUID),
            ];
            let rows = self.query(&sql, &with).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            (namespace, channel, version) = (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?);
            let mut batch = Batch::default();
            for row in &rows {
                let (namespace, channel) = (unescape(row.try_get(0)?), unescape(row.try_get(1)?));
                let (version, base, value) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
                let piece = PieceRow { namespace, channel, version, base, value };
                batch.pieces.push(piece.open(self.vault, from.0)?.seal(self.vault, to.0)?);
            }
            self.store_all(to.1, batch).await?;
        }
    }

    async fn seal_writes_for(self, from: (&str, i64), to: (&str, i64)) -> Result<(), PostgresFault> {
        let sql = page("writes", "namespace, checkpoint, task, slot", "path, channel, value", "value");
        let (mut namespace, mut checkpoint, mut task, mut slot) = (String::new(), Uuid::nil(), Uuid::nil(), i32::MIN);
        loop {
            let with = [
                (&from.1 as _, Type::INT8),
                (&namespace as _, Type::TEXT),
                (&checkpoint as _, Type::UUID),
                (&task as _, Type::UUID),
                (&slot as _, Type::INT4),
            ];
            let rows = self.query(&sql, &with).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            let after = (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?, last.try_get(3)?);
            let mut batch = Batch::default();
            for row in &rows {
                let write = write(row, 1, unescape(row.try_get(0)?))?;
                batch.writes.push(write.open(self.vault, from.0)?.seal(self.vault, to.0)?);
            }
            if from.1 == to.1 {
                // Storing the writes would not replace existing ones.
                let sql = "delete from {s}.writes
                    where thread = $1 and (namespace, checkpoint, task, slot) > ($2, $3, $4, $5)
                    and (namespace, checkpoint, task, slot) <= ($6, $7, $8, $9)";
                let until = [
                    (&after.0 as _, Type::TEXT),
                    (&after.1 as _, Type::UUID),
                    (&after.2 as _, Type::UUID),
                    (&after.3 as _, Type::INT4),
                ];
                self.query(sql, &[&with[..], &until[..]].concat()).await?;
            }
            (namespace, checkpoint, task, slot) = after;
            self.store_all(to.1, batch).await?;
        }
    }
}

/// Returns a statement for a page of a thread's rows, in the order of `keys`. The page follows the row whose keys are
/// the parameters from `$2`, and ends with the row that fills it. Selects the keys and then `others`.
fn page(table: &str, keys: &str, others: &str, value: &str) -> String {
    let after: Vec<String> = (2..).zip(keys.split(',')).map(|(number, _)| format!("${number}")).collect();
    let after = after.join(", ");
    format!(
        "select {keys}, {others} from (
            select *, sum(octet_length({value})) over (order by {keys}) - octet_length({value}) as before from (
                select * from {{s}}.{table} where thread = $1 and ({keys}) > ({after}) order by {keys} limit {PAGE_ROWS}
            ) page
        ) sized where before < {PAGE_BYTES} order by {keys}"
    )
}
