//! Messages to threads that have a row.

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::{
    Delivered, DueQuery, DueThread, Inbox, InboxMessage, PostOutcome, SaverError, check_thread,
};
use hier_runs::ThreadIs;
use rusqlite::Connection;

use super::super::writer::JobClass;
use super::super::{SHORT_BYTES, Sqlite, inbox};
use super::tables::RunTables;

impl Sqlite {
    /// Adds a message to the inbox of a thread. With a condition, fails unless the thread has a row that meets the
    /// condition.
    pub(in super::super) async fn post_letter(
        &self,
        thread: &str,
        is: Option<ThreadIs>,
        graph: &str,
        letter: InboxMessage,
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

#[async_trait]
impl Inbox for Sqlite {
    async fn post(&self, thread: &str, graph: &str, letter: InboxMessage) -> Result<PostOutcome, SaverError> {
        self.post_letter(thread, None, graph, letter).await.map(PostOutcome::from)
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        let (vault, thread) = (self.0.vault.clone(), thread.to_owned());
        self.read(move |connection| inbox::pending(connection, &vault, &thread)).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.read(move |connection| inbox::due(connection, &query)).await
    }
}
