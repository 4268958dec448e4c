//! The arguments of the commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use uuid::Uuid;

/// A command that works with threads.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the threads of a database, those with the newest checkpoint first.
    Threads(Threads),
    /// Lists the checkpoints of a thread, newest first.
    History(History),
    /// Shows a thread's state: the values at its last checkpoint, what runs next, and what came of that so far.
    State(State),
    /// Copies a thread with its whole history to a new one.
    Fork(Fork),
    /// Deletes old checkpoints. What is left can be read as before.
    Prune(Prune),
    /// Lists what was sent to a thread and was not taken yet: signals, and messages for its inbox.
    Mail(Mail),
    /// Takes something out of the mailbox of a thread that no run can take. A thread that is being run is left alone.
    Discard(Discard),
}

/// Which database, and how to answer.
#[derive(Args, Debug)]
pub struct Database {
    /// The database: a SQLite file (`PATH`, `sqlite:PATH`) or `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[arg(long, value_name = "PATH|URL")]
    pub db: String,
    /// The schema of a Postgres database.
    #[arg(long, default_value = "hier", value_name = "NAME")]
    pub schema: String,
    /// A file with the key of an encrypted database, as 64 hexadecimal digits. Without it, the variable `HIER_KEY` is looked
    /// at.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Answers with JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // the help has it
pub struct Threads {
    #[command(flatten)]
    pub database: Database,
    /// At most so many.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // the help has it
pub struct History {
    #[command(flatten)]
    pub database: Database,
    /// The thread.
    pub thread: String,
    /// Of a subgraph; the root graph's is empty.
    #[arg(long, default_value = "", value_name = "NS")]
    pub namespace: String,
    /// At most so many.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // the help has it
pub struct State {
    #[command(flatten)]
    pub database: Database,
    /// The thread.
    pub thread: String,
    /// As it was at this checkpoint.
    #[arg(long, value_name = "ID")]
    pub checkpoint: Option<Uuid>,
    /// Of a subgraph; the root graph's is empty.
    #[arg(long, default_value = "", value_name = "NS")]
    pub namespace: String,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // the help has it
pub struct Fork {
    #[command(flatten)]
    pub database: Database,
    /// The thread.
    pub thread: String,
    /// The name of the copy.
    pub new_thread: String,
    /// Lets the copy go on from this checkpoint: the tasks that followed it run again.
    #[arg(long, value_name = "ID")]
    pub checkpoint: Option<Uuid>,
    /// Replaces a thread that has the name of the copy.
    #[arg(long)]
    pub replace: bool,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // the help has it
pub struct Mail {
    #[command(flatten)]
    pub database: Database,
    /// The thread.
    pub thread: String,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // the help has it
pub struct Discard {
    #[command(flatten)]
    pub database: Database,
    /// The thread.
    pub thread: String,
    /// The id, as `hier mail` and the errors of runs show it.
    pub id: Uuid,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // the help has it
#[command(group(ArgGroup::new("strategy").required(true).args(["keep", "keep_latest", "delete"])))]
pub struct Prune {
    #[command(flatten)]
    pub database: Database,
    /// The threads; all if none is named.
    #[arg(value_name = "THREAD")]
    pub threads: Vec<String>,
    /// Keeps so many of the newest checkpoints of each thread and subgraph.
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Keeps the newest one.
    #[arg(long)]
    pub keep_latest: bool,
    /// Keeps none.
    #[arg(long)]
    pub delete: bool,
    /// Deletes only what is older than this: `90s`, `30m`, `12h`, `7d`, `2w`.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Says that everything in all threads is meant, where no thread is named and nothing would be left.
    #[arg(long)]
    pub all: bool,
}

/// A length of time: `7d`.
fn age(text: &str) -> Result<Duration, String> {
    const UNITS: [(char, u64); 5] = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400), ('w', 604_800)];
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let seconds = unit.and_then(|(unit, seconds)| {
        let count: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        count.checked_mul(*seconds)
    });
    let seconds = seconds.ok_or("write a whole number and a unit: `90s`, `30m`, `12h`, `7d` or `2w`")?;
    Ok(Duration::from_secs(seconds))
}
