//! Problems of the papers.

use std::fmt;

/// A problem and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// `None` if the whole folder lacks something.
    file: Option<String>,
    /// `None` for the whole file.
    line: Option<u32>,
    what: String,
}

impl Problem {
    pub(crate) fn at(file: &str, line: u32, what: impl Into<String>) -> Self {
        Self { file: Some(file.to_owned()), line: Some(line), what: what.into() }
    }

    pub(crate) fn of_file(file: &str, what: impl Into<String>) -> Self {
        Self { file: Some(file.to_owned()), line: None, what: what.into() }
    }

    pub(crate) fn of_case(what: impl Into<String>) -> Self {
        Self { file: None, line: None, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: {}", self.what),
            (Some(file), None) => write!(f, "{file}: {}", self.what),
            (None, _) => f.write_str(&self.what),
        }
    }
}

/// All problems of the papers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the papers have {} mistakes:", self.0.len())?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Problems {}
