//! What is wrong with the papers.

use std::fmt;

/// One mistake, with where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// None: something is missing in the folder as a whole.
    file: Option<String>,
    /// None: the file as a whole.
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

/// All that is wrong with the papers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the papers cannot be used; {} to mend:", self.0.len())?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Problems {}
