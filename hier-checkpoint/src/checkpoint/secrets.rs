//! The channels that tools hide in the checkpoints of earlier versions of a program.

use std::sync::Arc;

use super::{Checkpointer, ListQuery, SaverError, Schema};

/// Adds to `schema` the secret channels of two checkpoints of the thread: the newest one of the root graph, and the
/// newest one of the subgraph with this namespace. A tool calls this function to hide a channel that became secret after
/// the checkpoint with this schema was written.
///
/// # Errors
///
/// Fails if the saver cannot list checkpoints.
pub async fn hide_newer_secrets(
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    namespace: &str,
    schema: &mut Arc<Schema>,
) -> Result<(), SaverError> {
    let mut namespaces = vec!["", namespace];
    namespaces.dedup();
    for namespace in namespaces {
        let query = ListQuery { namespace: Some(namespace.to_owned()), limit: Some(1), ..ListQuery::thread(thread) };
        for newest in saver.list(query).await? {
            let newer = &newest.checkpoint.schema.secrets;
            if newer.iter().any(|secret| !schema.hides(secret)) {
                Arc::make_mut(schema).secrets.extend(newer.iter().cloned());
            }
        }
    }
    Ok(())
}
