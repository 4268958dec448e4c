//! The `hier-conformance` command.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hier_conformance::Totals;

/// Runs recorded scenarios and compares the engine with LangGraph.
///
/// Prints one line per scenario (`ok` or `DIFF`), then the totals. Exits with 1 if a scenario differs and with 2
/// if a file is not a scenario.
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
            // The reader may close the pipe early (`hier-conformance … | head`).
            if error.kind() != io::ErrorKind::BrokenPipe {
                eprintln!("error: the report could not be written: {error}");
            }
            ExitCode::from(2)
        }
    }
}
