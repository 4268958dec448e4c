//! Compares the engine with recorded runs of LangGraph.
//!
//! A scenario is a graph as data, a list of calls, and the answers that LangGraph gave. Each scenario is read and checked (`files`,
//! `check`), built with the dynamic builder (`build`, `node`) and run (`run`). Then the answers are compared (`compare`).
//! The recorded answers are used only for the comparison: the types of `scenario` have no field for them.

mod build;
mod check;
mod compare;
mod elsewhere;
mod files;
mod hierarchy;
mod hierarchy_build;
mod hierarchy_run;
mod node;
mod python;
mod report;
mod run;
mod scenario;
mod shapes;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use elsewhere::{Elsewhere, ElsewhereError, ElsewhereState, describe, run_elsewhere};
use files::{File, Kind, Trouble};
pub use report::Totals;
use report::{Report, Verdict};
use run::Answer;

/// Runs all scenarios in these files and folders. Writes one line per scenario to `out`, and problems with files to `err`.
///
/// # Errors
///
/// Returns an error if the report cannot be written.
pub fn run(paths: &[PathBuf], out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Totals> {
    let mut report = Report::new(out, err);
    for path in paths {
        match files::find(path) {
            Ok(files) => files.iter().try_for_each(|file| one(file, &mut report))?,
            Err(trouble) => report.bad(&trouble)?,
        }
    }
    report.end()
}

fn one(path: &Path, report: &mut Report<'_>) -> io::Result<()> {
    let judged = files::read(path).and_then(|file| Ok((judge(&file)?, file.name)));
    match judged {
        Ok((verdict, name)) => report.line(&name, &verdict),
        Err(trouble) => report.bad(&trouble),
    }
}

/// Runs a scenario and compares the answers with the recorded ones.
fn judge(file: &File) -> Result<Verdict, Trouble> {
    let scenario = match &file.kind {
        Kind::Graph(scenario) => scenario,
        Kind::Hierarchy(scenario) => {
            let answers = hierarchy_run::run(scenario).map_err(|text| Trouble::new(&file.path, text))?;
            return Ok(report::of(compare::answers(&file.expect, &answers)));
        }
    };
    Ok(match run::run(scenario).map_err(|text| Trouble::new(&file.path, text))? {
        Answer::Refused(message) => report::of(compare::refused(&file.expect, &message)),
        Answer::Calls(calls) => report::of(compare::calls(&file.expect, calls)),
    })
}
