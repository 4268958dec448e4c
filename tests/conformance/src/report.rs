//! Prints one line per scenario, then the totals.

use std::io::{self, Write};

use serde_json::Value;

use super::compare::Difference;
use super::files::Trouble;

/// The numbers of scenarios by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Scenarios in which the engine did the same as LangGraph.
    pub passed: usize,
    /// Scenarios in which the engine did something else.
    pub failed: usize,
    /// Scenario files and folders that could not be used.
    pub bad: usize,
}

/// The result of comparing one scenario.
pub(crate) enum Verdict {
    Same,
    Different(Difference),
}

/// Converts the first difference, if any, into a verdict.
pub(crate) fn of(difference: Option<Difference>) -> Verdict {
    difference.map_or(Verdict::Same, Verdict::Different)
}

/// A report that writes its lines at once and counts the totals.
pub(crate) struct Report<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    totals: Totals,
}

impl<'a> Report<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        Self { out, err, totals: Totals::default() }
    }

    pub(crate) fn bad(&mut self, trouble: &Trouble) -> io::Result<()> {
        self.totals.bad += 1;
        write!(self.err, "{trouble}")
    }

    pub(crate) fn line(&mut self, name: &str, verdict: &Verdict) -> io::Result<()> {
        match verdict {
            Verdict::Same => {
                self.totals.passed += 1;
                writeln!(self.out, "ok {name}")
            }
            Verdict::Different(Difference { place, expected, got }) => {
                self.totals.failed += 1;
                let (expected, got) = (text(expected.as_ref()), text(got.as_ref()));
                writeln!(self.out, "DIFF {name}: {place}, expected {expected}, got {got}")
            }
        }
    }

    pub(crate) fn end(self) -> io::Result<Totals> {
        let Totals { passed, failed, .. } = self.totals;
        writeln!(self.out, "{passed} passed, {failed} failed")?;
        Ok(self.totals)
    }
}

/// The maximum number of characters of a printed value.
const SHOWN: usize = 300;

fn text(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
