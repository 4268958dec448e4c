//! The names that graphs, nodes and channels may have. The engine reserves a prefix and separators.

use crate::{END, START};

/// The prefix of names that are reserved for the engine.
pub const RESERVED_PREFIX: &str = "__";

/// Checks the name of a graph. Returns an error message, or `None` if the name is valid.
pub fn graph(name: &str) -> Option<String> {
    if is_blank(name) {
        return Some("the name of the graph is empty: give it a name".to_owned());
    }
    separator(name, &['|', ':', '/']).map(|what| {
        format!("the graph name `{}` is reserved, because {what} separates names: remove {what}", name.escape_debug())
    })
}

/// Checks the name of a node. Returns an error message, or `None` if the name is valid.
pub fn node(name: &str) -> Option<String> {
    if is_blank(name) {
        return Some(format!("the node name `{}` is empty: give the node a name", name.escape_debug()));
    }
    if [START, END, "START", "END"].contains(&name) {
        return Some(format!(
            "the node name `{name}` is reserved, because every graph has START and END: choose another"
        ));
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Some(format!("the node name `{name}` is reserved: remove the `__` at its start"));
    }
    separator(name, &['|', ':']).map(|what| {
        format!("the node name `{}` is reserved, because {what} separates names: remove {what}", name.escape_debug())
    })
}

/// Returns true if `stored` is a name under which checkpoints may have stored the progress of a join. The name of a
/// join consists of the names of its nodes, so it changes when a node is renamed. `current` is the current name of the
/// join.
///
/// `from` has all names of each source, and `to` has all names of the target. The last name in each list is the current
/// one.
pub fn is_join(stored: &str, current: &str, from: &[Vec<&str>], to: &[&str]) -> bool {
    let last = |names: &[&str]| names.last().copied().unwrap_or_default().to_owned();
    let today: Vec<String> = from.iter().map(|names| last(names)).collect();
    let today = format!("join:{}:{}", today.join("+"), last(to));
    // A number follows if several joins would have the same name.
    let number = current.strip_prefix(&*today).unwrap_or_default();
    let Some(rest) = stored.strip_prefix("join:").and_then(|rest| rest.strip_suffix(number)) else { return false };
    spells(rest, from, to)
}

/// Returns true if a text has one name of each source, with `+` between them, then `:` and a name of the target.
fn spells(rest: &str, from: &[Vec<&str>], to: &[&str]) -> bool {
    let Some((names, others)) = from.split_first() else { return to.contains(&rest) };
    let separator = if others.is_empty() { ':' } else { '+' };
    let tails = names.iter().filter_map(|name| rest.strip_prefix(name)?.strip_prefix(separator));
    tails.into_iter().any(|tail| spells(tail, others, to))
}

/// Checks the name of a channel. Returns an error message, or `None` if the name is valid. Do not call this function
/// for the engine's own channels.
pub fn channel(name: &str) -> Option<String> {
    if is_blank(name) {
        return Some("the name of the channel is empty: give it a name".to_owned());
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Some(format!("the channel name `{name}` is reserved: remove the `__` at its start"));
    }
    separator(name, &[':']).map(|what| {
        format!(
            "the channel name `{}` is reserved, because the engine uses {what} in names: remove {what}",
            name.escape_debug()
        )
    })
}

/// Returns true if models can call a tool with this name, according to the common rule of `OpenAI` and Anthropic: 1 to
/// 64 ASCII letters, digits, `_` and `-`.
pub const fn is_callable(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !(bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_' || bytes[at] == b'-') {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty() && bytes.len() <= 64
}

/// Checks the name of a tool or subagent. Returns an error message, or `None` if models can call it. `kind` is `tool`
/// or `subagent`, for the message.
pub fn callable(kind: &str, name: &str) -> Option<String> {
    (!is_callable(name)).then(|| {
        format!(
            "models cannot call the {kind} `{}`, because a name has 1 to 64 ASCII letters, digits, `_` and `-`: rename it",
            name.escape_debug()
        )
    })
}

/// Returns the first reserved character in a name.
fn separator(name: &str, separators: &[char]) -> Option<String> {
    name.chars().find(|letter| separators.contains(letter)).map(|found| format!("`{found}`"))
}

fn is_blank(name: &str) -> bool {
    name.chars().all(|letter| letter.is_whitespace() || letter.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_engine_are_refused() {
        for name in ["", " ", "\n", "\0", "START", "END", "__start__", "__x", "a|b", "a:b"] {
            assert!(node(name).is_some(), "{name:?}");
        }
        for name in ["a", "a_", "_a", "ünïcode", "two words", "a+b", "a/b", "line\nbreak"] {
            assert_eq!(node(name), None, "{name:?}");
        }
    }

    #[test]
    fn names_of_graphs_and_channels_have_separate_rules() {
        for name in ["", "a|b", "a:b", "a/b", "\n"] {
            assert!(graph(name).is_some(), "{name:?}");
        }
        assert_eq!(graph("my graph"), None);
        for name in ["", "a:b", "branch:to:a", "join:a+b:c", "__x"] {
            assert!(channel(name).is_some(), "{name:?}");
        }
        assert_eq!(channel("x-y|z"), None);
    }

    #[test]
    fn joins_are_found_by_earlier_names_of_their_nodes() {
        let from = [vec!["a", "first"], vec!["b"]];
        let found = |stored, current| is_join(stored, current, &from, &["end", "last"]);
        for stored in ["join:first+b:last", "join:a+b:last", "join:a+b:end", "join:first+b:end"] {
            assert!(found(stored, "join:first+b:last"), "{stored}");
        }
        for stored in ["join:b+a:last", "join:a:last", "join:a+b+c:last", "join:a+b:", "a+b:last", "join:c+b:last", ""]
        {
            assert!(!found(stored, "join:first+b:last"), "{stored}");
        }
        assert!(found("join:a+b:last#2", "join:first+b:last#2"));
        assert!(!found("join:a+b:last", "join:first+b:last#2"));
        let plus = [vec!["a", "a+b"], vec!["b", "b+b"]];
        assert!(is_join("join:a+b+b:c", "join:a+b+b+b:c", &plus, &["c"]));
    }

    #[test]
    fn errors_name_the_mistake() {
        for (mistake, expected) in [
            (graph("a|b"), "the graph name `a|b` is reserved, because `|` separates names: remove `|`"),
            (node("a:b"), "the node name `a:b` is reserved, because `:` separates names: remove `:`"),
            (channel("a:b"), "the channel name `a:b` is reserved, because the engine uses `:` in names: remove `:`"),
            (
                callable("tool", "a b"),
                "models cannot call the tool `a b`, because a name has 1 to 64 ASCII letters, digits, `_` and `-`: rename it",
            ),
        ] {
            assert_eq!(mistake.as_deref(), Some(expected));
        }
    }

    #[test]
    fn models_call_short_ascii_names() {
        let longest = "x".repeat(64);
        for name in ["look_up", "look-up", "A1", &*longest] {
            assert!(is_callable(name), "{name:?}");
            assert_eq!(callable("tool", name), None);
        }
        for name in ["", "look up", "größe", "a.b", &*format!("{longest}x")] {
            assert!(!is_callable(name), "{name:?}");
        }
    }
}
