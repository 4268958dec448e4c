//! The arguments of the commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use uuid::Uuid;

/// A command about threads.
#[derive(Debug, Subcommand)]
pub enum ThreadCommand {
    /// Lists the threads of a database, newest checkpoint first.
    Threads(ThreadsArgs),
    /// Lists the checkpoints of a thread, newest first.
    History(HistoryArgs),
    /// Shows a thread at a checkpoint: its values, its next tasks, and the results that tasks already have.
    State(StateArgs),
    /// Copies a thread with its history to a new thread.
    Fork(ForkArgs),
    /// Deletes checkpoints. The remaining checkpoints do not change.
    ///
    /// If the graph of a thread is not finished and its runs have ids, as on a server, `--keep` and `--keep-latest` also
    /// keep the newest checkpoint before the latest run.
    Prune(PruneArgs),
    /// Lists or discards signals and messages that no run of a thread has read.
    #[command(subcommand)]
    Inbox(InboxCommand),
}

/// A command about the inbox of a thread.
#[derive(Debug, Subcommand)]
pub enum InboxCommand {
    /// Lists the signals and messages that no run has read, oldest first.
    List(InboxListArgs),
    /// Removes a signal or message from the inbox. Fails while a run of the thread is in progress.
    Discard(InboxDiscardArgs),
}

/// The arguments that select the database and the format of the output.
#[derive(Args, Debug)]
pub struct DatabaseArgs {
    /// Database: a SQLite file (`PATH`, `sqlite:PATH`) or `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[arg(long, value_name = "PATH|URL")]
    pub db: String,
    /// Schema of the tables in a Postgres database.
    #[arg(long, default_value = "hier", value_name = "NAME")]
    pub schema: String,
    /// File with the key of an encrypted database, as 64 hexadecimal digits. Defaults to the key in the environment
    /// variable `HIER_KEY`.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // see the help
pub struct ThreadsArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Maximum number of threads.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // see the help
pub struct HistoryArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Id of the thread.
    pub thread: String,
    /// Namespace of a subgraph. Empty for the root graph.
    #[arg(long, default_value = "", value_name = "NS")]
    pub namespace: String,
    /// Maximum number of checkpoints.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // see the help
pub struct StateArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Id of the thread.
    pub thread: String,
    /// Id of the checkpoint. Defaults to the latest.
    #[arg(long, value_name = "ID")]
    pub checkpoint: Option<Uuid>,
    /// Lock file with the names of secret channels, whose values are hidden. Defaults to `graph.lock` in the current
    /// folder, if this file exists.
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Namespace of a subgraph. Empty for the root graph.
    #[arg(long, default_value = "", value_name = "NS")]
    pub namespace: String,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // see the help
pub struct ForkArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Id of the thread.
    pub thread: String,
    /// Id of the copy.
    pub new_thread: String,
    /// Id of the checkpoint from which the copy continues. Defaults to the latest.
    #[arg(long, value_name = "ID")]
    pub checkpoint: Option<Uuid>,
    /// Replaces the thread that already has the id of the copy.
    #[arg(long)]
    pub replace: bool,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // see the help
pub struct InboxListArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Id of the thread.
    pub thread: String,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // see the help
pub struct InboxDiscardArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Id of the thread.
    pub thread: String,
    /// Id of the signal or message, from `hier inbox list` or the error of a run.
    pub id: Uuid,
}

#[derive(Args, Debug)]
#[allow(missing_docs)] // see the help
#[command(group(ArgGroup::new("strategy").required(true).args(["keep", "keep_latest", "delete"])))]
pub struct PruneArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Ids of the threads. Defaults to all threads.
    #[arg(value_name = "THREAD")]
    pub threads: Vec<String>,
    /// Keeps the newest N checkpoints of each thread, and of each subgraph in the thread.
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Keeps only the newest checkpoint of each thread, and of each subgraph in the thread.
    #[arg(long)]
    pub keep_latest: bool,
    /// Keeps no checkpoints.
    #[arg(long)]
    pub delete: bool,
    /// Deletes only checkpoints that are older than this age, such as `90s`, `30m`, `12h`, `7d` or `2w`.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Confirms that the command may delete all checkpoints of all threads.
    #[arg(long)]
    pub all: bool,
}

/// Parses an age such as `7d`.
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
