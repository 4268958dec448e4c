//! Documents that several ask for at once, as the assistant of each run: one read answers all who had asked before it began. So each of
//! them has what was stored when it asked, or later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::runs::Document;
use tokio::sync::oneshot;

use super::super::Postgres;
use super::super::session::retrying;
use super::tables::Tables;

type Read = Result<Option<Document>, SaverError>;

/// Kind and id.
type Key = Arc<(String, String)>;

/// Those who wait, by what is read. A document is in here as long as a task reads it.
#[derive(Default)]
pub(in super::super) struct SharedReads(Mutex<HashMap<Key, Vec<oneshot::Sender<Read>>>>);

/// Reads a document for those who wait, until nobody does. If it is dropped before, they are told.
struct Reader {
    postgres: Postgres,
    key: Key,
    is_done: bool,
}

impl SharedReads {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<oneshot::Sender<Read>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a reader has to be begun.
    fn wait(&self, key: &Key) -> (bool, oneshot::Receiver<Read>) {
        let (answer, answered) = oneshot::channel();
        let mut reads = self.lock();
        let begins = !reads.contains_key(key);
        reads.entry(key.clone()).or_default().push(answer);
        (begins, answered)
    }
}

impl Postgres {
    /// A document, with whoever else asks for it at this time.
    pub(super) async fn shared_document(&self, kind: &str, id: &str) -> Read {
        let key = Arc::new((kind.to_owned(), id.to_owned()));
        let (begins, answered) = self.0.shared_reads.wait(&key);
        if begins {
            tokio::spawn(Reader { postgres: self.clone(), key, is_done: false }.read());
        }
        answered.await.map_err(|_| self.stopped())?
    }
}

impl Reader {
    async fn read(mut self) {
        while let Some(waiting) = self.next() {
            let (inner, (kind, id)) = (&self.postgres.0, &*self.key);
            let (session, vault, unreadable) = (&inner.session, &inner.vault, &inner.unreadable);
            let read: Read = retrying!(session, client => {
                Tables { session, client: &client, vault, unreadable }.document(kind, id).await
            });
            for answer in waiting {
                // A call that was dropped waits for no answer.
                let _ = answer.send(read.clone());
            }
        }
    }

    /// Those who have asked by now; none, and the reader has ended, if nobody has.
    fn next(&mut self) -> Option<Vec<oneshot::Sender<Read>>> {
        let mut reads = self.postgres.0.shared_reads.lock();
        let waiting = reads.get_mut(&self.key).map(std::mem::take).unwrap_or_default();
        if waiting.is_empty() {
            reads.remove(&self.key);
            self.is_done = true;
            return None;
        }
        Some(waiting)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.is_done {
            let dropped = self.postgres.0.shared_reads.lock().remove(&self.key);
            // Without the lock: who is told may want it.
            drop(dropped);
        }
    }
}
