//! Notifies other processes of changes, after the changes and several at a time.
//!
//! If the transactions of the changes sent the notices, the server would commit these transactions one after the other,
//! because it keeps notices in order.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hier_checkpoint::checkpoint::SaverError;
use tokio::runtime::Handle;
use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::session::retrying;
use super::notices::{channel, write_notice};

/// The time for which changes are collected after notices were sent.
const COLLECTING: Duration = Duration::from_millis(10);

/// Threads whose changes this process has not sent to other processes yet.
#[derive(Default)]
pub(in super::super) struct Outbox(Mutex<UnsentNotices>);

#[derive(Default)]
struct UnsentNotices {
    /// The threads, each with true if it may have a run to claim.
    threads: HashMap<String, bool>,
    is_sending: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, UnsentNotices> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends notices until the outbox is empty. If its runtime drops it, the next change starts another sender.
struct OutboxSender(Postgres);

impl Drop for OutboxSender {
    fn drop(&mut self) {
        self.0.0.outbox.lock().is_sending = false;
    }
}

impl Postgres {
    /// Notifies other processes within a short time.
    pub(super) fn notify_others(&self, thread: &str, runs: bool) {
        let mut unsent = self.0.outbox.lock();
        *unsent.threads.entry(thread.to_owned()).or_default() |= runs;
        if unsent.is_sending {
            return;
        }
        // Without a runtime, this process sends no notice. Other processes also poll.
        let Ok(runtime) = Handle::try_current() else { return };
        unsent.is_sending = true;
        drop(unsent);
        let sender = OutboxSender(self.clone());
        runtime.spawn(async move {
            while sender.send_notices().await {
                tokio::time::sleep(COLLECTING).await;
            }
        });
    }
}

impl OutboxSender {
    /// Sends all notices of the outbox. Returns false, which ends this sender, if there are none.
    async fn send_notices(&self) -> bool {
        let session = &self.0.0.session;
        let threads = {
            let mut unsent = self.0.0.outbox.lock();
            unsent.is_sending = !unsent.threads.is_empty();
            std::mem::take(&mut unsent.threads)
        };
        if threads.is_empty() {
            return false;
        }
        let notices: Vec<String> =
            threads.iter().map(|(thread, runs)| write_notice(&session.tag, thread, *runs)).collect();
        let channel = channel(session);
        let sql = "select pg_notify($1, notice) from unnest($2::text[]) notice";
        let sent: Result<_, SaverError> = retrying!(session, client => {
            session.query(&client, sql, &[(&channel, Type::TEXT), (&notices, Type::TEXT_ARRAY)]).await
        });
        // A lost notice is harmless, because other processes also poll.
        drop(sent);
        true
    }
}
