//! `hier threads`, which lists the threads of a database.

use std::io::Write;

use hier_core::checkpoint::ThreadInfo;
use serde_json::{Value, json};

use super::args::ThreadsArgs;
use super::record::counted;
use super::{ThreadsError, database, text, write_json};

pub(super) async fn list_threads(arguments: &ThreadsArgs, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let threads = database::saver(&arguments.database).await?.admin()?.threads(arguments.limit).await?;
    if arguments.database.json {
        return write_json(out, &Value::Array(threads.iter().map(as_json).collect()));
    }
    if threads.is_empty() && arguments.limit != Some(0) {
        return Err(ThreadsError::NotFound("the database has no threads".to_owned()));
    }
    let head = ["THREAD", "CHECKPOINTS", "STEP", "NEXT", "LAST CHECKPOINT", "RUN BY", "EXPIRES"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(threads.iter().map(row));
    text::headed_table(out, &rows).map_err(ThreadsError::Write)
}

fn row(info: &ThreadInfo) -> Vec<String> {
    let latest = info.latest.as_ref();
    vec![
        text::short(&info.thread),
        info.checkpoints.to_string(),
        latest.map(|latest| latest.step.to_string()).unwrap_or_default(),
        latest.map(|latest| counted(&latest.agenda.nodes())).unwrap_or_default(),
        latest.map(|latest| text::time(latest.created_at())).unwrap_or_default(),
        info.holder.as_deref().map(text::short).unwrap_or_default(),
        info.expires.map(text::time).unwrap_or_default(),
    ]
}

fn as_json(info: &ThreadInfo) -> Value {
    let latest = info.latest.as_ref();
    json!({
        "thread": info.thread,
        "checkpoints": info.checkpoints,
        "checkpoint": latest.map(|latest| latest.id),
        "graph": latest.map(|latest| &latest.schema.graph),
        "step": latest.map(|latest| latest.step),
        "next": latest.map(|latest| latest.agenda.nodes()),
        "created_at": latest.map(|latest| text::time(latest.created_at())),
        "holder": info.holder,
        "expires": info.expires.map(text::time),
    })
}
