//! Messages to threads that have a row.

use hier_checkpoint::checkpoint::{Letter, SaverError, check_thread};
use hier_checkpoint::runs::ThreadIs;
use rusqlite::Connection;

use super::super::writer::JobClass;
use super::super::{SHORT_BYTES, Sqlite, inbox};
use super::tables::RunTables;

impl Sqlite {
    /// Adds a message to the inbox of a thread. With a condition, the thread must have a row that satisfies it.
    pub(in super::super) async fn post_letter(
        &self,
        thread: &str,
        is: Option<ThreadIs>,
        graph: &str,
        letter: Letter,
    ) -> Result<bool, SaverError> {
        check_thread(thread)?;
        let (vault, unreadable) = (self.0.vault.clone(), self.0.unreadable.clone());
        let (thread, graph) = (thread.to_owned(), graph.to_owned());
        let size = if letter.value.len() <= SHORT_BYTES { JobClass::Short } else { JobClass::Long };
        let post = move |connection: &Connection| {
            let tables = RunTables { connection, vault: &vault, unreadable: &unreadable, longest: usize::MAX };
            if let Some(is) = is
                && !tables.thread(&thread, false)?.is_some_and(|row| is.is(&row))
            {
                return Err(SaverError::deleted(&thread).into());
            }
            inbox::post(connection, &vault, &thread, &graph, &letter)
        };
        self.0.writer.submit(size, post).await
    }
}
