//! `hier lock`, which writes the lock file of a program, and `hier check`, which finds changes that break stored
//! threads.

mod args;
mod program;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hier_core::runs::RunStore;
use hier_testkit::lock::{LOCK_FILE, Lock, LockError, LockFinding, LockReport};
use serde_json::{Value, json};

use crate::progress::during;
use crate::project::CargoError;
use crate::threads::{self, ThreadsError};

pub use args::{CheckArgs, LockArgs, ProgramArgs};

/// The error of `hier lock` and `hier check`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockCommandError {
    /// Cargo failed.
    #[error(transparent)]
    Cargo(#[from] CargoError),
    /// No test of the program writes its lock, or several tests do.
    #[error("{0}")]
    Choose(String),
    /// The command could not read or write a lock file.
    #[error("cannot {0} `{1}`: {2}{3}")]
    File(&'static str, PathBuf, io::Error, &'static str),
    /// A lock file is invalid.
    #[error("`{0}`: {1}")]
    Lock(PathBuf, LockError),
    /// The test of the program in this file wrote an invalid lock.
    #[error(
        "the test in `{0}` wrote an invalid lock, in line {line}: {reason}: if the program uses another version of hier, \
         install that version of `hier-cli`",
        line = .1.line,
        reason = .1.reason
    )]
    ProgramLock(PathBuf, LockError),
    /// The command could not open or read the database.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// The command could not read some threads of the database. The field is their number.
    #[error("{0} threads could not be read: if the database is encrypted, pass its key with `--key-file`")]
    Unreadable(usize),
    /// The command could not write its output.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
}

/// Writes the lock file of a package. If the file existed, also writes to `out` the changes that break threads.
pub fn write_lock(arguments: &LockArgs, out: &mut dyn Write) -> Result<(), LockCommandError> {
    let program = program::read_program(&arguments.program)?;
    let path = program.folder.join(LOCK_FILE);
    let old = match fs::read_to_string(&path) {
        // A damaged file is replaced.
        Ok(text) => Lock::parse(&text).ok(),
        Err(_) => None,
    };
    replace_file(&path, &program.lock.to_string()).map_err(|error| {
        LockCommandError::File("write", path.clone(), error, ": check the permissions and the space of its folder")
    })?;
    let graphs = program.lock.graphs.keys().filter(|path| path.is_root()).count();
    let mut text = format!("wrote `{}` with {graphs} graphs: commit the file\n", path.display());
    if let Some(old) = old {
        let report = LockReport::new(&old, &program.lock);
        for found in report.breaks() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "accepted: {}: {}", found.finding.graph, found.finding.change.describe());
        }
    }
    out.write_all(threads::safe_lines(&text).as_bytes()).map_err(LockCommandError::Write)
}

/// Writes a file completely or not at all. If the path is a symlink, writes the file to which it leads.
fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    // The target of a symlink may not exist.
    let linked = fs::canonicalize(path).or_else(|_| fs::read_link(path).map(|link| path.with_file_name(link)));
    let path = linked.unwrap_or_else(|_| path.to_owned());
    let new = path.with_extension("lock.new");
    let replaced = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        // The file may not exist.
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// Compares a program with its lock file and writes the changes to `out`. Returns true if the program can be deployed
/// without breaking threads.
pub fn check_program(arguments: &CheckArgs, out: &mut dyn Write) -> Result<bool, LockCommandError> {
    let program = program::read_program(&arguments.program)?;
    let path = arguments.lock.clone().unwrap_or_else(|| program.folder.join(LOCK_FILE));
    let old = Lock::parse(&read_text(&path)?).map_err(|error| LockCommandError::Lock(path.clone(), error))?;
    let report = match arguments.database() {
        None => LockReport::new(&old, &program.lock),
        Some(database) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(ThreadsError::Runtime)?;
            let read = async {
                let saver = <dyn RunStore>::as_checkpointer(threads::open(&database).await?);
                LockReport::with_threads(&old, &program.lock, &*saver).await.map_err(ThreadsError::from)
            };
            runtime.block_on(during("reading the threads", read))?
        }
    };
    let text = if arguments.json {
        threads::safe_json(&as_json(&report)) + "\n"
    } else {
        threads::safe_lines(&report.to_string())
    };
    out.write_all(text.as_bytes()).map_err(LockCommandError::Write)?;
    match report.threads.as_ref().map_or(0, |totals| totals.unreadable.len()) {
        0 => Ok(report.passes()),
        unreadable => Err(LockCommandError::Unreadable(unreadable)),
    }
}

/// Reads a lock file. The path `-` stands for the standard input.
fn read_text(path: &Path) -> Result<String, LockCommandError> {
    let read = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    read.map_err(|error| {
        let help = if error.kind() == io::ErrorKind::NotFound { ": write the file with `hier lock`" } else { "" };
        LockCommandError::File("read", path.to_owned(), error, help)
    })
}

fn as_json(report: &LockReport) -> Value {
    let finding = |found: &LockFinding| {
        let change = &found.finding.change;
        let threads = found.threads.iter().map(|(position, count)| {
            json!({ "nodes": position.nodes, "status": position.status.to_string(), "count": count })
        });
        json!({
            "graph": found.finding.graph.to_string(),
            "code": change.code(),
            "subject": change.subject(),
            "breaks": found.finding.breaks(),
            "change": change.describe(),
            "fix": change.fix(),
            "threads": report.threads.as_ref().map(|_| threads.collect::<Vec<_>>()),
        })
    };
    let totals = report.threads.as_ref().map(|totals| {
        json!({
            "read": totals.read,
            "broken": totals.broken,
            "foreign": totals.foreign,
            "unreadable": totals.unreadable.iter().map(|(thread, _)| thread).collect::<Vec<_>>(),
        })
    });
    let findings: Vec<Value> = report.findings.iter().map(finding).collect();
    let unread =
        report.unread.iter().map(|(graph, channels)| json!({ "graph": graph.to_string(), "channels": channels }));
    let unread: Vec<Value> = unread.collect();
    json!({ "passes": report.passes(), "findings": findings, "threads": totals, "unread": unread })
}
