//! The `hier` command.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hier_cli::conformance::{self, Totals};
use hier_cli::threads;

/// Works with state graphs.
#[derive(Parser)]
#[command(name = "hier", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs recorded scenarios and compares what the engine does with what the reference did.
    ///
    /// Prints a line a scenario (`ok` or `DIFF`), then the totals. Exits with 1 if a scenario differs and with 2
    /// if a file is no scenario.
    Conformance {
        /// Scenario files, or folders of them (`*.json`, at any depth).
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    #[command(flatten)]
    Threads(threads::Command),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Conformance { paths } => hold_to(&paths),
        Command::Threads(command) => work_with(&command),
    }
}

fn hold_to(paths: &[PathBuf]) -> ExitCode {
    match conformance::run(paths, &mut io::stdout().lock(), &mut io::stderr().lock()) {
        Ok(Totals { bad: 1.., .. }) => ExitCode::from(2),
        Ok(Totals { failed: 1.., .. }) => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => cannot_write(&error),
    }
}

fn work_with(command: &threads::Command) -> ExitCode {
    match threads::run(command, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(threads::Error::Write(error)) => cannot_write(&error),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if error.is_nothing_found() { 1 } else { 2 })
        }
    }
}

/// The reader of the lines may go away when it has seen enough (`hier … | head`).
fn cannot_write(error: &io::Error) -> ExitCode {
    if error.kind() != io::ErrorKind::BrokenPipe {
        eprintln!("error: the report could not be written: {error}");
    }
    ExitCode::from(2)
}
