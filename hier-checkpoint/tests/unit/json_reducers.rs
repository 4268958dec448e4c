//! The built-in reducers of JSON numbers: exact, or refused.

use serde_json::json;

use super::*;

fn reduced(reducer: Builtin, old: &Value, new: &Value) -> Result<Value, String> {
    let mut value = old.clone();
    reducer.apply(&mut value, new.clone()).map(|()| value).map_err(|error| error.to_string())
}

#[test]
fn numbers_are_exact_or_refused() {
    let (most, least) = (json!(u64::MAX), json!(i64::MIN));
    let large = json!(9_007_199_254_740_993_u64); // 2^53 + 1
    let cases = [
        (Builtin::Sum, json!(i64::MAX), json!(1), Ok(json!(1_u64 << 63))),
        (Builtin::Sum, most.clone(), json!(-1), Ok(json!(u64::MAX - 1))),
        (Builtin::Sum, json!(1), json!(0.5), Ok(json!(1.5))),
        (Builtin::Sum, most.clone(), json!(1), Err("`sum` overflowed")),
        (Builtin::Sum, least.clone(), json!(-1), Err("`sum` overflowed")),
        (Builtin::Product, most.clone(), json!(1), Ok(most.clone())),
        (Builtin::Product, most.clone(), json!(2), Err("`product` overflowed")),
        (Builtin::Sum, json!(1e308), json!(1e308), Err("not a finite number")),
        (Builtin::Max, json!(u64::MAX - 1), most.clone(), Ok(most.clone())),
        (Builtin::Min, most.clone(), json!(u64::MAX - 1), Ok(json!(u64::MAX - 1))),
        (Builtin::Max, json!(9_007_199_254_740_992.0), large.clone(), Ok(large.clone())),
        (Builtin::Min, large.clone(), json!(9_007_199_254_740_992.0), Ok(json!(9_007_199_254_740_992.0))),
        (Builtin::Max, json!(-1), json!(-1.5), Ok(json!(-1))),
        (Builtin::Min, json!(-1), json!(-1.5), Ok(json!(-1.5))),
        (Builtin::Max, least, json!(-1e300), Ok(json!(i64::MIN))),
    ];
    for (reducer, old, new, wanted) in cases {
        match (reduced(reducer, &old, &new), wanted) {
            (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
            (made, wanted) => assert_eq!(made, wanted.map_err(str::to_owned), "{reducer:?} of {old} and {new}"),
        }
    }
}
