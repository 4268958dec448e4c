//! Numbers as text: stored exactly, or refused.

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
