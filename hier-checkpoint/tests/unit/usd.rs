//! Amounts of US dollars: exact, from and to JSON.

use serde_json::{Value, json};

use super::*;

#[test]
fn amounts_are_exact_and_survive_json() {
    for picodollars in [0, 1, 75_000, DOLLAR, DOLLAR + 1, 2_500_000_000_000, u64::MAX - 1, u64::MAX] {
        let amount = Usd::from_picodollars(picodollars);
        let stored = serde_json::to_value(amount).unwrap();
        assert_eq!(serde_json::from_value::<Usd>(stored).unwrap(), amount);
    }
    let stored = |dollars| serde_json::to_value(Usd::from_dollars(dollars)).unwrap();
    assert_eq!([stored(2.0), stored(0.5), stored(0.000_000_075)], [json!("2.00"), json!("0.50"), json!("0.000000075")]);
    assert_eq!((0..10).map(|_| Usd::from_dollars(0.1)).sum::<Usd>(), Usd::from_dollars(1.0));
}

#[test]
fn numbers_are_accepted_and_impossible_amounts_are_refused() {
    let read = |value: Value| serde_json::from_value::<Usd>(value).map_err(|error| error.to_string());
    assert_eq!(read(json!(2)), Ok(Usd::from_dollars(2.0)));
    assert_eq!(read(json!(0.25)), Ok(Usd::from_dollars(0.25)));
    let wrong = [
        json!("-1"),
        json!("two"),
        json!(""),
        json!("."),
        json!("1."),
        json!(".5"),
        json!("1e3"),
        json!("$1"),
        json!("0.0000000000001"),
        json!("18446744.1"),
        json!(-1),
        json!(-0.5),
        json!(1e30),
        json!(18_446_745),
    ];
    for value in wrong {
        let error = read(value.clone()).unwrap_err();
        assert!(error.contains("is not an amount of US dollars"), "{value}: {error}");
    }
    assert!(read(json!(null)).unwrap_err().contains("an amount of US dollars, such as"));
}

#[test]
fn numbers_that_are_not_amounts_become_the_nearest() {
    assert_eq!([-1.0, f64::NAN].map(Usd::from_dollars), [Usd::ZERO; 2]);
    assert_eq!([1e30, f64::INFINITY].map(Usd::from_dollars), [Usd::MAX; 2]);
    assert_eq!(Usd::MAX + Usd::from_picodollars(1), Usd::MAX);
}
