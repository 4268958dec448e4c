//! The `hier-conformance` command.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hier_conformance::Totals;

/// Runs recorded scenarios and compares what the engine does with what the reference did.
///
/// Prints a line a scenario (`ok` or `DIFF`), then the totals. Exits with 1 if a scenario differs and with 2
/// if a file is no scenario.
#[derive(Parser)]
#[command(name = "hier-conformance", version, about)]
struct Arguments {
    /// Scenario files, or folders of them (`*.json`, at any depth).
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let Arguments { paths } = Arguments::parse();
    match hier_conformance::run(&paths, &mut io::stdout().lock(), &mut io::stderr().lock()) {
        Ok(Totals { bad: 1.., .. }) => ExitCode::from(2),
        Ok(Totals { failed: 1.., .. }) => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            // The reader of the lines may go away when it has seen enough (`hier-conformance … | head`).
            if error.kind() != io::ErrorKind::BrokenPipe {
                eprintln!("error: the report could not be written: {error}");
            }
            ExitCode::from(2)
        }
    }
}
