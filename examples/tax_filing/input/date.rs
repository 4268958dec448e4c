//! The dates of bank statements.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// Reads `2025-03-31`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let [year, month, day] = parts[..] else { return None };
        if [year.len(), month.len(), day.len()] != [4, 2, 2] {
            return None;
        }
        let date = Self { year: year.parse().ok()?, month: month.parse().ok()?, day: day.parse().ok()? };
        (date.day >= 1 && date.day <= days_in(date.year, date.month)?).then_some(date)
    }

    pub(crate) fn year(self) -> u16 {
        self.year
    }

    /// Returns the days since another date. Negative if this date is earlier.
    pub(crate) fn days_after(self, other: Self) -> i64 {
        self.number() - other.number()
    }

    /// The number of the day in a continuous count.
    fn number(self) -> i64 {
        // With years that begin in March, the leap day is the last day.
        let (year, month) = (i64::from(self.year), i64::from(self.month));
        let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + i64::from(self.day)
    }
}

fn days_in(year: u16, month: u8) -> Option<u8> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if leap { 29 } else { 28 }),
        _ => None,
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}
