//! Numbers as text, as `serde_json` holds them with its feature `arbitrary_precision`.

use crate::checkpoint::CodecError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Parsed {
    Signed(i128),
    Unsigned(u128),
    Float(f64),
}

/// Parses a JSON number. Fails for a number that no stored form represents exactly.
pub(super) fn parse(text: &str) -> Result<Parsed, CodecError> {
    // Only a float keeps the sign of `-0`.
    if text != "-0" {
        if let Ok(value) = text.parse() {
            return Ok(Parsed::Signed(value));
        }
        if let Ok(value) = text.parse() {
            return Ok(Parsed::Unsigned(value));
        }
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && digits(text) == digits(&format!("{value:e}")) => Ok(Parsed::Float(value)),
        _ => Err(CodecError::new(format!(
            "the number {text} cannot be stored exactly: it needs more than 64 bits as a float and 128 as an integer; keep it as a string"
        ))),
    }
}

/// Returns the significant digits of a decimal number, and the power of ten of the last digit.
fn digits(text: &str) -> (String, i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches(['-', '+']));
    let significant = digits.trim_end_matches('0');
    let count = |digits: usize| i64::try_from(digits).unwrap_or(i64::MAX);
    let power = exponent.parse::<i64>().unwrap_or(0);
    let power = power.saturating_add(count(digits.len() - significant.len())).saturating_sub(count(fraction.len()));
    let significant = significant.trim_start_matches('0').to_owned();
    let power = if significant.is_empty() { 0 } else { power };
    (significant, power)
}

#[cfg(test)]
#[path = "../../../tests/unit/number.rs"]
mod tests;
