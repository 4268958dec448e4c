//! Reads lists of checkpoints and of threads.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use hier_checkpoint::checkpoint::{ListQuery, Listed, SaverError, ThreadInfo};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::client::PooledClient;
use super::fault::PostgresFault;
use super::session::{PostgresSession, Transaction};
use super::text::{escape, holder, unescape};
use hier_checkpoint::backend::rows::{WriteRow, open_body};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// Decodes a write from this column on.
pub(super) fn write(row: &Row, column: usize, namespace: Arc<str>) -> Result<WriteRow, PostgresFault> {
    Ok(WriteRow {
        namespace,
        checkpoint: row.try_get(column)?,
        task: row.try_get(column + 1)?,
        slot: row.try_get(column + 2)?,
        path: unescape(row.try_get(column + 3)?),
        channel: unescape(row.try_get(column + 4)?),
        value: row.try_get(column + 5)?,
    })
}

/// Lists checkpoints from newest to oldest. The server does not apply the filters, so it cannot limit the rows of a
/// query with filters. A cursor then returns the rows in pages.
pub(super) async fn list(
    session: &PostgresSession,
    client: PooledClient,
    vault: &ValueCodec,
    query: &ListQuery,
) -> Result<Vec<Listed>, PostgresFault> {
    let (thread, namespace) = (query.thread.as_deref().map(escape), query.namespace.as_deref().map(escape));
    let limit = query.limit.filter(|_| query.filter.is_empty()).and_then(|limit| i64::try_from(limit).ok());
    let with = [
        (&thread as _, Type::TEXT),
        (&namespace as _, Type::TEXT),
        (&query.before as _, Type::UUID),
        (&limit as _, Type::INT8),
    ];
    let mut found = Vec::new();
    if query.filter.is_empty() {
        let rows = session.query(&client, &session.statements.list, &with).await?;
        pick(vault, query, &rows, &mut found)?;
        return Ok(found);
    }
    let transaction = Transaction::begin(client).await?;
    let paging = async {
        let client = transaction.client();
        let declare = format!("declare listed no scroll cursor for {}", session.statements.list);
        session.query(client, &declare, &with).await?;
        while found.len() < query.limit.unwrap_or(usize::MAX) {
            let rows = session.query(client, &format!("fetch {PAGE} from listed"), &[]).await?;
            pick(vault, query, &rows, &mut found)?;
            if rows.len() < PAGE {
                break;
            }
        }
        Ok(())
    };
    let paged = paging.await;
    transaction.end(paged).await?;
    Ok(found)
}

/// The number of checkpoints in a page of the cursor.
const PAGE: usize = 100;

/// Adds the checkpoints that match the query.
fn pick(vault: &ValueCodec, query: &ListQuery, rows: &[Row], found: &mut Vec<Listed>) -> Result<(), PostgresFault> {
    for row in rows {
        if found.len() >= query.limit.unwrap_or(usize::MAX) {
            break;
        }
        let (thread, namespace) = (unescape(row.try_get(0)?), unescape(row.try_get(1)?));
        let checkpoint = open_body(vault, &thread, &namespace, row.try_get(2)?, row.try_get(3)?)?;
        if query.wants(&checkpoint) {
            found.push(Listed::new(thread, namespace, checkpoint));
        }
    }
    Ok(())
}

pub(super) async fn threads(
    session: &PostgresSession,
    client: &PooledClient,
    vault: &ValueCodec,
    limit: Option<usize>,
) -> Result<Vec<ThreadInfo>, PostgresFault> {
    let limit = limit.and_then(|limit| i64::try_from(limit).ok());
    let rows = session.query(client, &session.statements.threads, &[(&limit, Type::INT8)]).await?;
    let infos = rows.iter().map(|row| {
        let thread = unescape(row.try_get(0)?);
        let latest = match (row.try_get(2)?, row.try_get(3)?) {
            (Some(id), Some(body)) => match open_body(vault, &thread, "", id, body) {
                // The thread is listed nevertheless, so that a caller can delete it by its name.
                Err(SaverError::Damaged { .. }) => None,
                latest => Some(latest?),
            },
            _ => None,
        };
        let holder = row.try_get::<_, Option<&str>>(4)?.map(holder);
        let expires = row.try_get::<_, Option<i64>>(5)?;
        let expires = expires.map(|at| UNIX_EPOCH + Duration::from_millis(at.unsigned_abs()));
        let mut info = ThreadInfo::new(thread);
        info.checkpoints = row.try_get::<_, i64>(1)?.unsigned_abs();
        (info.latest, info.holder, info.expires) = (latest, holder, expires);
        Ok(info)
    });
    infos.collect()
}
