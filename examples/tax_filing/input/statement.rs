//! The bank statement: a CSV file of `date,description,amount`.

use serde::{Deserialize, Serialize};

use super::date::Date;
use super::problem::Problem;
use super::{Document, Place};
use crate::money::Money;

/// A position of the bank statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// The number, counted from 1 over all statements.
    pub(crate) number: u32,
    pub(crate) date: Date,
    pub(crate) text: String,
    pub(crate) amount: Money,
    pub(crate) place: Place,
}

const HEAD: &str = "date,description,amount";

/// Adds the positions of a statement.
pub(crate) fn read(document: &Document, positions: &mut Vec<Position>, problems: &mut Vec<Problem>) {
    let file = &document.file;
    let mut lines = (1..).zip(document.text.lines());
    match lines.next() {
        Some((_, head)) if head.trim() == HEAD => {}
        _ => problems.push(Problem::at(file, 1, format!("the first line must be `{HEAD}`"))),
    }
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let mut wrong = |what: String| problems.push(Problem::at(file, line, what));
        let Some((date, description, amount)) = fields(text) else {
            wrong(format!("`{text}` does not have the three fields `{HEAD}`"));
            continue;
        };
        let parsed = (Date::parse(date), Money::parse(amount));
        if parsed.0.is_none() {
            wrong(format!("`{date}` is not a date such as `2025-03-31`"));
        }
        if parsed.1.is_none() {
            wrong(format!("`{amount}` is not an amount such as `-1234.50`"));
        }
        if let (Some(date), Some(amount)) = parsed {
            let number = u32::try_from(positions.len() + 1).unwrap_or(u32::MAX);
            let place = Place { file: file.clone(), line };
            positions.push(Position { number, date, text: description.to_owned(), amount, place });
        }
    }
}

/// Splits a line. The description may contain commas. Quotes around it are removed.
fn fields(line: &str) -> Option<(&str, &str, &str)> {
    let (date, rest) = line.split_once(',')?;
    let (description, amount) = rest.rsplit_once(',')?;
    Some((date.trim(), description.trim().trim_matches('"'), amount.trim()))
}
