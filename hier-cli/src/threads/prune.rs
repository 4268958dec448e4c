//! `hier prune`, which deletes checkpoints.

use std::io::Write;

use hier_core::checkpoint::{self, Strategy};
use serde_json::json;

use super::args::PruneArgs;
use super::{ThreadsError, database, expect_thread, write_json};

pub(super) async fn prune(arguments: &PruneArgs, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let PruneArgs { threads, keep, delete, older_than, all, .. } = arguments;
    let strategy = match (keep, delete) {
        (Some(count), _) => Strategy::Keep(*count),
        (None, true) => Strategy::Delete,
        (None, false) => Strategy::KeepLatest,
    };
    if threads.is_empty() && strategy.kept() == 0 && older_than.is_none() && !all {
        let reason =
            "this would delete all checkpoints of all threads: name the threads, or add `--older-than` or `--all`";
        return Err(ThreadsError::Usage(reason.to_owned()));
    }
    let saver = database::saver(&arguments.database).await?;
    for thread in threads {
        expect_thread(&saver, thread).await?;
    }
    let threads = (!threads.is_empty()).then(|| threads.clone());
    let deleted = saver.admin()?.prune(checkpoint::Prune { threads, strategy, older_than: *older_than }).await?;
    if arguments.database.json {
        return write_json(out, &json!({ "deleted": deleted }));
    }
    let noun = if deleted == 1 { "checkpoint" } else { "checkpoints" };
    writeln!(out, "deleted {deleted} {noun}").map_err(ThreadsError::Write)
}
