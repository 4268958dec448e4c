//! Decides whether a type accepts every value of another type, or one value.

use serde_json::Value;

use super::schema::{ANYTHING, SIGNED, Typed, UNSIGNED, inside, integer};

/// The reason why a type does not accept a value, with the place in the value.
pub(super) type Misfit = String;

fn misfit(place: &str, what: impl std::fmt::Display) -> Result<(), Misfit> {
    Err(if place.is_empty() { what.to_string() } else { format!("`{}` {what}", place.trim_start_matches('.')) })
}

/// Checks that `new` accepts every value of `old`. Compares recursive types once.
pub(super) fn covers(old: Typed<'_>, new: Typed<'_>) -> Result<(), Misfit> {
    Comparison::default().covers(old, new, "")
}

#[derive(Default)]
struct Comparison {
    /// The pairs of schemas whose comparison is in progress, by their addresses.
    open: Vec<(*const Value, *const Value)>,
}

impl Comparison {
    fn covers(&mut self, old: Typed<'_>, new: Typed<'_>, place: &str) -> Result<(), Misfit> {
        let (old, new) = (old.resolved(), new.resolved());
        let pair = (std::ptr::from_ref(old.schema), std::ptr::from_ref(new.schema));
        if self.open.contains(&pair) || accepts_all(new) {
            return Ok(());
        }
        self.open.push(pair);
        let compared = self.compare(old, new, place);
        self.open.pop();
        compared
    }

    fn compare(&mut self, old: Typed<'_>, new: Typed<'_>, place: &str) -> Result<(), Misfit> {
        if *old.schema == Value::Bool(false) {
            return Ok(());
        }
        if let Some(branches) = old.branches() {
            return branches.into_iter().try_for_each(|branch| self.covers(branch, new, place));
        }
        if let Some(constants) = old.constants() {
            return constants.into_iter().try_for_each(|value| fits(new, value, place));
        }
        match old.kinds() {
            Some(kinds) => kinds.into_iter().try_for_each(|kind| self.kind(old, new, kind, place)),
            None if old.schema == new.schema => Ok(()),
            None => misfit(place, "has another type"),
        }
    }

    /// Checks that `new` accepts the values of `old` that have this JSON type.
    fn kind(&mut self, old: Typed<'_>, new: Typed<'_>, kind: &str, place: &str) -> Result<(), Misfit> {
        let new = new.resolved();
        if accepts_all(new) {
            return Ok(());
        }
        if let Some(branches) = new.branches() {
            return any(branches, |branch| self.kind(old, branch, kind, place));
        }
        match new.constants() {
            Some(constants) if kind == "null" && constants.contains(&&Value::Null) => Ok(()),
            Some(_) => misfit(place, "accepts fewer values"),
            None if *new.schema == Value::Bool(false) => misfit(place, "is stored, and the type rejects it"),
            None => self.of_kind(old, new, kind, place),
        }
    }

    /// Compares the values of one JSON type.
    fn of_kind(&mut self, old: Typed<'_>, new: Typed<'_>, kind: &str, place: &str) -> Result<(), Misfit> {
        if let Some(kinds) = new.kinds() {
            let is_number = kind == "integer" && kinds.contains(&"number");
            if !kinds.contains(&kind) && !is_number {
                return misfit(place, format_args!("is stored as {kind}, and the type expects {}", kinds.join(" or ")));
            }
        }
        match kind {
            "object" => self.objects(old, new, place),
            "array" => self.arrays(old, new, place),
            "integer" if new.kinds().is_none_or(|kinds| kinds.contains(&"integer")) => {
                let ((low, high), (least, most)) = (old.range(), new.range());
                if low < least || high > most {
                    misfit(place, format_args!("may be outside of {least}..={most}"))
                } else {
                    Ok(())
                }
            }
            "string" => strings(old, new, place),
            _ => Ok(()),
        }
    }

    fn objects(&mut self, old: Typed<'_>, new: Typed<'_>, place: &str) -> Result<(), Misfit> {
        if let Some(missing) = new.required().find(|name| !old.requires(name)) {
            return misfit(&inside(place, missing), "is required now, and stored values may not have it");
        }
        for (name, field) in new.fields() {
            let stored = old.field("properties", name).or_else(|| old.others());
            if let Some(stored) = stored {
                self.covers(stored, field, &inside(place, name))?;
            }
        }
        let Some(others) = new.others() else { return Ok(()) };
        let unlisted = old.fields().filter(|(name, _)| new.field("properties", name).is_none()).collect::<Vec<_>>();
        for (name, field) in unlisted {
            if *others.schema == Value::Bool(false) {
                return misfit(&inside(place, name), "is stored, and the type rejects it");
            }
            self.covers(field, others, &inside(place, name))?;
        }
        for (keys, schema) in old.patterns() {
            let wider = (keys == UNSIGNED).then_some(SIGNED).and_then(|keys| new.field("patternProperties", keys));
            let values = new.field("patternProperties", keys).or(wider).unwrap_or(others);
            self.covers(schema, values, &format!("{place}.*"))?;
        }
        let stored = match old.others() {
            // An object with any fields.
            None if old.get("properties").is_none() && old.patterns().next().is_none() => {
                Typed { schema: &ANYTHING, ..old }
            }
            None => return Ok(()),
            Some(stored) => stored,
        };
        self.covers(stored, others, &format!("{place}.*"))
    }

    fn arrays(&mut self, old: Typed<'_>, new: Typed<'_>, place: &str) -> Result<(), Misfit> {
        match (tuple(old), tuple(new)) {
            (Some(old), Some(new)) if old.len() == new.len() => {
                let pairs = old.into_iter().zip(new);
                return pairs.into_iter().try_for_each(|(old, new)| self.covers(old, new, &format!("{place}[]")));
            }
            (Some(_) | None, Some(_)) => return misfit(place, "may have a number of items that the type rejects"),
            (Some(items), None) => {
                if let Some(each) = new.get("items") {
                    let each = Typed { schema: each, ..new };
                    items.into_iter().try_for_each(|item| self.covers(item, each, &format!("{place}[]")))?;
                }
            }
            (None, None) => {
                self.covers(items(old), items(new), &format!("{place}[]"))?;
            }
        }
        let least = new.length("minItems").is_some_and(|least| old.length("minItems").unwrap_or(0) < least);
        let most = new.length("maxItems").is_some_and(|most| old.length("maxItems").is_none_or(|old| old > most));
        if least || most { misfit(place, "may have a number of items that the type rejects") } else { Ok(()) }
    }
}

/// Checks that one of the branches fits. Returns the reason of the first branch otherwise.
fn any<'a>(branches: Vec<Typed<'a>>, fits: impl FnMut(Typed<'a>) -> Result<(), Misfit>) -> Result<(), Misfit> {
    let mut reasons = branches.into_iter().map(fits);
    let first = reasons.next().unwrap_or_else(|| Err("accepts no value".to_owned()));
    if first.is_ok() || reasons.any(|fit| fit.is_ok()) { Ok(()) } else { first }
}

fn tuple(schema: Typed<'_>) -> Option<Vec<Typed<'_>>> {
    Some(schema.list("prefixItems")?.collect())
}

fn items(schema: Typed<'_>) -> Typed<'_> {
    Typed { schema: schema.get("items").unwrap_or(&ANYTHING), ..schema }
}

fn strings(old: Typed<'_>, new: Typed<'_>, place: &str) -> Result<(), Misfit> {
    for key in ["format", "pattern", "contentEncoding"] {
        if new.get(key).is_some() && new.get(key) != old.get(key) {
            return misfit(
                place,
                format_args!("is any text, and the type expects a {key} {}", new.get(key).unwrap_or(&Value::Null)),
            );
        }
    }
    let least = new.length("minLength").is_some_and(|least| old.length("minLength").unwrap_or(0) < least);
    let most = new.length("maxLength").is_some_and(|most| old.length("maxLength").is_none_or(|old| old > most));
    if least || most { misfit(place, "may have a length that the type rejects") } else { Ok(()) }
}

fn accepts_all(schema: Typed<'_>) -> bool {
    *schema.schema == ANYTHING || schema.schema.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Checks that a type accepts a stored value.
pub(super) fn fits(new: Typed<'_>, value: &Value, place: &str) -> Result<(), Misfit> {
    let new = new.resolved();
    if accepts_all(new) {
        return Ok(());
    }
    if let Some(branches) = new.branches() {
        return any(branches, |branch| fits(branch, value, place));
    }
    if *new.schema == Value::Bool(false) {
        return misfit(place, "is stored, and the type rejects it");
    }
    if let Some(constants) = new.constants() {
        return if constants.contains(&value) {
            Ok(())
        } else {
            misfit(place, format_args!("is {value}, which the type does not have"))
        };
    }
    let kinds = new.kinds();
    let kind = kind_of(value, kinds.as_deref());
    if let Some(kinds) = kinds.filter(|kinds| !kinds.contains(&kind)) {
        return misfit(place, format_args!("is stored as {kind}, and the type expects {}", kinds.join(" or ")));
    }
    match value {
        Value::Object(fields) => {
            if let Some(missing) = new.required().find(|name| !fields.contains_key(*name)) {
                return misfit(&inside(place, missing), "is required, and the stored value does not have it");
            }
            fields.iter().try_for_each(|(name, value)| match new.field_named(name) {
                Some(field) => fits(field, value, &inside(place, name)),
                None => Ok(()),
            })
        }
        Value::Array(items) => array_fits(new, items, place),
        _ if kind == "integer" => {
            let (least, most) = new.range();
            let is_within = integer(value).is_none_or(|value| (least..=most).contains(&value));
            if is_within {
                Ok(())
            } else {
                misfit(place, format_args!("is {value}, which is outside of {least}..={most}"))
            }
        }
        Value::String(text) => {
            let length = text.chars().count() as u64;
            let least = new.length("minLength").is_some_and(|least| length < least);
            let most = new.length("maxLength").is_some_and(|most| length > most);
            let is_other = least || most || new.get("format").is_some() || new.get("pattern").is_some();
            if is_other { misfit(place, "may be a text that the type rejects") } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

fn array_fits(new: Typed<'_>, items: &[Value], place: &str) -> Result<(), Misfit> {
    let tuple: Vec<_> = new.list("prefixItems").into_iter().flatten().collect();
    let count = items.len() as u64;
    let least = new.length("minItems").is_some_and(|least| count < least);
    let most = new.length("maxItems").is_some_and(|most| count > most);
    if least || most || items.len() < tuple.len() {
        return misfit(place, format_args!("has {count} items, which the type does not accept"));
    }
    let schemas = tuple.into_iter().chain(std::iter::repeat(self::items(new)));
    items.iter().zip(schemas).try_for_each(|(item, schema)| fits(schema, item, &format!("{place}[]")))
}

/// Returns the JSON type of a stored value. If the stored form is ambiguous, an expected type takes precedence.
fn kind_of(value: &Value, expected: Option<&[&str]>) -> &'static str {
    let expects = |kind| expected.is_some_and(|kinds| kinds.contains(&kind));
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if !number.is_f64() && !expects("number") => "integer",
        Value::Number(number) if !number.is_f64() && expects("integer") => "integer",
        Value::Number(_) => "number",
        Value::String(text) if expects("number") && matches!(text.as_str(), "NaN" | "inf" | "-inf") => "number",
        Value::String(_) if expects("integer") && !expects("string") && integer(value).is_some() => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
