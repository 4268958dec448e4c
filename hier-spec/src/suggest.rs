//! "Did you mean": suggestions for unknown names.

/// Maximum length in bytes of a name that is compared. Names may come from users of a server.
const LONGEST: usize = 128;
/// The minimum length of a name that is compared as a prefix.
const SHORTEST_PREFIX: usize = 4;

/// Returns the candidate that the user probably meant by `name`, or `None` if there is no such candidate. This is the
/// nearest candidate that is a few edits away, or else the only candidate that starts with the words of `name`. For the
/// name `finish`, this is `finish_task`.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_of(name, &mut candidates.into_iter())
}

/// Does the work of [`nearest`], compiled once for all types of iterators.
fn nearest_of<'a>(name: &str, candidates: &mut dyn Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let limit = (name.chars().count() / 3).max(1);
    let (mut near, mut longer): (Option<(usize, &str)>, Vec<&str>) = (None, Vec::new());
    for candidate in candidates.filter(|candidate| candidate.len() <= LONGEST) {
        let distance = distance(name, candidate);
        if distance <= limit && near.is_none_or(|(least, _)| distance < least) {
            near = Some((distance, candidate));
        }
        if name.len() >= SHORTEST_PREFIX
            && candidate.strip_prefix(name).is_some_and(|rest| rest.starts_with(['_', '-']))
        {
            longer.push(candidate);
        }
    }
    match (near, &*longer) {
        (Some((_, near)), _) => Some(near),
        (None, [longer]) => Some(longer),
        _ => None,
    }
}

/// Returns the end of an error message about an unknown name: "; did you mean `x`?" if a candidate is similar, and
/// otherwise "; known: `a`, `b`" with at most twelve names. Returns an empty string if there are no candidates.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean_of(name, &mut candidates.into_iter())
}

fn did_you_mean_of(name: &str, candidates: &mut dyn Iterator<Item = &str>) -> String {
    let candidates: Vec<&str> = candidates.collect();
    if let Some(best) = nearest(name, candidates.iter().copied()) {
        return format!("; did you mean `{best}`?");
    }
    let known: Vec<_> = candidates.iter().map(|candidate| format!("`{candidate}`")).collect();
    match known.len() {
        0 => String::new(),
        1..=12 => format!("; known: {}", known.join(", ")),
        more => format!("; known: {} and {} more", known[..12].join(", "), more - 12),
    }
}

/// Counts the edits between two names. A difference in case only counts as one edit.
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
    fn near_name_is_suggested() {
        assert_eq!(nearest("apend", ["append", "extend", "sum"]), Some("append"));
        assert_eq!(nearest("Review", ["review", "assess"]), Some("review"));
        assert_eq!(nearest("xyz", ["append", "extend"]), None);
        assert_eq!(nearest(&"x".repeat(16 << 20), ["append", "extend"]), None);
    }

    #[test]
    fn unique_prefix_is_suggested() {
        assert_eq!(nearest("finish", ["raise_exception", "finish_task"]), Some("finish_task"));
        assert_eq!(nearest("finish", ["finish_task", "finish_run"]), None, "which of them is not known");
        assert_eq!(nearest("finish", ["finish_task", "finis"]), Some("finis"));
        assert_eq!(nearest("fin", ["finish_task"]), None);
        assert_eq!(nearest("max", ["max_iterations"]), None);
    }

    #[test]
    fn unknown_name_lists_known_names() {
        assert_eq!(did_you_mean("xyz", ["append", "sum"]), "; known: `append`, `sum`");
        assert_eq!(did_you_mean("smu", ["append", "sum"]), "; did you mean `sum`?");
    }

    #[test]
    fn nearer_name_wins_and_then_the_first() {
        assert_eq!(nearest("transfers", ["transform", "transfer"]), Some("transfer"));
        assert_eq!(nearest("abc", ["abd", "abe"]), Some("abd"));
        assert_eq!(nearest("review", ["Review", "review"]), Some("review"));
        assert_eq!(nearest("assesmant", ["assessment"]), Some("assessment"), "longer names may have more mistakes");
    }

    #[test]
    fn longest_name_is_still_compared() {
        let candidate = format!("{}b", "a".repeat(127));
        assert_eq!(nearest(&"a".repeat(128), [&*candidate]), Some(&*candidate));
        assert_eq!(nearest(&"a".repeat(129), [&*candidate]), None);
    }

    #[test]
    fn twelve_known_names_are_listed() {
        let names: Vec<String> = (0..13).map(|number| format!("name{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(did_you_mean("zzz", names[..12].iter().copied()).ends_with(", `name11`"));
        assert!(did_you_mean("zzz", names.iter().copied()).ends_with(", `name11` and 1 more"));
    }
}
