//! Encrypts the rows of the runs with the current key. Each transaction handles one page, so that writers wait briefly and little memory is
//! needed.

use hier_checkpoint::checkpoint::SaverError;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::client::Parameter;
use super::super::fault::PostgresFault;
use super::super::text::unescape;
use super::tables::RunTables;
use hier_checkpoint::backend::retention::{PAGE_BYTES, PAGE_ROWS, UnreadRows};
use hier_checkpoint::backend::storage_key::StorageKey;
use hier_runs::rows::{DOCUMENTS, EVENTS, RUNS, THREADS, VALUES, document_key, event_key, integer, number};

/// A position in the rows: a table, and its last finished row. `None` at the start of the table.
pub(in super::super) enum ReencryptPosition {
    Threads(Option<String>),
    Runs(Option<Uuid>),
    Events(Option<(String, i64)>),
    Documents(Option<(String, String)>),
}

impl ReencryptPosition {
    pub(in super::super) const fn start() -> Self {
        Self::Threads(None)
    }
}

/// The rows of a page that could not be read, and the next position.
pub(in super::super) type Sealed = (UnreadRows, Option<ReencryptPosition>);

impl RunTables<'_> {
    /// Encrypts the next page, and returns the next position, which is `None` at the end. Rows that cannot be read stay as they are.
    pub(in super::super) async fn reencrypt(&self, after: &ReencryptPosition) -> Result<Sealed, PostgresFault> {
        let mut unread = UnreadRows::default();
        let next = match after {
            ReencryptPosition::Threads(last) => self.seal_threads(last.as_deref(), &mut unread).await?,
            ReencryptPosition::Runs(last) => self.seal_runs(*last, &mut unread).await?,
            ReencryptPosition::Events(last) => {
                self.seal_events(last.as_ref().map(|(thread, at)| (&**thread, *at)), &mut unread).await?
            }
            ReencryptPosition::Documents(last) => {
                self.seal_documents(last.as_ref().map(|(kind, id)| (&**kind, &**id)), &mut unread).await?
            }
        };
        Ok((unread, next))
    }

    async fn seal_threads(
        &self,
        last: Option<&str>,
        unread: &mut UnreadRows,
    ) -> Result<Option<ReencryptPosition>, PostgresFault> {
        let bytes = "octet_length(body) + coalesce(octet_length(vals), 0)";
        let rows = page("run_threads", "name", "name, body, vals", bytes, "$1::text is null or name > $1");
        let rows = self.query(&rows, &[(&last, Type::TEXT)]).await?;
        let Some(end) = rows.last() else { return Ok(Some(ReencryptPosition::Runs(None))) };
        let end = ReencryptPosition::Threads(Some(end.try_get(0)?));
        for row in &rows {
            let (name, values): (&str, Option<Vec<u8>>) = (row.try_get(0)?, row.try_get(2)?);
            let id = unescape(name);
            let body = self.again(unread, THREADS, &id, row.try_get(1)?)?;
            let values = values.map(|stored| self.again(unread, VALUES, &id, stored)).transpose()?.flatten();
            let sql = "update {s}.run_threads set body = coalesce($2, body), vals = coalesce($3, vals) where name = $1";
            self.query(sql, &[(&name, Type::TEXT), (&body, Type::BYTEA), (&values, Type::BYTEA)]).await?;
        }
        Ok(Some(end))
    }

    async fn seal_runs(
        &self,
        last: Option<Uuid>,
        unread: &mut UnreadRows,
    ) -> Result<Option<ReencryptPosition>, PostgresFault> {
        let rows = page("runs", "id", "id, body", "octet_length(body)", "$1::uuid is null or id > $1");
        let rows = self.query(&rows, &[(&last, Type::UUID)]).await?;
        let Some(end) = rows.last() else { return Ok(Some(ReencryptPosition::Events(None))) };
        let end = ReencryptPosition::Runs(Some(end.try_get(0)?));
        for row in &rows {
            let id: Uuid = row.try_get(0)?;
            let sealed = self.again(unread, RUNS, &id.to_string(), row.try_get(1)?)?;
            self.put_sealed("update {s}.runs set body = $1 where id = $2", sealed, &[(&id, Type::UUID)]).await?;
        }
        Ok(Some(end))
    }

    async fn seal_events(
        &self,
        last: Option<(&str, i64)>,
        unread: &mut UnreadRows,
    ) -> Result<Option<ReencryptPosition>, PostgresFault> {
        let after = "$1::text is null or (thread, number) > ($1, $2::bigint)";
        let rows = page("events", "thread, number", "thread, number, body", "octet_length(body)", after);
        let (thread, at) = last.unzip();
        let rows = self.query(&rows, &[(&thread, Type::TEXT), (&at, Type::INT8)]).await?;
        let Some(end) = rows.last() else { return Ok(Some(ReencryptPosition::Documents(None))) };
        let end = ReencryptPosition::Events(Some((end.try_get(0)?, end.try_get(1)?)));
        for row in &rows {
            let (thread, at): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
            let sealed = self.again(unread, EVENTS, &event_key(&unescape(thread), number(at)), row.try_get(2)?)?;
            let sql = "update {s}.events set body = $1 where thread = $2 and number = $3";
            self.put_sealed(sql, sealed, &[(&thread, Type::TEXT), (&at, Type::INT8)]).await?;
        }
        Ok(Some(end))
    }

    async fn seal_documents(
        &self,
        last: Option<(&str, &str)>,
        unread: &mut UnreadRows,
    ) -> Result<Option<ReencryptPosition>, PostgresFault> {
        let after = "$1::text is null or (kind, id) > ($1, $2::text)";
        let rows = page("documents", "kind, id", "kind, id, body", "octet_length(body)", after);
        let (kind, id) = last.unzip();
        let rows = self.query(&rows, &[(&kind, Type::TEXT), (&id, Type::TEXT)]).await?;
        let Some(end) = rows.last() else { return Ok(None) };
        let end = ReencryptPosition::Documents(Some((end.try_get(0)?, end.try_get(1)?)));
        for row in &rows {
            let (kind, id): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
            let sealed =
                self.again(unread, DOCUMENTS, &document_key(&unescape(kind), &unescape(id)), row.try_get(2)?)?;
            let sql = "update {s}.documents set body = $1 where kind = $2 and id = $3";
            self.put_sealed(sql, sealed, &[(&kind, Type::TEXT), (&id, Type::TEXT)]).await?;
        }
        Ok(Some(end))
    }

    /// Encrypts a value with the current key. Returns `None` if it cannot be read.
    fn again(
        &self,
        unread: &mut UnreadRows,
        table: &'static str,
        key: &str,
        stored: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, SaverError> {
        let place = StorageKey::Row { table, key };
        let opened = unread.pass(self.vault.open(place, stored), |error| self.unreadable.log(error))?;
        opened.map(|opened| self.vault.seal(place, opened)).transpose()
    }

    /// Updates a row, unless its value could not be read.
    async fn put_sealed(&self, sql: &str, sealed: Option<Vec<u8>>, of: &[Parameter<'_>]) -> Result<(), PostgresFault> {
        let Some(sealed) = sealed else { return Ok(()) };
        let with: Vec<Parameter<'_>> = std::iter::once((&sealed as _, Type::BYTEA)).chain(of.iter().cloned()).collect();
        self.query(sql, &with).await.map(|_| ())
    }
}

/// The statement that reads and locks the next rows of a table: at most as many as a page has, fewer if they are long, but at least one.
fn page(table: &str, key: &str, columns: &str, bytes: &str, after: &str) -> String {
    let (rows, most) = (integer(PAGE_ROWS as u64), integer(PAGE_BYTES as u64));
    format!(
        "select {columns} from {{s}}.{table} where ({key}) in (
            select {key} from (
                select {key}, sum(bytes) over (order by {key}) - bytes as before from (
                    select {key}, {bytes} as bytes from {{s}}.{table} where {after} order by {key} limit {rows}
                ) of_rows
            ) sized where before < {most}
        ) order by {key} for update"
    )
}
