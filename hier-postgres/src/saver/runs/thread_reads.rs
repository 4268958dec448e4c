//! Reads threads with their runs before changes. Requests of the same time share a statement.

use std::collections::VecDeque;
use std::sync::Arc;

use hier_checkpoint::checkpoint::SaverError;
use hier_runs::{Run, ThreadRow};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::Postgres;
use super::super::batcher::{Batchable, Batcher};
use super::super::fault::PostgresFault;
use super::super::session::first_row;
use super::super::text::{escape, unescape};
use super::change::LoadedThread;
use super::tables::RunTables;
use hier_checkpoint::backend::value_codec::ValueCodec;
use hier_runs::rows::{THREADS, number, open, open_live, open_run, time};

/// Threads that wait for a worker, ordered from the longest wait. A thread without data has not been read.
pub(super) type WaitingThreads = VecDeque<(String, Result<Option<LoadedThread>, SaverError>)>;

pub(in super::super) struct ReadRequest {
    /// The escaped name.
    name: String,
    new: Option<Uuid>,
}

impl ReadRequest {
    pub(super) fn new(thread: &str, new: Option<Uuid>) -> Self {
        Self { name: escape(thread).into_owned(), new }
    }
}

impl Batchable for ReadRequest {
    type Answer = Row;

    const MAX_ITEMS: usize = 64;
    const MAX_SIZE: usize = usize::MAX;

    fn size(&self) -> usize {
        0
    }

    fn batcher(postgres: &Postgres) -> &Arc<Batcher<Self>> {
        &postgres.0.thread_reads
    }

    async fn send_batch(postgres: &Postgres, batch: Vec<Self>) -> Vec<Row> {
        postgres.answers_of(postgres.read_threads(&batch).await)
    }
}

impl Postgres {
    /// Like [`RunTables::load`], but shares a statement with other reads of the same time.
    pub(super) async fn load_shared(&self, thread: &str, new: Option<Uuid>) -> Result<LoadedThread, PostgresFault> {
        match self.send_shared(ReadRequest::new(thread, new)).await {
            Some(row) => loaded_at(&self.0.vault, thread, new, &row, 1),
            None => self.tables(&self.0.session.client().await?).load(thread, new).await,
        }
    }

    async fn read_threads(&self, requests: &[ReadRequest]) -> Result<Vec<Row>, PostgresFault> {
        self.tables(&self.0.session.client().await?).read_rows(requests).await
    }
}

impl RunTables<'_> {
    async fn read_rows(&self, requests: &[ReadRequest]) -> Result<Vec<Row>, PostgresFault> {
        let names: Vec<&str> = requests.iter().map(|request| &*request.name).collect();
        let new: Vec<Option<Uuid>> = requests.iter().map(|request| request.new).collect();
        let sql = "select * from {s}.runs_of_several($1, $2) where {own} order by place";
        let rows = self.query_often(sql, &[(&names, Type::TEXT_ARRAY), (&new, Type::UUID_ARRAY)]).await?;
        if rows.len() == requests.len() {
            return Ok(rows);
        }
        Err(PostgresFault::NoConnection(format!(
            "the server returned {} rows instead of {}",
            rows.len(),
            requests.len()
        )))
    }

    /// Reads a thread and its live runs. With the id of a run to add, also reads the data for this run. Fails with
    /// [`SaverError::Damaged`] if rows of the thread cannot be read.
    pub(super) async fn load(&self, thread: &str, new: Option<Uuid>) -> Result<LoadedThread, PostgresFault> {
        let rows = self.read_rows(&[ReadRequest::new(thread, new)]).await?;
        loaded_at(self.vault, thread, new, first_row(&rows)?, 1)
    }

    /// Returns threads that a worker with these graphs may claim, ordered from the longest wait. Reads only the first
    /// `most` threads. Leaves out threads that are known to be unreadable.
    pub(super) async fn waiting(
        &self,
        graphs: Option<&[String]>,
        most: usize,
    ) -> Result<WaitingThreads, PostgresFault> {
        let passed_over = self.unreadable.threads();
        let without: Vec<_> = passed_over.iter().map(|thread| escape(thread)).collect();
        let graphs: Option<Vec<_>> = graphs.map(|graphs| graphs.iter().map(|graph| escape(graph)).collect());
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let sql = "select case when r.place = 1 then w.names end, r.* from {s}.waiting($1, $2) w (names),
            {s}.runs_of_several(w.names[1:$3], array[]::uuid[]) r where cardinality(w.names) > 0 and {own} order by r.place";
        let with = [(&graphs as _, Type::TEXT_ARRAY), (&without as _, Type::TEXT_ARRAY), (&most as _, Type::INT4)];
        let rows = self.query_often(sql, &with).await?;
        let Some(first) = rows.first() else { return Ok(WaitingThreads::new()) };
        let mut rows = rows.iter();
        let mut waiting = WaitingThreads::new();
        for name in first.try_get::<_, Vec<String>>(0)? {
            let name = unescape(&name).to_string();
            let loaded = match rows.next().map(|row| loaded_at(self.vault, &name, None, row, 2)).transpose() {
                Err(PostgresFault::Saver(error)) => Err(error),
                read => Ok(read?),
            };
            waiting.push_back((name, loaded));
        }
        Ok(waiting)
    }
}

/// Decodes a thread whose columns begin at this index.
fn loaded_at(
    vault: &ValueCodec,
    thread: &str,
    new: Option<Uuid>,
    row: &Row,
    column: usize,
) -> Result<LoadedThread, PostgresFault> {
    decode(vault, thread, new, row, column).map_err(|fault| fault.of_thread(thread))
}

fn decode(
    vault: &ValueCodec,
    thread: &str,
    new: Option<Uuid>,
    row: &Row,
    column: usize,
) -> Result<LoadedThread, PostgresFault> {
    let body: Option<Vec<u8>> = row.try_get(column)?;
    let (ids, bodies): (Option<Vec<Uuid>>, Option<Vec<Vec<u8>>>) = (row.try_get(column + 3)?, row.try_get(column + 4)?);
    let live = ids.unwrap_or_default().into_iter().zip(bodies.unwrap_or_default());
    let live =
        live.map(|(id, body)| Ok(open_live(vault, id, thread, body)?)).collect::<Result<Vec<Run>, PostgresFault>>()?;
    let row_of = |body| Ok::<ThreadRow, PostgresFault>(open(vault, THREADS, thread, body)?);
    let thread = body.map(row_of).transpose()?.map(|found| (found, live));
    let there: Option<Vec<u8>> = row.try_get(column + 6)?;
    Ok(LoadedThread {
        thread,
        op: row.try_get(column + 1)?,
        now: time(row.try_get(column + 2)?),
        number: number(row.try_get::<_, Option<i64>>(column + 5)?.unwrap_or_default()),
        there: new.zip(there).map(|(id, body)| open_run(vault, id, None, body)).transpose()?,
    })
}
