//! Seals the rows of the runs again. Each transaction seals one page, so that writers wait only briefly and memory use
//! stays low.

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use super::super::fault::Fault;
use super::super::read::uuid_at;
use hier_checkpoint::backend::retention::{PAGE_BYTES, PAGE_ROWS, UnreadRows};
use hier_checkpoint::backend::storage_key::StorageKey;
use hier_checkpoint::backend::unreadable::Unreadable;
use hier_checkpoint::backend::value_codec::ValueCodec;
use hier_runs::rows::{DOCUMENTS, EVENTS, RUNS, THREADS, VALUES, document_key, event_key, number};

const TABLES: [SealedColumn; 5] = [
    SealedColumn {
        name: THREADS,
        rows: "select name, 0, body from run_threads where name {from} ?1 and ?2 = 0 order by name",
        put: "update run_threads set body = ?3 where name = ?1 and ?2 = 0",
        key: |row| row.get(0),
        first: || [Value::Text(String::new()), Value::Integer(0)],
    },
    SealedColumn {
        name: VALUES,
        rows: "select name, 0, vals from run_threads where name {from} ?1 and ?2 = 0 and vals is not null order by name",
        put: "update run_threads set vals = ?3 where name = ?1 and ?2 = 0",
        key: |row| row.get(0),
        first: || [Value::Text(String::new()), Value::Integer(0)],
    },
    SealedColumn {
        name: EVENTS,
        rows: "select thread, number, body from events where (thread, number) {from} (?1, ?2) order by thread, number",
        put: "update events set body = ?3 where thread = ?1 and number = ?2",
        key: |row| Ok(event_key(&row.get::<_, String>(0)?, number(row.get(1)?))),
        first: || [Value::Text(String::new()), Value::Integer(i64::MIN)],
    },
    SealedColumn {
        name: RUNS,
        rows: "select id, 0, body from runs where id {from} ?1 and ?2 = 0 order by id",
        put: "update runs set body = ?3 where id = ?1 and ?2 = 0",
        key: |row| Ok(uuid_at(row, 0)?.to_string()),
        first: || [Value::Blob(Vec::new()), Value::Integer(0)],
    },
    SealedColumn {
        name: DOCUMENTS,
        rows: "select kind, id, body from documents where (kind, id) {from} (?1, ?2) order by kind, id",
        put: "update documents set body = ?3 where kind = ?1 and id = ?2",
        key: |row| Ok(document_key(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?)),
        first: || [Value::Text(String::new()), Value::Text(String::new())],
    },
];

/// A column of sealed bytes. The key of a row consists of two columns, or of one column and a zero. The `rowid` cannot
/// be the key, because `vacuum` changes it.
struct SealedColumn {
    /// The table's name in the [`StorageKey`] to which sealed bytes are bound.
    name: &'static str,
    rows: &'static str,
    put: &'static str,
    key: fn(&Row<'_>) -> rusqlite::Result<String>,
    /// A key that precedes all rows.
    first: fn() -> [Value; 2],
}

pub(in super::super) struct ReencryptCursor {
    table: usize,
    /// The key of the last processed row. `None` at the start of a table.
    last: Option<[Value; 2]>,
}

impl ReencryptCursor {
    pub(in super::super) const fn start() -> Self {
        Self { table: 0, last: None }
    }
}

/// Seals the rows of the next page again. Returns the rows that cannot be read, which stay unchanged, and the start of
/// the following page. Returns `None` as this start at the end.
pub(in super::super) fn reencrypt(
    connection: &Connection,
    vault: &ValueCodec,
    unreadable: &Unreadable,
    ReencryptCursor { table: at, last }: ReencryptCursor,
) -> Result<(UnreadRows, Option<ReencryptCursor>), Fault> {
    let mut unread = UnreadRows::default();
    let Some(table) = TABLES.get(at) else { return Ok((unread, None)) };
    let mut again = |key: &str, stored: Vec<u8>| -> Result<Option<Vec<u8>>, SaverError> {
        let place = StorageKey::Row { table: table.name, key };
        let opened = unread.pass(vault.open(place, stored), |error| unreadable.log(error))?;
        opened.map(|opened| vault.seal(place, opened)).transpose()
    };
    let (mut page, mut bytes, mut is_over) = (Vec::new(), 0, true);
    let (from, [first, second]) = match last {
        None => (">=", (table.first)()),
        Some(last) => (">", last),
    };
    let mut statement = connection.prepare_cached(&table.rows.replace("{from}", from))?;
    let mut rows = statement.query(params![first, second])?;
    // The loop reads the whole page before any change, because SQLite does not define the position of a changed row in
    // a running query.
    while let Some(row) = rows.next()? {
        let stored: Vec<u8> = row.get(2)?;
        bytes += stored.len();
        page.push(([row.get(0)?, row.get(1)?], again(&(table.key)(row)?, stored)?));
        if page.len() >= PAGE_ROWS || bytes >= PAGE_BYTES {
            is_over = false;
            break;
        }
    }
    drop(rows);
    let mut last = None;
    for ([first, second], sealed) in page {
        if let Some(sealed) = sealed {
            connection.prepare_cached(table.put)?.execute(params![first, second, sealed])?;
        }
        last = Some([first, second]);
    }
    let next =
        if is_over { ReencryptCursor { table: at + 1, last: None } } else { ReencryptCursor { table: at, last } };
    Ok((unread, Some(next).filter(|next| next.table < TABLES.len())))
}
