//! Encrypts the rows of the runs with the current key. Each transaction encrypts one page, so that writers wait only
//! briefly and memory use stays low.

use tokio_postgres::types::Type;

use super::super::client::Parameter;
use super::super::fault::PostgresFault;
use super::super::text::unescape;
use super::tables::RunTables;
use hier_checkpoint::backend::retention::{PAGE_BYTES, PAGE_ROWS, UnreadRows};
use hier_checkpoint::backend::storage_key::StorageKey;
use hier_runs::rows::{DOCUMENTS, EVENTS, RUNS, THREADS, VALUES, document_key, event_key};

const COLUMNS: [EncryptedColumn; 5] = [
    EncryptedColumn {
        name: THREADS,
        place: ("run_threads", "body"),
        key: &[("name", "text")],
        row: |key| unescape(&key[0]).to_string(),
    },
    EncryptedColumn {
        name: VALUES,
        place: ("run_threads", "vals"),
        key: &[("name", "text")],
        row: |key| unescape(&key[0]).to_string(),
    },
    EncryptedColumn { name: RUNS, place: ("runs", "body"), key: &[("id", "uuid")], row: |key| key[0].clone() },
    EncryptedColumn {
        name: EVENTS,
        place: ("events", "body"),
        key: &[("thread", "text"), ("number", "bigint")],
        row: |key| event_key(&unescape(&key[0]), key[1].parse().unwrap_or_default()),
    },
    EncryptedColumn {
        name: DOCUMENTS,
        place: ("documents", "body"),
        key: &[("kind", "text"), ("id", "text")],
        row: |key| document_key(&unescape(&key[0]), &unescape(&key[1])),
    },
];

struct EncryptedColumn {
    /// The table's name in the [`StorageKey`] to which encrypted bytes are bound.
    name: &'static str,
    /// The names of the table and the column.
    place: (&'static str, &'static str),
    /// The columns of the table's key, each with its type.
    key: &'static [(&'static str, &'static str)],
    /// Returns the row's key in the [`StorageKey`] to which encrypted bytes are bound.
    row: fn(&[String]) -> String,
}

impl EncryptedColumn {
    /// Returns a list with one entry for each column of the key.
    fn keys(&self, show: impl Fn(usize, &str, &str) -> String) -> String {
        let shown = self.key.iter().zip(1..).map(|((name, kind), place)| show(place, name, kind));
        shown.collect::<Vec<_>>().join(", ")
    }

    fn names(&self) -> String {
        self.keys(|_, name, _| name.to_owned())
    }

    fn parameters(&self) -> String {
        self.keys(|place, _, kind| format!("${place}::{kind}"))
    }

    /// Returns the statement that reads and locks the next page. A page contains fewer rows if they are long, but at
    /// least one.
    fn page(&self, is_first: bool) -> String {
        let ((table, column), names) = (self.place, self.names());
        let texts = self.keys(|place, name, _| format!("{name}::text as key_{place}"));
        let after = if is_first { "true".to_owned() } else { format!("({names}) > ({})", self.parameters()) };
        format!(
            "select {texts}, {column} from {{s}}.{table} where ({names}) in (
                select {names} from (
                    select {names}, sum(bytes) over (order by {names}) - bytes as before from (
                        select {names}, octet_length({column}) as bytes from {{s}}.{table}
                        where {column} is not null and {after} order by {names} limit {PAGE_ROWS}
                    ) of_rows
                ) sized where before < {PAGE_BYTES}
            ) order by {names} for update"
        )
    }

    fn update(&self) -> String {
        let ((table, column), bytes) = (self.place, self.key.len() + 1);
        let (names, parameters) = (self.names(), self.parameters());
        format!("update {{s}}.{table} set {column} = ${bytes} where ({names}) = ({parameters})")
    }
}

pub(in super::super) struct ReencryptCursor {
    column: usize,
    /// The key of the last finished row. Empty at the start of a column.
    last: Vec<String>,
}

impl ReencryptCursor {
    pub(in super::super) const fn start() -> Self {
        Self { column: 0, last: Vec::new() }
    }
}

fn texts(key: &[String]) -> Vec<Parameter<'_>> {
    key.iter().map(|text| (text as _, Type::TEXT)).collect()
}

impl RunTables<'_> {
    /// Encrypts the next page. Returns the rows that cannot be read, which stay unchanged, and the start of the
    /// following page. Returns `None` as this start at the end.
    pub(in super::super) async fn reencrypt(
        &self,
        after: &ReencryptCursor,
    ) -> Result<(UnreadRows, Option<ReencryptCursor>), PostgresFault> {
        let mut unread = UnreadRows::default();
        let Some(column) = COLUMNS.get(after.column) else { return Ok((unread, None)) };
        let mut next = ReencryptCursor { column: after.column + 1, last: Vec::new() };
        for row in self.query(&column.page(after.last.is_empty()), &texts(&after.last)).await? {
            let key: Vec<String> = (0..column.key.len()).map(|at| row.try_get(at)).collect::<Result<_, _>>()?;
            let place = StorageKey::Row { table: column.name, key: &(column.row)(&key) };
            let opened =
                unread.pass(self.vault.open(place, row.try_get(key.len())?), |error| self.unreadable.log(error))?;
            if let Some(opened) = opened {
                let sealed = self.vault.seal(place, opened)?;
                let mut with = texts(&key);
                with.push((&sealed, Type::BYTEA));
                self.query(&column.update(), &with).await?;
            }
            next = ReencryptCursor { column: after.column, last: key };
        }
        Ok((unread, Some(next)))
    }
}
