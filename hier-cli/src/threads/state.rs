//! `hier state`.

use std::io::{self, Write};

use hier_core::checkpoint::{Saved, chain_json};
use serde_json::{Map, Value};

use super::args::State;
use super::history::no_namespace;
use super::record::{Task, channels, checkpoint_json, counted, next};
use super::{Error, database, expect_thread, text, write_json};

pub(super) async fn run(arguments: &State, out: &mut dyn Write) -> Result<(), Error> {
    let saver = database::saver(&arguments.database).await?;
    let State { thread, namespace, checkpoint, .. } = arguments;
    let Some(found) = saver.get(thread, namespace, *checkpoint).await? else {
        expect_thread(&saver, thread).await?;
        return Err(match checkpoint {
            Some(id) => Error::NotFound(format!(
                "thread `{}` has no checkpoint `{id}` there: `hier history` lists them",
                text::safe(thread)
            )),
            None => no_namespace(&saver, thread, namespace).await?,
        });
    };
    let shown = Shown::of(&found);
    if arguments.database.json {
        write_json(out, &shown.json(thread, namespace))
    } else {
        shown.write(thread, out).map_err(Error::Write)
    }
}

/// What is shown of a checkpoint.
struct Shown<'a> {
    saved: &'a Saved,
    values: Map<String, Value>,
    /// Channels with a value that cannot be shown, and why.
    unreadable: Map<String, Value>,
    tasks: Vec<Task>,
}

impl<'a> Shown<'a> {
    fn of(saved: &'a Saved) -> Self {
        let (mut values, mut unreadable) = (Map::new(), Map::new());
        for (place, name) in channels(&saved.checkpoint) {
            let Some((_, chain)) = saved.values.iter().find(|(channel, _)| *channel == place) else { continue };
            match chain_json(chain) {
                Ok(value) => values.insert(name.to_owned(), value),
                Err(error) => unreadable.insert(name.to_owned(), Value::String(error.to_string())),
            };
        }
        Self {
            saved,
            values,
            unreadable,
            tasks: saved.writes.iter().map(|record| Task::of(record, &saved.checkpoint.agenda)).collect(),
        }
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
        all.insert("tasks".to_owned(), self.tasks.iter().map(Task::json).collect());
        Value::Object(all)
    }

    fn write(&self, thread: &str, out: &mut dyn Write) -> io::Result<()> {
        let checkpoint = &self.saved.checkpoint;
        let agenda = &checkpoint.agenda;
        let made = format!(
            "{} (step {}, {}, {})",
            checkpoint.id,
            checkpoint.step,
            checkpoint.source.name(),
            text::time(checkpoint.created_at())
        );
        let next = next(agenda);
        let mut rows = vec![
            ("thread", text::safe(thread)),
            ("checkpoint", made),
            ("graph", text::safe(&checkpoint.schema.graph)),
            ("next", if next.is_empty() { "nothing: it has ended".to_owned() } else { counted(&next) }),
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
            rows.extend(
                task.told().into_iter().map(|told| vec!["task".to_owned(), format!("{}: {told}", text::safe(node))]),
            );
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
