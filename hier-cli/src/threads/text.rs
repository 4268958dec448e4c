//! Formats text for terminals: tables, times, and names without control characters.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::builder::styling::Style;
use serde_json::Value;

/// The maximum length of a value in a table, in characters.
const MAX_WIDTH: usize = 100;

/// Returns true for characters that a terminal interprets: control characters and marks that change the direction of
/// text.
fn is_interpreted(letter: char) -> bool {
    let turns =
        matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || letter.is_control()
}

/// Escapes the characters that a terminal interprets.
pub(super) fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_interpreted(letter) {
            safe.extend(letter.escape_default());
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Escapes the characters of each line that could change the output of a terminal.
pub fn safe_lines(text: &str) -> String {
    text.split('\n').map(safe).collect::<Vec<_>>().join("\n")
}

/// Formats JSON, and escapes the characters that a terminal interprets. `anstream` would remove some of them from output
/// that is not for a terminal.
pub(crate) fn safe_json(value: &Value) -> String {
    let mut safe = String::new();
    for letter in format!("{value:#}").chars() {
        if letter != '\n' && is_interpreted(letter) {
            // Writing to a string does not fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(letter));
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Escapes text and cuts it to the maximum length.
pub(super) fn short(text: &str) -> String {
    let text = safe(text);
    match text.char_indices().nth(MAX_WIDTH) {
        None => text,
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}

/// Writes columns of equal width, separated by two spaces. The cells must be escaped.
pub(super) fn table(out: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    aligned(out, rows, Style::new())
}

/// Writes a table whose first row contains the titles of the columns.
pub(super) fn headed_table(out: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    aligned(out, rows, Style::new().bold())
}

fn aligned(out: &mut dyn Write, rows: &[Vec<String>], head: Style) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        // `anstream` removes the style if the output is not a terminal.
        let head = if number == 0 { head } else { Style::new() };
        writeln!(out, "{head}{}{head:#}", line.trim_end())?;
    }
    Ok(())
}

/// Formats a time like `2026-11-21T08:30:00Z`.
pub(super) fn time(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the year, month and day for a number of days since 1970. The computation lets years begin in March, so that
/// a leap day is the last day of its year.
fn date(day: u64) -> (u64, u64, u64) {
    // Days since the 1st of March of year 0. 400 years have 146,097 days.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March, 0 to 11. Five months have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timestamps_are_calendar_times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (1_798_761_600, "2027-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(time(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(safe("a\u{1b}[2Jb\n\u{202e}ü"), "a\\u{1b}[2Jb\\n\\u{202e}ü");
    }
}
