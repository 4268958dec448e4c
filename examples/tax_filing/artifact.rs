//! The artifact of the stages: the only channel that crosses the boundaries between agents.

use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::input::{Document, Place, Position, Records, Taxpayer};
use crate::money::Money;

/// The results of the stages so far. Copies share their contents, and a stage writes only its addition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Artifact {
    /// Evidence: the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) documents: Option<Arc<[Document]>>,
    /// Evidence: remarks about odd files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remarks: Option<Arc<[String]>>,
    /// Extraction: the records in the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<Arc<Records>>,
    /// Matching: the match of each position of the bank statement, by its number.
    #[serde(skip_serializing_if = "OrdMap::is_empty")]
    pub(crate) matches: OrdMap<u32, Match>,
    /// Reconciliation: the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) accounts: Option<Arc<Accounts>>,
    /// Reporting: the return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) filing: Option<Arc<Filing>>,
}

impl Artifact {
    /// The reducer: adds the result of a stage.
    pub(crate) fn merge(&mut self, new: Self) {
        let Self { documents, remarks, records, matches, accounts, filing } = new;
        self.documents = documents.or(self.documents.take());
        self.remarks = remarks.or(self.remarks.take());
        self.records = records.or(self.records.take());
        self.matches.extend(matches);
        self.accounts = accounts.or(self.accounts.take());
        self.filing = filing.or(self.filing.take());
    }

    /// Returns the number of positions of the bank statement.
    pub(crate) fn positions(&self) -> usize {
        self.records.as_ref().map_or(0, |records| records.positions.len())
    }
}

/// The match of a position of the bank statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Match {
    /// It belongs to this document.
    Document(Arc<str>),
    /// It needs no document, for this reason.
    Explained(String),
    /// A person must look at it, for this reason.
    Open(String),
}

/// The numbers of the return.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Accounts {
    pub(crate) lines: Vec<Line>,
    /// The differences between papers and bank.
    pub(crate) differences: Vec<String>,
}

/// A line of the return.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) number: u8,
    pub(crate) label: String,
    pub(crate) amount: Money,
    /// The origins of the number.
    pub(crate) from: Vec<Origin>,
}

/// The origin of a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    Paper(Place),
    Line(u8),
    Rule(String),
}

/// The return.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Filing {
    pub(crate) taxpayer: Taxpayer,
    pub(crate) documents: usize,
    pub(crate) lines: Vec<Line>,
    pub(crate) bank: Bank,
    pub(crate) remarks: Vec<String>,
    pub(crate) differences: Vec<String>,
}

/// The summary of the bank statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bank {
    pub(crate) positions: usize,
    pub(crate) with_document: usize,
    pub(crate) explained: usize,
    pub(crate) open: Vec<OpenPosition>,
}

/// A position that a person must look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenPosition {
    pub(crate) position: Position,
    pub(crate) why: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paper(Place { file, line }) => write!(f, "{file}:{line}"),
            Self::Line(number) => write!(f, "line {number}"),
            Self::Rule(rule) => f.write_str(rule),
        }
    }
}
