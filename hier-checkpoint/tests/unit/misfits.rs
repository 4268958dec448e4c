//! Errors of values that do not fit their type.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{decode, encode};

fn wrong<T: DeserializeOwned>(value: &Value) -> String {
    let bytes = encode(value).expect("JSON can be stored");
    decode::<T>(&bytes).err().expect("it is not a value").to_string()
}

#[test]
fn misfits_are_reported_in_terms_of_the_value() {
    assert!(wrong::<f64>(&json!("x")).ends_with("a string does not fit in a `f64`"));
    assert!(wrong::<Vec<u8>>(&json!([1, {}])).ends_with("an object does not fit in a `Vec<u8>`"));
    assert!(wrong::<u64>(&json!([1])).ends_with("a list does not fit in a `u64`"));
    let all = [json!(null), json!(true), json!(-1.5), json!(300), json!("x"), json!([1, 2, 3]), json!({ "a": 1 })];
    for value in &all {
        for error in [wrong::<(u8, u8)>(value), wrong::<Option<(bool, char)>>(&json!([value]))] {
            assert!(!error.contains("msgpack") && !error.contains("marker"), "{value}: {error}");
        }
    }
}
