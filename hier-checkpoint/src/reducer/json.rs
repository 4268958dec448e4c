//! The built-in reducers for JSON values, for states that are declared at run time.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::{ReduceError, merged_places, put_at};

/// Maximum length of a value in an error message, in characters.
const LONGEST_EXCERPT: usize = 100;

/// A function that merges the second JSON value into the first.
#[doc(hidden)]
pub type Reducer = Arc<dyn Fn(&mut Value, Value) -> Result<(), ReduceError> + Send + Sync>;

/// A built-in reducer for JSON values. The variant also determines the initial value of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// Appends the written items to a list. The initial list is empty.
    Append,
    /// Adds the written entries to an object. A new entry replaces an old entry with the same key. The initial object
    /// is empty.
    Extend,
    /// Adds the written number. The initial number is 0.
    Sum,
    /// Multiplies by the written number. The initial number is 0, as in LangGraph, so the product stays 0. To start
    /// with another number, overwrite the channel.
    Product,
    /// Keeps the greater number. The initial number is 0.
    Max,
    /// Keeps the lesser number. The initial number is 0.
    Min,
    /// Computes the logical OR: the channel becomes true when a node writes true, and then stays true. The initial
    /// value is false.
    Any,
    /// Computes the logical AND. The initial value is false, as in LangGraph, so the value stays false. To start with
    /// true, overwrite the channel.
    All,
    /// Merges objects with an `id` into a list. An object with a known id replaces the old object at the same position.
    /// The reducer appends an object with a new id. The initial list is empty.
    ById,
}

const NAMES: [(&str, Builtin); 10] = [
    ("append", Builtin::Append),
    ("extend", Builtin::Extend),
    ("sum", Builtin::Sum),
    ("product", Builtin::Product),
    ("max", Builtin::Max),
    ("min", Builtin::Min),
    ("any", Builtin::Any),
    ("all", Builtin::All),
    ("by_id", Builtin::ById),
    ("upsert", Builtin::ById),
];

impl Builtin {
    /// Returns the reducer with this name, as in `#[reducer(…)]`. Fails for an unknown name, for `messages` and for
    /// `last`.
    pub fn named(name: &str) -> Result<Self, ReduceError> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, reducer)| *reducer);
        found.ok_or_else(|| {
            let known = NAMES.map(|(known, _)| format!("`{known}`")).join(", ");
            ReduceError::new(format!("there is no reducer `{name}`; known: {known}"))
        })
    }

    /// Returns the name of the reducer, as in `#[reducer(…)]`.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, reducer)| *reducer == self).map_or("", |(name, _)| name)
    }

    #[doc(hidden)]
    pub fn initial(self) -> Value {
        match self {
            Self::Append | Self::ById => Value::Array(Vec::new()),
            Self::Extend => Value::Object(Map::new()),
            Self::Sum | Self::Product | Self::Max | Self::Min => Value::from(0),
            Self::Any | Self::All => Value::Bool(false),
        }
    }

    #[doc(hidden)]
    pub fn reducer(self) -> Reducer {
        Arc::new(move |old, new| self.apply(old, new))
    }

    pub(crate) fn apply(self, old: &mut Value, new: Value) -> Result<(), ReduceError> {
        match (self, &mut *old, new) {
            (Self::Append, Value::Array(old), Value::Array(mut new)) => old.append(&mut new),
            (Self::Extend, Value::Object(old), Value::Object(new)) => old.extend(new),
            (Self::Any, Value::Bool(old), Value::Bool(new)) => *old |= new,
            (Self::All, Value::Bool(old), Value::Bool(new)) => *old &= new,
            (Self::ById, Value::Array(old), Value::Array(new)) => upsert(old, new)?,
            (Self::Sum, Value::Number(old), Value::Number(new)) => {
                *old = combine("sum", old, &new, i128::checked_add, |a, b| a + b)?;
            }
            (Self::Product, Value::Number(old), Value::Number(new)) => {
                *old = combine("product", old, &new, i128::checked_mul, |a, b| a * b)?;
            }
            (Self::Max | Self::Min, Value::Number(old), Value::Number(new)) => {
                let wanted = if self == Self::Max { Ordering::Greater } else { Ordering::Less };
                if order(self.name(), &new, old)? == wanted {
                    *old = new;
                }
            }
            (_, old, new) => {
                let (new, old) = (excerpt(&new), excerpt(old));
                return Err(ReduceError::new(format!("`{}` cannot merge {new} into {old}", self.name())));
            }
        }
        Ok(())
    }
}

/// Returns the beginning of a value as JSON, for error messages. A value may be a long list.
fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST_EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A number without loss: an integer of 64 bits, or a float.
enum Exact {
    Integer(i128),
    Float(f64),
}

/// Converts a JSON number. Fails if neither an integer of 64 bits nor a finite float holds the number.
fn exact(reducer: &str, number: &Number) -> Result<Exact, ReduceError> {
    if let Some(integer) = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from)) {
        return Ok(Exact::Integer(integer));
    }
    let float = number.as_f64().filter(|float| number.is_f64() && float.is_finite());
    float.map(Exact::Float).ok_or_else(|| ReduceError::new(format!("`{reducer}` cannot hold {number} exactly")))
}

/// Combines two numbers. Two integers give an integer, or an error if the result does not fit in 64 bits.
fn combine(
    reducer: &str,
    a: &Number,
    b: &Number,
    integers: fn(i128, i128) -> Option<i128>,
    floats: fn(f64, f64) -> f64,
) -> Result<Number, ReduceError> {
    let (a, b) = match (exact(reducer, a)?, exact(reducer, b)?) {
        (Exact::Integer(a), Exact::Integer(b)) => {
            let result = integers(a, b);
            let number = result.and_then(|result| {
                i64::try_from(result).map(Number::from).or_else(|_| u64::try_from(result).map(Number::from)).ok()
            });
            return number.ok_or_else(|| ReduceError::new(format!("`{reducer}` overflowed 64 bits")));
        }
        (a, b) => (a.float(), b.float()),
    };
    Number::from_f64(floats(a, b))
        .ok_or_else(|| ReduceError::new(format!("the result of `{reducer}` is not a finite number")))
}

impl Exact {
    #[allow(clippy::cast_precision_loss)] // with a float, the result is one
    fn float(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }
}

fn order(reducer: &str, a: &Number, b: &Number) -> Result<Ordering, ReduceError> {
    Ok(match (exact(reducer, a)?, exact(reducer, b)?) {
        (Exact::Integer(a), Exact::Integer(b)) => a.cmp(&b),
        (Exact::Float(a), Exact::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (Exact::Integer(a), Exact::Float(b)) => to_float(a, b),
        (Exact::Float(a), Exact::Integer(b)) => to_float(b, a).reverse(),
    })
}

#[allow(clippy::cast_possible_truncation)] // it saturates, far beyond 64 bits
fn to_float(integer: i128, float: f64) -> Ordering {
    integer.cmp(&(float.trunc() as i128)).then(0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

fn upsert(old: &mut Vec<Value>, new: Vec<Value>) -> Result<(), ReduceError> {
    // A null is not an id: two items with it would count as one item.
    if let Some(item) = new.iter().find(|item| item.get("id").is_none_or(Value::is_null)) {
        let item = excerpt(item);
        return Err(ReduceError::new(format!("`by_id` needs items with an `id`, and {item} has none")));
    }
    let places = merged_places(old.iter().map(|item| item.get("id")), new.iter().map(|item| item.get("id")));
    put_at(old, new, places);
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/unit/json_reducers.rs"]
mod tests;
