//! Tells other processes of changes: after them, and several together. In the transactions of the changes it would make them commit one
//! after the other, as the server keeps what it notifies of in order.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::session::retrying;
use super::super::text::{escape, unescape};
use super::channel;
use hier_checkpoint::runs::ChangeNotifier;

/// How long changes are collected after others were told.
const COLLECTS: Duration = Duration::from_millis(10);
/// The longest name of a thread that is told; without one it may be any. A notice has at most 8000 bytes.
const LONGEST: usize = 4_000;

/// What is to be told: threads, each with whether there may be a run to claim.
#[derive(Default)]
pub(in super::super) struct News(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    threads: HashMap<String, bool>,
    is_told: bool,
}

impl News {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells until nothing is left. If it is dropped with its runtime, the next change begins another one.
struct Teller(Postgres);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.0.news.lock().is_told = false;
    }
}

impl Postgres {
    /// Tells other processes soon.
    pub(super) fn tell(&self, thread: &str, runs: bool) {
        let mut waiting = self.0.news.lock();
        *waiting.threads.entry(thread.to_owned()).or_default() |= runs;
        if waiting.is_told {
            return;
        }
        // Without a runtime nobody is told: they look now and then.
        let Ok(runtime) = Handle::try_current() else { return };
        waiting.is_told = true;
        drop(waiting);
        let teller = Teller(self.clone());
        runtime.spawn(async move {
            while teller.tell().await {
                tokio::time::sleep(COLLECTS).await;
            }
        });
    }
}

impl Teller {
    /// Tells what waits; false, and the end of this teller, if nothing does.
    async fn tell(&self) -> bool {
        let session = &self.0.0.session;
        let threads = {
            let mut waiting = self.0.0.news.lock();
            waiting.is_told = !waiting.threads.is_empty();
            std::mem::take(&mut waiting.threads)
        };
        if threads.is_empty() {
            return false;
        }
        let notices: Vec<String> = threads.iter().map(|(thread, runs)| notice(&session.tag, thread, *runs)).collect();
        let channel = channel(session);
        let sql = "select pg_notify($1, notice) from unnest($2::text[]) notice";
        let told: Result<_, hier_checkpoint::checkpoint::SaverError> = retrying!(session, client => {
            session.query(&client, sql, &[(&channel, Type::TEXT), (&notices, Type::TEXT_ARRAY)]).await
        });
        // A hint: whoever waits also looks again now and then.
        drop(told);
        true
    }
}

/// Who tells, whether there may be a run to claim, and the thread.
fn notice(tag: &str, thread: &str, runs: bool) -> String {
    let name = escape(thread);
    let name = if name.len() < LONGEST { &*name } else { "" };
    format!("{tag} {} {name}", if runs { 'r' } else { 't' })
}

/// Rings as somebody else has told; what this process has told itself it has rung already.
pub(super) fn hear(notice: &str, tag: &str, bell: &ChangeNotifier) {
    let mut parts = notice.splitn(3, ' ');
    let (teller, runs, name) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
    if teller == Some(tag) {
        return;
    }
    if name.is_empty() {
        return bell.notify_all();
    }
    if runs == Some("r") {
        bell.notify_thread(&unescape(name));
        bell.notify_runs();
    } else {
        bell.notify_events(&unescape(name));
    }
}
