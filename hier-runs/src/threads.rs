//! Drives the index of threads of a [`RunStore`].

use super::change::{ThreadAction, ThreadChange};
use super::driver::guard;
use super::error::RunsError;
use super::notifier::Notice;
use super::query::ThreadQuery;
use super::store::RunStore;
use super::thread::{IfExists, NewThread, ThreadIs, ThreadPatch, ThreadRow};
use hier_checkpoint::checkpoint::{InboxMessage, PostOutcome, check_new_thread, check_thread};

/// Threads.
impl dyn RunStore + '_ {
    /// Creates a thread without a history.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::Exists`] if the thread exists, unless [`NewThread::if_exists`] is
    /// [`IfExists::DoNothing`].
    pub async fn create_thread(&self, thread: NewThread) -> Result<ThreadRow, RunsError> {
        check_new_thread(&thread.id)?;
        loop {
            let new = thread.clone();
            if let Some(row) = guard("create_thread", || self.thread_backend().insert_thread(new)).await? {
                return Ok(row);
            }
            if thread.if_exists == IfExists::Raise {
                return Err(RunsError::Exists { kind: "thread", id: thread.id });
            }
            // If the thread was deleted in between, the next attempt creates it.
            if let Some(row) = self.thread(&thread.id).await? {
                return Ok(row);
            }
        }
    }

    /// Returns a thread, or `None` if it does not exist.
    pub async fn thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        guard("thread", || self.thread_backend().load_thread(id)).await
    }

    /// Changes the metadata or the time to live of a thread.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::NoThread`] if the thread does not exist or does not meet [`ThreadPatch::on`].
    pub async fn update_thread(&self, id: &str, patch: ThreadPatch) -> Result<ThreadRow, RunsError> {
        self.apply("update_thread", ThreadChange::new(id, ThreadAction::Patch(patch))).await?;
        self.thread(id).await?.ok_or_else(|| RunsError::NoThread { thread: id.to_owned() })
    }

    /// Returns the threads that match a query.
    pub async fn search_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        guard("search_threads", || self.thread_backend().find_threads(query)).await
    }

    /// Returns the number of threads that match a query. Ignores the limit and the offset of the query.
    pub async fn count_threads(&self, mut query: ThreadQuery) -> Result<u64, RunsError> {
        (query.limit, query.offset, query.with_values) = (usize::MAX, 0, false);
        Ok(self.search_threads(query).await?.len() as u64)
    }

    /// Deletes a thread with its checkpoints, runs and events. If a worker executes a run of the thread, the next
    /// commit of this run fails. Returns false if the thread does not exist.
    pub async fn remove_thread(&self, id: &str) -> Result<bool, RunsError> {
        self.remove_thread_if(id, ThreadIs::default()).await
    }

    /// Deletes a thread like `remove_thread` if the thread meets the condition. The check of the condition is part of
    /// the transaction. Returns false if the thread does not exist or does not meet the condition.
    pub async fn remove_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        // Without a condition, the call also deletes a thread that is not in the index.
        let is_any = is.is_any();
        let is_removed = guard("remove_thread", || self.thread_backend().delete_thread_if(id, is)).await?;
        if is_removed || is_any {
            self.announce(Notice { thread: id, ends: true, ended: None, runs: true });
        }
        Ok(is_removed)
    }

    /// Copies a thread with its history, but without its runs and events. The copy has the metadata of the original,
    /// with the entries of `to.metadata` added or replaced.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::Exists`] if a thread with the id of `to` exists.
    pub async fn clone_thread(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
        check_new_thread(&to.id)?;
        guard("clone_thread", || self.thread_backend().insert_copy(from, to)).await
    }

    /// Adds a message to the inbox of a thread that meets the condition, like
    /// [`Inbox::post`](hier_checkpoint::checkpoint::Inbox::post). The check of the condition is part of the
    /// transaction.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Deleted`](hier_checkpoint::checkpoint::SaverError::Deleted) if the thread does not
    /// exist or does not meet the condition.
    pub async fn post_if(
        &self,
        thread: &str,
        is: ThreadIs,
        graph: &str,
        message: InboxMessage,
    ) -> Result<PostOutcome, RunsError> {
        check_thread(thread)?;
        guard("post_if", || self.thread_backend().post_to(thread, is, graph, message)).await
    }
}
