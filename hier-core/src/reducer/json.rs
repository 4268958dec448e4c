//! The built-in reducers over JSON values, for states that are declared at run time.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::ReduceError;

/// A reducer over JSON values.
pub(crate) type Reducer = Arc<dyn Fn(&mut Value, Value) -> Result<(), ReduceError> + Send + Sync>;

/// A built-in reducer, with the empty value that its channel starts at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// A list: what is written goes to the end. Starts empty.
    Append,
    /// An object: entries are united, the right one wins. Starts empty.
    Extend,
    /// A number: added. Starts at 0.
    Sum,
    /// A number: multiplied. Starts at 0, as in the reference; overwrite it to start elsewhere.
    Product,
    /// A number: the greater stays. Starts at 0.
    Max,
    /// A number: the lesser stays. Starts at 0.
    Min,
    /// A bool: true as soon as one is. Starts false.
    Any,
    /// A bool: false as soon as one is. Starts false, as in the reference.
    All,
    /// A list of objects with an `id`: the same id replaces in place. Starts empty.
    ById,
}

/// The reducers by their names in macros and files.
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
    /// The reducer with this name, as in `#[reducer(…)]`.
    pub fn named(name: &str) -> Result<Self, ReduceError> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, reducer)| *reducer);
        found.ok_or_else(|| {
            let tail = hier_spec::did_you_mean(name, NAMES.map(|(known, _)| known));
            ReduceError::new(format!("there is no reducer `{name}`{tail}"))
        })
    }

    /// The reducer's name, as in `#[reducer(…)]`.
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, reducer)| *reducer == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn initial(self) -> Value {
        match self {
            Self::Append | Self::ById => Value::Array(Vec::new()),
            Self::Extend => Value::Object(Map::new()),
            Self::Sum | Self::Product | Self::Max | Self::Min => Value::from(0),
            Self::Any | Self::All => Value::Bool(false),
        }
    }

    pub(crate) fn reducer(self) -> Reducer {
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
                *old = combine(old, &new, i64::checked_add, |a, b| a + b)?;
            }
            (Self::Product, Value::Number(old), Value::Number(new)) => {
                *old = combine(old, &new, i64::checked_mul, |a, b| a * b)?;
            }
            (Self::Max, Value::Number(old), Value::Number(new)) if less(old, &new) => *old = new,
            (Self::Min, Value::Number(old), Value::Number(new)) if less(&new, old) => *old = new,
            (Self::Max | Self::Min, Value::Number(_), Value::Number(_)) => {}
            (_, old, new) => {
                return Err(ReduceError::new(format!("`{}` cannot merge {new} into {old}", self.name())));
            }
        }
        Ok(())
    }
}

/// Integers stay integers as long as they fit.
fn combine(
    a: &Number,
    b: &Number,
    integers: fn(i64, i64) -> Option<i64>,
    floats: fn(f64, f64) -> f64,
) -> Result<Number, ReduceError> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return integers(a, b).map(Number::from).ok_or_else(|| ReduceError::new("the number overflowed 64 bits"));
    }
    let float = a.as_f64().zip(b.as_f64()).and_then(|(a, b)| Number::from_f64(floats(a, b)));
    float.ok_or_else(|| ReduceError::new("the result is no finite number"))
}

fn less(a: &Number, b: &Number) -> bool {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a < b,
        _ => a.as_f64() < b.as_f64(),
    }
}

fn upsert(old: &mut Vec<Value>, new: Vec<Value>) -> Result<(), ReduceError> {
    for item in new {
        // What stands for nothing names no item: two of them would be one.
        let Some(id) = item.get("id").filter(|id| !id.is_null()) else {
            return Err(ReduceError::new(format!("`by_id` needs items with an `id`, and {item} has none")));
        };
        match old.iter_mut().find(|known| known.get("id") == Some(id)) {
            Some(known) => *known = item,
            None => old.push(item),
        }
    }
    Ok(())
}
