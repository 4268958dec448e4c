//! The store in a SQLite file.

mod rows;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::store::plan::Plan;
use hier_checkpoint::store::{Op, OpResult, Store, StoreError, StoreOptions};
use rusqlite::{Connection, TransactionBehavior};

use self::rows::{SWEPT, TouchedItems, identity, migrate, read_all, refresh, sweep, write_all};
use crate::SqliteOptions;
use crate::saver::fault::Fault;
use crate::saver::open_file::OpenFile;
use crate::saver::schema::open_ours;
use hier_checkpoint::backend::value_codec::ValueCodec;

const IDLE: usize = 4;

/// A store, which is memory that all threads share, in a SQLite file. Clones share the connections. Needs a tokio
/// runtime.
///
/// The file may also contain a [`Sqlite`](crate::Sqlite) saver. Several processes on one machine may use the file. A
/// batch is one transaction. A search reads every item whose namespace starts with the prefix in the search.
///
/// ```
/// use hier_sqlite::SqliteStore;
/// use hier_checkpoint::store::StoreExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hier_checkpoint::store::StoreError> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("desk.db");
/// let store = SqliteStore::open(path).await?;
/// store.put(["users", "ada"], "food", &serde_json::json!({ "likes": "figs" })).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqliteStore(Arc<SqliteStoreInner>);

struct SqliteStoreInner {
    path: PathBuf,
    sqlite: SqliteOptions,
    options: StoreOptions,
    idle: Mutex<Vec<StoreConnection>>,
    /// The file that the first connection has opened. Empty if the file cannot be identified.
    file: OnceLock<OpenFile>,
    /// Serializes the writes of this process. This is fairer than polling the lock of the file.
    writing: Mutex<()>,
}

/// A connection. Dropping it closes the files.
struct StoreConnection {
    connection: Connection,
    /// `None` until the connection has been used, and if the files cannot be identified.
    file: Option<OpenFile>,
}

impl Drop for StoreConnection {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            file.save_commits(&self.connection);
            file.before_close(&self.connection);
        }
    }
}

impl SqliteStore {
    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Unusable`] if the file is not a database, belongs to another program or was written by
    /// a newer version of hier.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default(), StoreOptions::default()).await
    }

    /// Opens the file, and creates it if it does not exist. `sqlite` has the options of the database, such as
    /// durability, compression and encryption. `options` has the index and the time to live of items.
    pub async fn open_with(
        path: impl AsRef<Path>,
        sqlite: SqliteOptions,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let mut sqlite = sqlite;
        sqlite.vault = sqlite.vault.of_a_database();
        let store = Self(Arc::new(SqliteStoreInner {
            path,
            sqlite,
            options,
            idle: Mutex::default(),
            file: OnceLock::new(),
            writing: Mutex::default(),
        }));
        let migrate = |store: &Self| {
            store.with(|StoreConnection { connection, .. }| {
                migrate(connection, &store.0.path)?;
                store.vault().set_database(identity(connection)?);
                Ok(())
            })
        };
        store.run_blocking(migrate).await?;
        Ok(store)
    }

    /// Runs `work` on a thread that may block.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (this, place) = (self.clone(), self.place());
        let done =
            tokio::task::spawn_blocking(move || work(&this).map_err(|fault| fault.into_saver_error(&this.place())))
                .await;
        Ok(done.map_err(|error| SaverError::database(place, error))??)
    }

    /// Runs `work` with a connection from the pool. Returns the connection to the pool if `work` succeeds.
    fn with<T>(&self, work: impl FnOnce(&mut StoreConnection) -> Result<T, Fault>) -> Result<T, Fault> {
        let kept = self.idle().pop();
        let mut open = match kept {
            Some(open) => open,
            None => StoreConnection { connection: self.connect()?, file: None },
        };
        let done = work(&mut open)?;
        if open.file.is_none() {
            open.file = OpenFile::of(&open.connection);
        }
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(open);
        }
        Ok(done)
    }

    /// Opens a connection. Fails if the file was deleted, moved or replaced, because a connection to another file would
    /// not find the items of this store.
    fn connect(&self) -> Result<Connection, Fault> {
        if let Some(file) = self.0.file.get() {
            file.check_database(&self.place())?;
        }
        let connection = open_ours(Some(&self.0.path), &self.0.sqlite)?;
        if self.0.file.get().is_none()
            && let Some(file) = OpenFile::of(&connection)
        {
            self.0.file.get_or_init(|| file);
        }
        Ok(connection)
    }

    /// Writes in a transaction. Fails if the file or its log was deleted, moved or replaced.
    fn write<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let _turn = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(|StoreConnection { connection, file }| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            if let Some(Err(error)) = file.as_ref().map(|file| file.check(&self.place())) {
                // They have the same files open.
                self.idle().clear();
                return Err(error.into());
            }
            transaction.commit()?;
            Ok(done)
        })
    }

    fn apply(&self, plan: &Plan) -> Result<Vec<OpResult>, Fault> {
        let (vault, mut touched) = (self.vault(), TouchedItems::new());
        if !plan.writes.is_empty() {
            return self.write(|connection| {
                let results = read_all(connection, vault, plan, &mut touched)?;
                refresh(connection, &touched)?;
                write_all(connection, vault, &plan.writes)?;
                Ok(results)
            });
        }
        let results = self.with(|StoreConnection { connection, .. }| {
            let state = connection.transaction()?;
            read_all(&state, vault, plan, &mut touched)
        })?;
        if !touched.is_empty() {
            self.write(|connection| refresh(connection, &touched))?;
        }
        Ok(results)
    }

    fn vault(&self) -> &ValueCodec {
        &self.0.sqlite.vault
    }

    fn place(&self) -> String {
        format!("`{}`", self.0.path.display())
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<StoreConnection>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.place())
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError> {
        let plan = Plan::of(&self.0.options, ops).await?;
        self.run_blocking(move |store| store.apply(&plan)).await
    }

    async fn sweep(&self) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            let count = self.run_blocking(|store| store.write(sweep)).await?;
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
