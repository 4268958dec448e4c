//! What is printed: a line a scenario, then the totals.

use std::io::{self, Write};

use serde_json::Value;

use super::compare::Difference;
use super::files::Trouble;

/// How many scenarios came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// They did what the reference did.
    pub passed: usize,
    /// They did something else.
    pub failed: usize,
    /// Files and folders that could not be used.
    pub bad: usize,
}

/// What came of one scenario.
pub(crate) enum Verdict {
    Same,
    Different(Difference),
}

/// The verdict of a comparison.
pub(crate) fn of(difference: Option<Difference>) -> Verdict {
    difference.map_or(Verdict::Same, Verdict::Different)
}

/// The lines, as they come.
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

/// How much of a value is shown.
const SHOWN: usize = 300;

fn text(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
