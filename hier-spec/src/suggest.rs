//! "Did you mean": the nearest of the names that would have been right.

/// The longest name that is compared, in bytes: names come from users of a server, too.
const LONGEST: usize = 128;

/// The candidate nearest to `name`, if one is near enough to be what the user meant.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The tail of an error message: "; did you mean `x`?", or else "; known: `a`, `b`" (at most twelve of them).
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(best) = nearest(name, candidates.clone()) {
        return format!("; did you mean `{best}`?");
    }
    let known: Vec<_> = candidates.into_iter().map(|candidate| format!("`{candidate}`")).collect();
    match known.len() {
        0 => String::new(),
        1..=12 => format!("; known: {}", known.join(", ")),
        more => format!("; known: {} and {} more", known[..12].join(", "), more - 12),
    }
}

/// Edits between two names; a difference in case only counts as one.
fn distance(a: &str, b: &str) -> usize {
    if a.to_lowercase() == b.to_lowercase() {
        return usize::from(a != b);
    }
    strsim::damerau_levenshtein(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_when_it_is_near() {
        assert_eq!(nearest("apend", ["append", "extend", "sum"]), Some("append"));
        assert_eq!(nearest("Review", ["review", "assess"]), Some("review"));
        assert_eq!(nearest("xyz", ["append", "extend"]), None);
        assert_eq!(nearest(&"x".repeat(16 << 20), ["append", "extend"]), None);
    }

    #[test]
    fn far_names_list_what_is_known() {
        assert_eq!(did_you_mean("xyz", ["append", "sum"]), "; known: `append`, `sum`");
        assert_eq!(did_you_mean("smu", ["append", "sum"]), "; did you mean `sum`?");
    }
}
