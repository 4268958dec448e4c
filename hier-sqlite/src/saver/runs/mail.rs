//! Mail to threads that have a row.

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::{
    Delivered, DueQuery, DueThread, Inbox, InboxMessage, PostOutcome, SaverError, check_thread,
};
use hier_checkpoint::runs::ThreadIs;
use rusqlite::Connection;

use super::super::writer::Work;
use super::super::{SHORT_BYTES, Sqlite, mail};
use super::tables::Tables;

impl Sqlite {
    /// Puts a letter into the mailbox of a thread; with a condition, only if there is a row of the thread that meets it.
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
        let size = if letter.value.len() <= SHORT_BYTES { Work::Short } else { Work::Long };
        let post = move |connection: &Connection| {
            let tables = Tables { connection, vault: &vault, unreadable: &unreadable, longest: usize::MAX };
            if let Some(is) = is
                && !tables.thread(&thread, false)?.is_some_and(|row| is.is(&row))
            {
                return Err(SaverError::deleted(&thread).into());
            }
            mail::post(connection, &vault, &thread, &graph, &letter)
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
        self.read(move |connection| mail::mail(connection, &vault, &thread)).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.read(move |connection| mail::due(connection, &query)).await
    }
}
