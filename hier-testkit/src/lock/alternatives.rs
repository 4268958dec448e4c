//! Rewrites schemas so that a reference, or a list of alternatives, is the only key of its schema.
//!
//! For an internally tagged enum, a schema has the tag next to a reference to the variant's fields. For a flattened
//! enum, a schema has the fields of the struct next to the variants.

use serde_json::{Map, Value};

use super::model::Lock;
use super::schema::{ANYTHING, Types, named};

/// The keys that refer to other schemas of the same value.
const COMBINING: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];
/// Maximum number of alternatives. A schema with more of them accepts every value.
const MOST: usize = 1_000;

/// Returns the lock with rewritten schemas.
pub(super) fn rewritten(lock: &Lock) -> Lock {
    let rewrite = |schema: &mut Value| *schema = Rewriting { types: &lock.types, open: Vec::new() }.schema(schema);
    let mut new = lock.clone();
    new.types.values_mut().for_each(rewrite);
    for graph in new.graphs.values_mut() {
        graph.channels.values_mut().filter_map(|channel| channel.schema.as_mut()).for_each(rewrite);
        for asked in graph.questions.values_mut() {
            [&mut asked.question, &mut asked.answer].into_iter().for_each(rewrite);
        }
    }
    new
}

struct Rewriting<'a> {
    types: &'a Types,
    /// The names of the types that are being copied to their references.
    open: Vec<&'a str>,
}

impl<'a> Rewriting<'a> {
    fn schema(&mut self, schema: &'a Value) -> Value {
        let Value::Object(fields) = schema else { return schema.clone() };
        let combining = COMBINING.iter().filter(|key| fields.contains_key(**key)).count();
        if combining == 0 || (fields.len() == 1 && !fields.contains_key("allOf")) {
            return self.parts(fields.iter());
        }
        let mut all = self.alternatives(schema);
        match all.len() {
            1 => all.remove(0),
            2..=MOST => Value::from_iter([("anyOf", all)]),
            _ => ANYTHING.clone(),
        }
    }

    /// Returns the schema of these keys, with rewritten inner schemas.
    fn parts(&mut self, fields: impl Iterator<Item = (&'a String, &'a Value)>) -> Value {
        let mut part = |key: &str, value: &'a Value| match (key, value) {
            ("properties" | "patternProperties", Value::Object(named)) => {
                named.iter().map(|(name, schema)| (name.clone(), self.schema(schema))).collect()
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => list.iter().map(|it| self.schema(it)).collect(),
            ("items" | "additionalProperties" | "unevaluatedProperties", schema) => self.schema(schema),
            _ => value.clone(),
        };
        fields.map(|(key, value)| (key.clone(), part(key, value))).collect()
    }

    /// Returns schemas without references and lists. Each value of the schema fits one of them.
    fn alternatives(&mut self, schema: &'a Value) -> Vec<Value> {
        let Value::Object(fields) = schema else { return vec![schema.clone()] };
        let mut all = vec![self.parts(fields.iter().filter(|(key, _)| !COMBINING.contains(&key.as_str())))];
        let list = |key: &str| fields.get(key).and_then(Value::as_array);
        if let Some(name) = named(schema) {
            all = product(&all, &self.type_named(name));
        }
        for part in list("allOf").into_iter().flatten() {
            all = product(&all, &self.alternatives(part));
        }
        for branches in ["anyOf", "oneOf"].iter().filter_map(|key| list(key)) {
            let branches: Vec<_> = branches.iter().flat_map(|branch| self.alternatives(branch)).collect();
            all = product(&all, &branches);
        }
        all
    }

    fn type_named(&mut self, name: &'a str) -> Vec<Value> {
        match self.types.get(name) {
            None => vec![ANYTHING.clone()],
            // The type contains itself.
            Some(_) if self.open.contains(&name) => vec![Value::from_iter([("$ref", format!("#/$defs/{name}"))])],
            Some(schema) => {
                self.open.push(name);
                let all = self.alternatives(schema);
                self.open.pop();
                all
            }
        }
    }
}

/// Returns the combinations of two lists of alternatives.
fn product(one: &[Value], other: &[Value]) -> Vec<Value> {
    let pairs = one.iter().flat_map(|one| other.iter().map(move |other| both(one, other)));
    pairs.take(MOST + 1).collect()
}

/// Returns the schema of the values that fit both schemas.
fn both(one: &Value, other: &Value) -> Value {
    let (Value::Object(fields), Value::Object(others)) = (one, other) else {
        return if *one == ANYTHING { other.clone() } else { one.clone() };
    };
    let mut all = fields.clone();
    for (key, value) in others {
        match (key.as_str(), all.get_mut(key), value) {
            (_, None, _) => _ = all.insert(key.clone(), value.clone()),
            ("properties" | "patternProperties", Some(Value::Object(known)), Value::Object(more)) => {
                more.iter().for_each(|(name, schema)| _ = known.entry(name).or_insert_with(|| schema.clone()));
            }
            ("required", Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
            ("additionalProperties", Some(known), _) => *known = both(known, value),
            _ => {}
        }
    }
    closed(all)
}

/// Replaces the key that also restricts the fields of the combined schemas.
fn closed(mut fields: Map<String, Value>) -> Value {
    if let Some(others) = fields.remove("unevaluatedProperties") {
        fields.entry("additionalProperties").or_insert(others);
    }
    fields.into()
}
