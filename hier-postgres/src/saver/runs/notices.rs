//! Notices between processes. A notice reports that a thread has changed and whether it may have a run to claim.

use super::super::session::PostgresSession;
use super::super::text::{escape, unescape};
use hier_runs::ChangeNotifier;

/// The maximum length of a thread's name in a notice, because a notice has at most 8000 bytes. The notice of a longer
/// name stands for all threads.
const MAX_NAME: usize = 4_000;

/// Returns the server's channel on which the processes that share a schema notify each other.
pub(super) fn channel(session: &PostgresSession) -> String {
    format!("hier_runs_{}", session.statements.schema.trim_matches('"'))
}

/// Encodes a notice. `tag` identifies the sending process. `runs` is true if the thread may have a run to claim.
pub(super) fn write_notice(tag: &str, thread: &str, runs: bool) -> String {
    let name = escape(thread);
    let name = if name.len() < MAX_NAME { &*name } else { "" };
    format!("{tag} {} {name}", if runs { 'r' } else { 't' })
}

/// Forwards the notice of another process to the waiting callers. Ignores notices of this process, which has already
/// notified its callers.
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
