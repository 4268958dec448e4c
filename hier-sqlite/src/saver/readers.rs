//! Connections for reading.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::Connection;

use super::fault::Fault;
use super::writer::JobClass;
use super::{Sqlite, schema};

/// The maximum number of idle connections. Opening a connection takes longer than most reads.
const READERS: usize = 16;

pub(super) struct Readers {
    path: PathBuf,
    busy_timeout: Duration,
    idle: Mutex<Vec<Connection>>,
}

impl Sqlite {
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, SaverError> {
        if self.0.readers.is_none() {
            return self.0.writer.submit(JobClass::Alone, work).await;
        }
        let this = self.clone();
        let reading = tokio::task::spawn_blocking(move || this.read_blocking(work));
        reading.await.map_err(|error| SaverError::database(&self.0.place, error))?
    }

    /// Reads a small value without waiting, with the writer's connection or with an idle reader. This takes less time
    /// than waking a thread. Returns `None` for a large value, or if the read would have to wait.
    pub(super) fn read_short<T>(
        &self,
        work: impl Fn(&Connection) -> Result<T, Fault>,
    ) -> Option<Result<T, SaverError>> {
        let read = match self.0.writer.read_now(&work) {
            Some(read) => read,
            None => self.read_idle(work)?,
        };
        match read {
            Ok(found) => Some(Ok(found)),
            Err(Fault::Saver(error)) => Some(Err(error)),
            Err(Fault::Long | Fault::Sql(_)) => None,
        }
    }

    /// Reads with an idle connection. Returns `None` if no connection is idle.
    fn read_idle<T>(&self, work: impl Fn(&Connection) -> Result<T, Fault>) -> Option<Result<T, Fault>> {
        let readers = self.0.readers.as_ref()?;
        let connection = readers.idle().pop()?;
        let read = || {
            connection.busy_timeout(Duration::ZERO)?;
            let found = work(&connection);
            connection.busy_timeout(readers.busy_timeout)?;
            found
        };
        let found = read();
        readers.keep(connection);
        Some(found)
    }

    fn read_blocking<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, SaverError> {
        let Some(readers) = &self.0.readers else {
            return Err(SaverError::Invalid("a database in memory has no readers".to_owned()));
        };
        let run = || {
            let idle = readers.idle().pop();
            let connection = if let Some(connection) = idle {
                connection
            } else {
                self.0.writer.check_file()?;
                schema::open_reader(&readers.path, readers.busy_timeout)?
            };
            let result = {
                let _state = connection.unchecked_transaction()?;
                work(&connection)?
            };
            readers.keep(connection);
            Ok::<_, Fault>(result)
        };
        run().map_err(|fault| fault.into_saver_error(&self.0.place))
    }
}

impl Readers {
    pub(super) fn new(path: PathBuf, busy_timeout: Duration) -> Self {
        Self { path, busy_timeout, idle: Mutex::default() }
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < READERS {
            idle.push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
