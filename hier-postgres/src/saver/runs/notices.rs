//! Notices between processes: a thread has changed, and may have a run to claim.

use super::super::session::PostgresSession;
use super::super::text::{escape, unescape};
use hier_runs::ChangeNotifier;

/// Longest name of a thread in a notice. The notice of a longer name stands for all threads. A notice has at most 8000 bytes.
const MAX_NAME: usize = 4_000;

/// The channel of the server on which the processes that share a schema notify each other.
pub(super) fn channel(session: &PostgresSession) -> String {
    format!("hier_runs_{}", session.statements.schema.trim_matches('"'))
}

/// `tag` identifies the process that notifies. With `runs` the thread may have a run to claim.
pub(super) fn write_notice(tag: &str, thread: &str, runs: bool) -> String {
    let name = escape(thread);
    let name = if name.len() < MAX_NAME { &*name } else { "" };
    format!("{tag} {} {name}", if runs { 'r' } else { 't' })
}

/// Rings for the notice of another process. This process has already rung for its own.
pub(super) fn deliver_notice(notice: &str, tag: &str, bell: &ChangeNotifier) {
    let mut parts = notice.splitn(3, ' ');
    let (sender, runs, name) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
    if sender == Some(tag) {
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
