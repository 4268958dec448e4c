//! `hier state`, which shows a thread at a checkpoint.

use std::io::{self, Write};

use hier_core::checkpoint::{Saved, hide_newer_secrets};
use serde_json::{Map, Value};

use super::args::StateArgs;
use super::history::no_namespace;
use super::record::{TaskView, checkpoint_json, counted};
use super::{ThreadsError, database, expect_thread, secrets, text, write_json};

pub(super) async fn show_state(arguments: &StateArgs, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let saver = database::saver(&arguments.database).await?;
    let StateArgs { thread, namespace, checkpoint, .. } = arguments;
    let Some(mut found) = saver.get(thread, namespace, *checkpoint).await? else {
        expect_thread(&saver, thread).await?;
        return Err(match checkpoint {
            Some(id) => ThreadsError::NotFound(format!(
                "thread `{}` has no checkpoint `{id}`: `hier history` lists its checkpoints",
                text::safe(thread)
            )),
            None => no_namespace(&saver, thread, namespace).await?,
        });
    };
    let schema = &mut found.checkpoint.schema;
    hide_newer_secrets(&saver, thread, namespace, schema).await?;
    secrets::hide_locked(arguments.lock.as_deref(), schema)?;
    let shown = CheckpointView::new(&found);
    if arguments.database.json {
        write_json(out, &shown.json(thread, namespace))
    } else {
        shown.write(thread, out).map_err(ThreadsError::Write)
    }
}

/// The parts of a checkpoint that the command shows.
struct CheckpointView<'a> {
    saved: &'a Saved,
    values: Map<String, Value>,
    /// The errors of the channels whose values cannot be read.
    unreadable: Map<String, Value>,
    tasks: Vec<TaskView>,
}

impl<'a> CheckpointView<'a> {
    fn new(saved: &'a Saved) -> Self {
        let (values, unreadable) = saved.json_values();
        let tasks = saved.writes.iter().map(|record| TaskView::new(record, &saved.checkpoint)).collect();
        Self { saved, values, unreadable, tasks }
    }

    fn json(&self, thread: &str, namespace: &str) -> Value {
        let mut all = Map::new();
        all.insert("thread".to_owned(), thread.into());
        all.insert("namespace".to_owned(), namespace.into());
        all.extend(checkpoint_json(&self.saved.checkpoint));
        all.insert("values".to_owned(), Value::Object(self.values.clone()));
        if !self.unreadable.is_empty() {
            all.insert("unreadable".to_owned(), Value::Object(self.unreadable.clone()));
        }
        all.insert("tasks".to_owned(), self.tasks.iter().map(TaskView::json).collect());
        Value::Object(all)
    }

    fn write(&self, thread: &str, out: &mut dyn Write) -> io::Result<()> {
        let checkpoint = &self.saved.checkpoint;
        let agenda = &checkpoint.agenda;
        let checkpoint_line = format!(
            "{} (step {}, {}, {})",
            checkpoint.id,
            checkpoint.step,
            checkpoint.source.name(),
            text::time(checkpoint.created_at())
        );
        let next = agenda.nodes();
        let mut rows = vec![
            ("thread", text::safe(thread)),
            ("checkpoint", checkpoint_line),
            ("graph", text::safe(&checkpoint.schema.graph)),
            ("next", if next.is_empty() { "nothing: the thread has ended".to_owned() } else { counted(&next) }),
        ];
        if !agenda.waiting.is_empty() {
            rows.push(("waiting", counted(&agenda.waiting.iter().map(|node| &**node).collect::<Vec<_>>())));
        }
        if !checkpoint.metadata.is_empty() {
            rows.push(("metadata", text::short(&Value::Object((*checkpoint.metadata).clone()).to_string())));
        }
        let mut rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        for task in &self.tasks {
            let node = task.node.as_deref().unwrap_or("(a command)");
            let results = task.results().into_iter();
            rows.extend(results.map(|result| vec!["task".to_owned(), format!("{}: {result}", text::safe(node))]));
        }
        text::table(out, &rows)?;
        writeln!(out)?;
        let values = self.values.iter().map(|(name, value)| vec![text::safe(name), text::short(&value.to_string())]);
        let unreadable = self.unreadable.iter().map(|(name, reason)| {
            vec![text::safe(name), format!("({})", text::safe(reason.as_str().unwrap_or_default()))]
        });
        text::table(out, &values.chain(unreadable).collect::<Vec<_>>())
    }
}
