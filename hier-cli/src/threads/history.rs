//! `hier history`, which lists the checkpoints of a thread.

use std::io::Write;

use hier_core::checkpoint::{Checkpoint, ListQuery};
use serde_json::Value;

use super::args::HistoryArgs;
use super::record::{checkpoint_json, counted};
use super::{SharedSaver, ThreadsError, database, expect_thread, text, write_json};

pub(super) async fn list_checkpoints(arguments: &HistoryArgs, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let saver = database::saver(&arguments.database).await?;
    let HistoryArgs { thread, namespace, limit, .. } = arguments;
    let query = ListQuery { namespace: Some(namespace.clone()), limit: *limit, ..ListQuery::thread(thread) };
    let found = saver.list(query).await?;
    if found.is_empty() && *limit != Some(0) {
        expect_thread(&saver, thread).await?;
        return Err(no_namespace(&saver, thread, namespace).await?);
    }
    if arguments.database.json {
        return write_json(out, &found.iter().map(|it| Value::Object(checkpoint_json(&it.checkpoint))).collect());
    }
    let head = ["CHECKPOINT", "STEP", "SOURCE", "CREATED", "NEXT", "CHANGED"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(found.iter().map(|listed| row(&listed.checkpoint))).collect();
    text::headed_table(out, &rows).map_err(ThreadsError::Write)
}

/// Returns an error that suggests a similar namespace of the thread.
pub(super) async fn no_namespace(
    saver: &SharedSaver,
    thread: &str,
    namespace: &str,
) -> Result<ThreadsError, ThreadsError> {
    let all = saver.list(ListQuery { namespace: None, ..ListQuery::thread(thread) }).await?;
    let mut known: Vec<&str> = all.iter().map(|listed| &*listed.namespace).filter(|name| !name.is_empty()).collect();
    known.sort_unstable();
    known.dedup();
    let known = if known.is_empty() {
        "; all its checkpoints are of the root graph: omit `--namespace`".to_owned()
    } else {
        hier_spec::did_you_mean(namespace, known.iter().copied())
    };
    let reason = format!("thread `{thread}` has no checkpoints in namespace `{namespace}`{known}");
    Ok(ThreadsError::NotFound(text::safe(&reason)))
}

fn row(checkpoint: &Checkpoint) -> Vec<String> {
    vec![
        checkpoint.id.to_string(),
        checkpoint.step.to_string(),
        checkpoint.source.name().to_owned(),
        text::time(checkpoint.created_at()),
        counted(&checkpoint.agenda.nodes()),
        text::short(&checkpoint.changed_channels().join(", ")),
    ]
}
