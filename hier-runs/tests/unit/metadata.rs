//! Containment, compared with its definition, and with lists of hostile size.

use serde_json::json;

use super::*;

/// The definition of containment, item by item.
fn contains_simply(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            want.iter().all(|(key, want)| have.get(key).is_some_and(|have| contains_simply(have, want)))
        }
        (Value::Array(have), Value::Array(want)) => {
            want.iter().all(|want| have.iter().any(|have| contains_simply(have, want)))
        }
        (Value::Number(have), Value::Number(want)) => same_number(have, want),
        (have, want) => have == want,
    }
}

/// Values that are equal to others, are rounded to others, or contain others.
fn values() -> Vec<Value> {
    let large = 9_007_199_254_740_992_u64; // 2^53
    let numbers = [large - 1, large, large + 1, large + 2, large + 3, u64::MAX, u64::MAX - 1, 0, 4];
    let floats = [9_007_199_254_740_992.0, 18_446_744_073_709_551_615.0, 0.0, -0.0, 4.0, 4.5, -4.0];
    let others = [
        json!(null),
        json!(true),
        json!(false),
        json!(""),
        json!("4"),
        json!("null"),
        json!(-4),
        json!(i64::MIN),
        json!([]),
        json!([4]),
        json!([4.0, "4"]),
        json!([[4], 0]),
        json!({}),
        json!({ "a": 4 }),
        json!({ "a": 4.0, "b": [1, 2] }),
        json!({ "b": [2] }),
    ];
    numbers.map(Value::from).into_iter().chain(floats.map(Value::from)).chain(others).collect()
}

#[test]
fn containment_in_lists_of_any_length_follows_its_definition() {
    let (values, mut random) = (values(), fastrand::Rng::with_seed(7));
    let mut found = 0;
    for _ in 0..4_000 {
        let mut list = |most: usize| -> Value {
            let kinds = random.usize(1..=values.len());
            (0..random.usize(0..most)).map(|_| values[random.usize(..kinds)].clone()).collect()
        };
        let (have, want) = (json!({ "list": list(120) }), json!({ "list": list(30) }));
        let wanted = contains_simply(&have, &want);
        assert_eq!(contains(&have, &want), wanted, "{have} {want}");
        found += usize::from(wanted);
    }
    assert!((500..3_500).contains(&found), "{found}");
    for have in &values {
        for want in &values {
            // Both lists are long enough for the index.
            let list = |value: &Value| Value::from(vec![value.clone(); FEW + 1]);
            assert_eq!(contains(&list(have), &list(want)), contains_simply(have, want), "{have} {want}");
        }
    }
}

#[test]
fn containment_compares_long_lists_by_an_index() {
    // A comparison of each pair would be 4 × 10^10 comparisons for each list.
    let count = 200_000;
    let texts: Vec<Value> = (0..count).map(|number| Value::from(number.to_string())).collect();
    let numbers: Vec<Value> = (0..count).map(Value::from).collect();
    for mut have in [texts, numbers] {
        let mut want = have.clone();
        want.reverse();
        let want = Value::from(want);
        assert!(contains(&Value::from(have.clone()), &want));
        have.remove(count / 2);
        assert!(!contains(&Value::from(have), &want));
    }
}

#[test]
fn nested_values_are_those_in_lists_and_objects_of_lists() {
    let counts = [
        (json!(4), 0),
        (json!({ "a": { "b": 1 }, "c": [1, 2, 3] }), 0),
        (json!({ "a": [[], 1] }), 1),
        (json!({ "a": [{ "b": 1 }, [2, [3]]], "c": { "d": [{}] } }), 7),
    ];
    for (want, count) in counts {
        assert_eq!(nested_values(&want), count, "{want}");
    }
}
