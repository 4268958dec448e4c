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
mod tests {
    use super::{Parsed, parse};

    #[test]
    fn numbers_are_stored_exactly_or_refused() {
        let held = |text: &str| parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        for value in [0_i128, 7, -7, i128::from(u64::MAX), i128::MIN, i128::MAX] {
            assert_eq!(held(&value.to_string()), Parsed::Signed(value));
        }
        assert_eq!(held(&u128::MAX.to_string()), Parsed::Unsigned(u128::MAX));
        for (text, value) in [
            ("0.1", 0.1),
            ("0.10", 0.1),
            ("-1.50e3", -1500.0),
            ("1e400", f64::INFINITY),
            ("0.0", 0.0),
            ("5e-324", 5e-324),
            ("1E+2", 100.0),
            ("3.141592653589793", std::f64::consts::PI),
        ] {
            match parse(text) {
                Ok(parsed) => assert_eq!(parsed, Parsed::Float(value)),
                Err(error) => assert!(value.is_infinite() && error.to_string().contains(text), "{error}"),
            }
        }
        assert!(matches!(held("-0"), Parsed::Float(zero) if zero == 0.0 && zero.is_sign_negative()));
        for text in ["3.14159265358979323846", "0.1000000000000000055", "340282366920938463463374607431768211456"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
