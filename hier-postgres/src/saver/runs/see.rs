//! Reading a thread with its runs, before they are changed: those that are asked for at the same time with one statement.

use std::collections::VecDeque;
use std::sync::Arc;

use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::runs::{Run, ThreadRow};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::Postgres;
use super::super::fault::Fault;
use super::super::sharing::{Shares, Sharing};
use super::super::text::{escape, unescape};
use super::change::Seen;
use super::tables::Tables;
use hier_checkpoint::backend::run_rows::{THREADS, number, open, open_live, open_run, time};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The threads that wait, as far as they were read.
pub(super) type Waiting = VecDeque<(String, Result<Option<Seen>, SaverError>)>;

/// A thread that is to be read.
pub(in super::super) struct Look {
    /// Escaped.
    name: String,
    /// The id of a run that is to be added.
    new: Option<Uuid>,
}

impl Look {
    pub(super) fn at(thread: &str, new: Option<Uuid>) -> Self {
        Self { name: escape(thread).into_owned(), new }
    }
}

impl Shares for Look {
    type Answer = Row;

    const MOST: usize = 64;
    const MOST_SIZE: usize = usize::MAX;

    fn size(&self) -> usize {
        0
    }

    fn sharing(postgres: &Postgres) -> &Sharing<Self> {
        &postgres.0.looking
    }

    async fn send(postgres: &Postgres, items: &[&Self]) -> Result<Vec<Row>, Fault> {
        postgres.tables(&postgres.0.session.client().await?).look(items).await
    }
}

impl Postgres {
    /// As [`Tables::see`], with those that are looked at at the same time.
    pub(super) async fn see(&self, thread: &str, new: Option<Uuid>) -> Result<Seen, Fault> {
        match self.share(&Arc::new(Look::at(thread, new))).await {
            Some(row) => seen(&self.0.vault, thread, new, &row, 1),
            None => self.tables(&self.0.session.client().await?).see(thread, new).await,
        }
    }
}

impl Tables<'_> {
    /// A row for each.
    async fn look(&self, at: &[&Look]) -> Result<Vec<Row>, Fault> {
        let names: Vec<&str> = at.iter().map(|look| &*look.name).collect();
        let new: Vec<Option<Uuid>> = at.iter().map(|look| look.new).collect();
        let sql = "select * from {s}.runs_of_several($1, $2) where {own} order by place";
        let rows = self.query_often(sql, &[(&names, Type::TEXT_ARRAY), (&new, Type::UUID_ARRAY)]).await?;
        if rows.len() == at.len() {
            return Ok(rows);
        }
        Err(Fault::NoConnection(format!(
            "the server answered with {} rows where there must be {}",
            rows.len(),
            at.len()
        )))
    }

    /// A thread with its runs that have not ended, and what a new run needs if one is to be added under this id.
    /// [`SaverError::Damaged`] if rows of the thread cannot be read.
    pub(super) async fn see(&self, thread: &str, new: Option<Uuid>) -> Result<Seen, Fault> {
        match self.look(&[&Look::at(thread, new)]).await?.first() {
            Some(row) => seen(self.vault, thread, new, row, 1),
            None => Err(Fault::NoConnection("the server answered with no row where there must be one".to_owned())),
        }
    }

    /// The threads that a worker with these graphs may look at, those that have waited longest first, and the first so many as they are.
    /// Not those that are passed over.
    pub(super) async fn waiting(&self, graphs: Option<&[String]>, most: usize) -> Result<Waiting, Fault> {
        let passed_over = self.unreadable.threads();
        let without: Vec<_> = passed_over.iter().map(|thread| escape(thread)).collect();
        let graphs: Option<Vec<_>> = graphs.map(|graphs| graphs.iter().map(|graph| escape(graph)).collect());
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let sql = "select case when r.place = 1 then w.names end, r.* from {s}.waiting($1, $2) w (names),
            {s}.runs_of_several(w.names[1:$3], array[]::uuid[]) r where cardinality(w.names) > 0 and {own} order by r.place";
        let with = [(&graphs as _, Type::TEXT_ARRAY), (&without as _, Type::TEXT_ARRAY), (&most as _, Type::INT4)];
        let rows = self.query_often(sql, &with).await?;
        let Some(first) = rows.first() else { return Ok(Waiting::new()) };
        let mut rows = rows.iter();
        let mut waiting = Waiting::new();
        for name in first.try_get::<_, Vec<String>>(0)? {
            let name = unescape(&name).to_string();
            let seen = match rows.next().map(|row| seen(self.vault, &name, None, row, 2)).transpose() {
                Err(Fault::Saver(error)) => Err(error),
                read => Ok(read?),
            };
            waiting.push_back((name, seen));
        }
        Ok(waiting)
    }
}

/// What was read of a thread, from this column on.
fn seen(vault: &ValueCodec, thread: &str, new: Option<Uuid>, row: &Row, column: usize) -> Result<Seen, Fault> {
    read_seen(vault, thread, new, row, column).map_err(|fault| fault.of_thread(thread))
}

fn read_seen(vault: &ValueCodec, thread: &str, new: Option<Uuid>, row: &Row, column: usize) -> Result<Seen, Fault> {
    let body: Option<Vec<u8>> = row.try_get(column)?;
    let (ids, bodies): (Option<Vec<Uuid>>, Option<Vec<Vec<u8>>>) = (row.try_get(column + 3)?, row.try_get(column + 4)?);
    let live = ids.unwrap_or_default().into_iter().zip(bodies.unwrap_or_default());
    let live = live.map(|(id, body)| Ok(open_live(vault, id, thread, body)?)).collect::<Result<Vec<Run>, Fault>>()?;
    let row_of = |body| Ok::<ThreadRow, Fault>(open(vault, THREADS, thread, body)?);
    let thread = body.map(row_of).transpose()?.map(|found| (found, live));
    let there: Option<Vec<u8>> = row.try_get(column + 6)?;
    Ok(Seen {
        thread,
        op: row.try_get(column + 1)?,
        now: time(row.try_get(column + 2)?),
        number: number(row.try_get::<_, Option<i64>>(column + 5)?.unwrap_or_default()),
        there: new.zip(there).map(|(id, body)| open_run(vault, id, None, body)).transpose()?,
    })
}
