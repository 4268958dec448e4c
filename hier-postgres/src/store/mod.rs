//! The store in Postgres.

mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::store::plan::{Finder, Plan, Read, list_namespaces};
use hier_checkpoint::store::{Item, Op, OpResult, Store, StoreError, StoreOptions};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use self::write::{SWEPT, migrate, refresh, sweep, version, write_all};
use crate::PostgresOptions;
use crate::saver::client::PooledClient;
use crate::saver::fault::PostgresFault;
use crate::saver::session::{Parameter, PostgresSession, Transaction, first, retrying};
use crate::saver::text::{escape, unescape};
use hier_checkpoint::backend::items::{Columns, Row, join, picked, split};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The number of items that a search reads at a time.
const PAGE: usize = 500;

/// A store, which is memory that all threads share, in a Postgres database. Clones share the connections.
///
/// The store may use the same database and schema as a [`Postgres`](crate::Postgres) saver, and encrypts its
/// connections in the same way. A batch that writes is one transaction. A search reads every item whose namespace
/// starts with the prefix in the search. If the store cannot reach the server, it retries calls for the time that
/// [`PostgresOptions::retry_for`] sets. Then the calls fail.
///
/// ```no_run
/// use hier_postgres::PostgresStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hier_checkpoint::store::StoreError> {
/// let store = PostgresStore::connect("postgres://desk:secret@localhost/desk").await?;
/// store.migrate().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore(Arc<PostgresStoreState>);

struct PostgresStoreState {
    session: PostgresSession,
    vault: ValueCodec,
    options: StoreOptions,
    /// True if the tables are known to have this program's version.
    ready: AtomicBool,
}

impl PostgresStore {
    /// Connects to the database at `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. For a new database, call
    /// [`PostgresStore::migrate`] once before you use the store.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Unusable`] if the database cannot be used, or if a newer version of hier has created a
    /// saver's tables in it. If the tables of the store are missing or belong to another version, its calls fail with
    /// this error.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_with(url, PostgresOptions::default(), StoreOptions::default()).await
    }

    /// Connects to the database at `url`, as [`connect`](Self::connect) does. `postgres` has the options of the
    /// database, such as the number of connections and encryption. `options` has the index and the time to live of
    /// items.
    pub async fn connect_with(url: &str, postgres: PostgresOptions, options: StoreOptions) -> Result<Self, StoreError> {
        let session = PostgresSession::start(url, &postgres).await?;
        Ok(Self(Arc::new(PostgresStoreState {
            session,
            vault: postgres.vault.of_a_database(),
            options,
            ready: AtomicBool::new(false),
        })))
    }

    /// Creates or updates the tables. Does nothing if they are up to date. Several processes may call this method at
    /// the same time.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let session = &self.0.session;
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let migrated = migrate(session, transaction.client()).await;
            transaction.end(migrated).await
        })?;
        self.learn_identity().await?;
        self.0.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn learn_identity(&self) -> Result<(), SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        if vault.lacks_database() {
            let sql = session.statements.with_schema("select id from {s}.store_identity");
            let rows = retrying!(session, client => session.query(&client, &sql, &[]).await)?;
            vault.set_database(first(&rows).map_err(|fault| fault.into_saver_error(&session.place))?);
        }
        Ok(())
    }

    /// Fails unless the tables exist and have this program's version.
    async fn ready(&self) -> Result<(), SaverError> {
        if self.0.ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        let session = &self.0.session;
        let (version, wanted) = retrying!(session, client => version(session, &client).await)?;
        if version != Some(wanted) {
            let reason =
                "the tables of its store are missing or from another version of hier: call `PostgresStore::migrate`";
            return Err(SaverError::Unusable { place: session.place.clone(), reason: reason.to_owned() });
        }
        self.learn_identity().await?;
        self.0.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn apply(&self, plan: &Plan) -> Result<Vec<OpResult>, SaverError> {
        self.ready().await?;
        let (session, vault) = (&self.0.session, &self.0.vault);
        if plan.writes.is_empty() {
            return retrying!(session, client => {
                let (results, touched) = PlanReader { session, client: &client, vault }.read_all(plan).await?;
                refresh(session, &client, &touched).await?;
                Ok(results)
            });
        }
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let client = transaction.client();
            let done = async {
                let (results, touched) = PlanReader { session, client, vault }.read_all(plan).await?;
                refresh(session, client, &touched).await?;
                write_all(session, client, vault, &plan.writes).await?;
                Ok(results)
            };
            let done = done.await;
            transaction.end(done).await
        })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({})", self.0.session.place)
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError> {
        let plan = Plan::of(&self.0.options, ops).await?;
        Ok(self.apply(&plan).await?)
    }

    async fn sweep(&self) -> Result<u64, StoreError> {
        self.ready().await?;
        let session = &self.0.session;
        let mut swept = 0;
        loop {
            let count = retrying!(session, client => {
                let transaction = Transaction::begin(client).await?;
                let swept = sweep(session, transaction.client()).await;
                transaction.end(swept).await
            })?;
            swept += count;
            if count < SWEPT {
                return Ok(swept);
            }
        }
    }

    fn searches_by_meaning(&self) -> bool {
        self.0.options.has_index()
    }
}

#[derive(Clone, Copy)]
struct PlanReader<'a> {
    session: &'a PostgresSession,
    client: &'a PooledClient,
    vault: &'a ValueCodec,
}

/// The columns of an item, without its vectors.
const ITEM: &str = "i.place, i.space, s.name, i.key, i.value, i.created_at, i.updated_at, i.expires is not null";

impl PlanReader<'_> {
    /// Executes the reads of a plan. Also returns the places of the items whose time to live restarts.
    async fn read_all(self, plan: &Plan) -> Result<(Vec<OpResult>, Vec<i64>), PostgresFault> {
        let (mut results, mut touched) = (plan.results(), Vec::new());
        for (number, read) in &plan.reads {
            results[*number] = match read {
                Read::Item { namespace, key, refresh } => {
                    let found = self.get(&join(namespace), key).await?;
                    let found = found.into_iter().map(|row| (row, None)).collect();
                    OpResult::Item(picked(found, *refresh, &mut touched).pop())
                }
                Read::Items(finder) => OpResult::Items(self.find(finder, &mut touched).await?),
                Read::Namespaces(query) => OpResult::Namespaces(list_namespaces(query, self.namespaces().await?)),
            };
        }
        Ok((results, touched))
    }

    async fn query(self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<SqlRow>, PostgresFault> {
        self.session.query(self.client, &self.session.statements.with_schema(sql), with).await
    }

    async fn get(self, space: &str, key: &str) -> Result<Option<Row>, PostgresFault> {
        let sql = format!(
            "select {ITEM}, null::bytea from {{s}}.store_spaces s join {{s}}.store_items i on i.space = s.key
            where s.name = $1 and i.key = $2 and (i.expires is null or i.expires > {{s}}.store_now())"
        );
        let (space, key) = (escape(space), escape(key));
        let rows = self.query(&sql, &[(&space, Type::TEXT), (&key, Type::TEXT)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = columns(row)?;
        let (value, _) = columns.open(self.vault)?;
        Ok(Some(columns.row(value)))
    }

    /// Reads the items below a prefix in order, page by page, until enough items match.
    async fn find(self, finder: &Finder, touched: &mut Vec<i64>) -> Result<Vec<Item>, PostgresFault> {
        // In ASCII, `/` follows `.`, so this range contains all names that begin with the prefix and a period.
        let sql = format!(
            "select {ITEM}, case when $2 then i.vectors end
            from {{s}}.store_spaces s join {{s}}.store_items i on i.space = s.key
            where ($1 = '' and s.name <> 'hier.tools' or s.name = $1 or (s.name > $1 || '.' and s.name < $1 || '/'))
            and (i.space, i.place) > ($3, $4) and (i.expires is null or i.expires > {{s}}.store_now())
            order by i.space, i.place limit $5"
        );
        let (joined, vectors) = (join(&finder.prefix), finder.wants_vectors());
        let prefix = escape(&joined);
        let page = finder.enough().unwrap_or(PAGE).min(PAGE);
        let limit = i64::try_from(page).unwrap_or(i64::MAX);
        let (mut picking, mut after) = (finder.picking(), (i64::MIN, i64::MIN));
        while !picking.is_full() {
            let with = [
                (&prefix as _, Type::TEXT),
                (&vectors as _, Type::BOOL),
                (&after.0 as _, Type::INT8),
                (&after.1 as _, Type::INT8),
                (&limit as _, Type::INT8),
            ];
            let rows = self.query(&sql, &with).await?;
            for row in &rows {
                let mut columns = columns(row)?;
                after = (row.try_get(1)?, columns.place);
                let (value, vectors) = columns.open(self.vault)?;
                if let Some(rank) = picking.rank(&value, &vectors) {
                    picking.pick(rank, columns.row(value));
                }
            }
            if rows.len() < page {
                break;
            }
        }
        Ok(picked(picking.finish(), finder.refresh, touched))
    }

    async fn namespaces(self) -> Result<Vec<Vec<String>>, PostgresFault> {
        let sql = "select s.name from {s}.store_spaces s where exists (select 1 from {s}.store_items i
            where i.space = s.key and (i.expires is null or i.expires > {s}.store_now()))";
        let rows = self.query(sql, &[]).await?;
        rows.iter().map(|row| Ok(split(&unescape(row.try_get(0)?)))).collect()
    }
}

fn columns(row: &SqlRow) -> Result<Columns, PostgresFault> {
    Ok(Columns {
        place: row.try_get(0)?,
        space: unescape(row.try_get(2)?).to_string(),
        key: unescape(row.try_get(3)?).to_string(),
        value: row.try_get(4)?,
        created_at: row.try_get(5)?,
        updated_at: row.try_get(6)?,
        expires: row.try_get(7)?,
        vectors: row.try_get(8)?,
    })
}
