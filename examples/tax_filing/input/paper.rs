//! A paper as text: a title, then lines of `Name: value`.

use std::sync::Arc;

use super::date::Date;
use super::problem::Problem;
use super::{Document, Figure, Place};
use crate::money::Money;

/// A paper whose lines are read by name. Missing and unreadable lines become problems.
pub(crate) struct Paper<'a> {
    pub(crate) file: &'a Arc<str>,
    pub(crate) title: &'a str,
    lines: Vec<(u32, &'a str, &'a str)>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Paper<'a> {
    pub(crate) fn new(document: &'a Document, problems: &'a mut Vec<Problem>) -> Self {
        let file = &document.file;
        let numbered = (1..).zip(document.text.lines().map(str::trim));
        let mut full = numbered.filter(|(_, line)| !line.is_empty());
        let title = full.next().map_or("", |(_, title)| title);
        let mut lines = Vec::new();
        for (number, line) in full {
            match line.split_once(':') {
                Some((name, value)) => lines.push((number, name.trim(), value.trim())),
                None => problems.push(Problem::at(file, number, format!("`{line}` is not a `Name: value`"))),
            }
        }
        Self { file, title, lines, problems }
    }

    fn place(&self, line: u32) -> Place {
        Place { file: self.file.clone(), line }
    }

    pub(crate) fn wrong(&mut self, line: u32, what: String) {
        self.problems.push(Problem::at(self.file, line, what));
    }

    pub(crate) fn wrong_as_a_whole(&mut self, what: String) {
        self.problems.push(Problem::of_file(self.file, what));
    }

    /// Returns all lines with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (Place, &'a str, &'a str)> {
        self.lines.iter().map(|(line, name, value)| (self.place(*line), *name, *value))
    }

    /// Finds a line by the beginning of its name (`Box 1 ` for `Box 1 Wages`) and returns its number and value.
    pub(crate) fn line(&mut self, name: &str) -> Option<(u32, &'a str)> {
        let found = self.lines.iter().find(|(_, known, _)| {
            known.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        if let Some((line, _, value)) = found {
            return Some((*line, *value));
        }
        self.wrong_as_a_whole(format!("there is no line `{name}: …`"));
        None
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let (line, text) = self.line(name)?;
        if text.is_empty() {
            self.wrong(line, format!("`{name}` is empty"));
            return None;
        }
        Some(text.to_owned())
    }

    /// Reads an amount that is not negative.
    pub(crate) fn figure(&mut self, name: &str) -> Option<Figure> {
        let (line, text) = self.line(name)?;
        let amount = self.amount(line, name, text)?;
        Some(Figure { amount, place: self.place(line) })
    }

    /// Parses an amount that is not negative.
    pub(crate) fn amount(&mut self, line: u32, name: &str, text: &str) -> Option<Money> {
        let amount = Money::parse(text).filter(|amount| *amount >= Money::ZERO);
        if amount.is_none() {
            self.wrong(line, format!("`{name}` is `{text}`, which is not an amount such as `1,234.50`"));
        }
        amount
    }

    pub(crate) fn date(&mut self, name: &str) -> Option<Date> {
        let (line, text) = self.line(name)?;
        let date = Date::parse(text);
        if date.is_none() {
            self.wrong(line, format!("`{name}` is `{text}`, which is not a date such as `2025-03-31`"));
        }
        date
    }

    pub(crate) fn number<T: std::str::FromStr>(&mut self, name: &str, unit: &str) -> Option<T> {
        let (line, text) = self.line(name)?;
        let number = text.strip_suffix(unit).unwrap_or(text).trim().parse().ok();
        if number.is_none() {
            self.wrong(line, format!("`{name}` is `{text}`, which is not a number"));
        }
        number
    }
}
