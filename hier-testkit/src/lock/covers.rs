//! Decides whether a type accepts every value of another type, or one value.

use serde_json::Value;

use super::schema::{ANYTHING, Typed, inside, integer};

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
        if let Some(branches) = new.branches() {
            let kinds = old.kinds().unwrap_or_default();
            if kinds.len() > 1 {
                return kinds.into_iter().try_for_each(|kind| self.some_branch(old, Some(kind), &branches, place));
            }
            return self.some_branch(old, None, &branches, place);
        }
        if let Some(all) = new.list("allOf") {
            all.collect::<Vec<_>>().into_iter().try_for_each(|part| self.covers(old, part, place))?;
        }
        if new.constants().is_some() {
            return misfit(place, "accepts fewer values");
        }
        let Some(kinds) = old.kinds() else {
            return if old.schema == new.schema { Ok(()) } else { misfit(place, "has another type") };
        };
        kinds.into_iter().try_for_each(|kind| self.of_kind(old, new, kind, place))
    }

    fn some_branch(
        &mut self,
        old: Typed<'_>,
        kind: Option<&str>,
        branches: &[Typed<'_>],
        place: &str,
    ) -> Result<(), Misfit> {
        let mut first = None;
        for branch in branches {
            let compared = match kind {
                Some(kind) => self.of_kind(old, branch.resolved(), kind, place),
                None => self.covers(old, *branch, place),
            };
            match compared {
                Ok(()) => return Ok(()),
                Err(reason) => _ = first.get_or_insert(reason),
            }
        }
        Err(first.unwrap_or_else(|| "accepts no value".to_owned()))
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
        match old.others() {
            Some(stored) => self.covers(stored, others, &format!("{place}.*")),
            None if old.get("properties").is_none() && old.get("patternProperties") != new.get("patternProperties") => {
                misfit(place, "has other keys")
            }
            None => Ok(()),
        }
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
        let mut reasons = branches.into_iter().map(|branch| fits(branch, value, place));
        let first = reasons.next().unwrap_or(Ok(()));
        return if first.is_ok() || reasons.any(|fit| fit.is_ok()) { Ok(()) } else { first };
    }
    for part in new.list("allOf").into_iter().flatten() {
        fits(part, value, place)?;
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
            fields.iter().try_for_each(|(name, value)| match new.field("properties", name).or_else(|| new.others()) {
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
