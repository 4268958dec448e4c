//! The committed work of a thread, and the log of its tasks.

use std::collections::BTreeSet;
use std::path::Path;

use hier_core::checkpoint::{Checkpointer, ListQuery};

/// The keys of the tasks that ran, in the order in which they ended.
pub(crate) fn keys(log: &Path) -> Vec<String> {
    // A key is written at once, but the process may have died before its first.
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Those of the tasks with these keys which the database knows to be done.
pub(crate) async fn committed(saver: &dyn Checkpointer, thread: &str, keys: &[String]) -> BTreeSet<String> {
    let query = ListQuery { thread: Some(thread.to_owned()), ..ListQuery::default() };
    let listed = saver.list(query).await.expect("the thread can be listed");
    let mut done = BTreeSet::new();
    for at in &listed {
        let found = saver.get(thread, &at.namespace, Some(at.checkpoint.id)).await.expect("the checkpoint can be read");
        let writes = found.map(|found| found.writes).unwrap_or_default();
        // The routing of a task is stored with its writes.
        let finished = writes.iter().filter(|task| task.writes.iter().any(|write| &*write.channel == "__routing__"));
        done.extend(finished.map(|task| task.task.to_string()));
    }
    // The step of a task is applied once there is a checkpoint of it.
    let is_applied =
        |namespace: &str, step: i64| listed.iter().any(|at| *at.namespace == *namespace && at.checkpoint.step >= step);
    let is_done = |key: &&String| {
        // The name of a thread may have slashes.
        let parts: Vec<&str> = key.rsplitn(4, '/').collect();
        let [task, step, namespace, _] = parts[..] else { panic!("`{key}` is not a key") };
        done.contains(task) || is_applied(namespace, step.parse().expect("a step"))
    };
    keys.iter().filter(is_done).cloned().collect()
}

/// Fails if one of the tasks that ran since was committed before.
pub(crate) fn nothing_again(committed: &BTreeSet<String>, ran: &[String]) {
    let again: Vec<&String> = ran.iter().filter(|key| committed.contains(*key)).collect();
    assert!(again.is_empty(), "these tasks were committed, and were run again: {again:?}");
}
