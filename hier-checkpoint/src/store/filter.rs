//! Filters: parsed and checked once, then applied to values.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::StoreError;
use super::rules::{DEEPEST, invalid};

#[derive(Clone, Debug)]
pub(super) struct Filter(Vec<(String, Test)>);

#[derive(Clone, Debug)]
enum Test {
    /// The field equals this value.
    Is(Value),
    /// The field is a list with one item for each test, and each item passes its test.
    Items(Vec<Test>),
    /// The field is an object, and these of its fields pass their tests.
    Fields(Vec<(String, Test)>),
    /// The field satisfies all of these operators.
    Operators(Vec<Operator>),
}

#[derive(Clone, Debug)]
enum Operator {
    Eq(Value),
    Ne(Value),
    Order(fn(Ordering) -> bool, Bound),
}

#[derive(Clone, Debug)]
enum Bound {
    Number(Number),
    Text(String),
}

impl Filter {
    /// Parses a filter. Fails with [`StoreError::Invalid`] if an operator, a value or the nesting is invalid.
    pub(super) fn of(filter: &Map<String, Value>) -> Result<Self, StoreError> {
        Ok(Self(fields(filter, DEEPEST)?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn matches(&self, value: &Map<String, Value>) -> bool {
        self.0.iter().all(|(name, test)| test.passes(value.get(name)))
    }
}

fn fields(object: &Map<String, Value>, levels: usize) -> Result<Vec<(String, Test)>, StoreError> {
    object.iter().map(|(name, wanted)| Ok((name.clone(), Test::of(wanted, levels)?))).collect()
}

impl Test {
    fn of(wanted: &Value, levels: usize) -> Result<Self, StoreError> {
        let Some(levels) = levels.checked_sub(1) else {
            return invalid(format!("the filter is nested deeper than {DEEPEST} levels"));
        };
        match wanted {
            Value::Object(object) if object.keys().any(|key| key.starts_with('$')) => {
                let all = object.iter().map(|(name, wanted)| Operator::of(name, wanted));
                Ok(Self::Operators(all.collect::<Result<_, _>>()?))
            }
            Value::Object(object) => Ok(Self::Fields(fields(object, levels)?)),
            Value::Array(items) => {
                Ok(Self::Items(items.iter().map(|item| Self::of(item, levels)).collect::<Result<_, _>>()?))
            }
            plain => Ok(Self::Is(plain.clone())),
        }
    }

    /// Returns true if a field matches. A missing field counts as null.
    fn passes(&self, found: Option<&Value>) -> bool {
        match (self, found) {
            (Self::Is(wanted), found) => same(found.unwrap_or(&Value::Null), wanted),
            (Self::Items(tests), Some(Value::Array(items))) => {
                tests.len() == items.len() && tests.iter().zip(items).all(|(test, item)| test.passes(Some(item)))
            }
            (Self::Fields(tests), Some(Value::Object(object))) => {
                tests.iter().all(|(name, test)| test.passes(object.get(name)))
            }
            (Self::Items(_) | Self::Fields(_), _) => false,
            (Self::Operators(all), found) => all.iter().all(|operator| operator.passes(found.unwrap_or(&Value::Null))),
        }
    }
}

impl Operator {
    fn of(name: &str, wanted: &Value) -> Result<Self, StoreError> {
        let order = |test| Ok(Self::Order(test, Bound::of(name, wanted)?));
        match name {
            "$eq" => Ok(Self::Eq(wanted.clone())),
            "$ne" => Ok(Self::Ne(wanted.clone())),
            "$gt" => order(Ordering::is_gt),
            "$gte" => order(Ordering::is_ge),
            "$lt" => order(Ordering::is_lt),
            "$lte" => order(Ordering::is_le),
            unknown => {
                let known = "`$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`";
                invalid(format!("the filter has no operator `{unknown}`; known: {known}"))
            }
        }
    }

    fn passes(&self, found: &Value) -> bool {
        match self {
            Self::Eq(wanted) => same(found, wanted),
            Self::Ne(wanted) => !same(found, wanted),
            Self::Order(test, bound) => bound.compare(found).is_some_and(test),
        }
    }
}

impl Bound {
    fn of(operator: &str, wanted: &Value) -> Result<Self, StoreError> {
        match (number(wanted), wanted) {
            (Some(number), _) => Ok(Self::Number(number)),
            (None, Value::String(text)) => Ok(Self::Text(text.clone())),
            _ => invalid(format!("`{operator}` compares only numbers and texts, not `{wanted}`")),
        }
    }

    /// Compares a value with the bound. Returns `None` if they cannot be compared.
    fn compare(&self, found: &Value) -> Option<Ordering> {
        match (self, found) {
            (Self::Number(bound), found) => Some(order(&number(found)?, bound)),
            (Self::Text(bound), Value::String(found)) => Some(found.as_str().cmp(bound)),
            (Self::Text(_), _) => None,
        }
    }
}

/// Converts a number, or a text that contains a number.
fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => {
            let text = text.trim();
            let whole = text.parse::<i64>().ok().map(Number::from);
            whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
        }
        _ => None,
    }
}

fn order(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => float(a).total_cmp(&float(b)),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    // −0 and 0 are the same.
    number.as_f64().unwrap_or_default() + 0.0
}

/// Returns true if two numbers have the same value: 4 equals 4.0.
pub fn same_number(a: &Number, b: &Number) -> bool {
    order(a, b).is_eq()
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
