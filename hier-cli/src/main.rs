//! The `hier` command.

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
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
    #[command(flatten)]
    Threads(threads::Command),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Threads(command) => work_with(&command),
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
