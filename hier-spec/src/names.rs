//! Which names graphs, nodes and channels may have: a prefix, and signs, are the engine's own.

use crate::{END, START};

/// Names that begin like this are the engine's.
pub const RESERVED_PREFIX: &str = "__";

/// The mistake in the name of a graph, which stands in paths of namespaces and of events.
pub fn graph(name: &str) -> Option<String> {
    if is_blank(name) {
        return Some("a graph needs a name, and this one is empty: give it one".to_owned());
    }
    separator(name, &['|', ':', '/']).map(|what| {
        format!("the graph name `{}` is reserved: {what} separates names; leave it out", name.escape_debug())
    })
}

/// The mistake in the name of a node.
pub fn node(name: &str) -> Option<String> {
    if is_blank(name) {
        return Some(format!("the node name `{}` is empty: give the node a name", name.escape_debug()));
    }
    if [START, END, "START", "END"].contains(&name) {
        return Some(format!(
            "the node name `{name}` is reserved: START and END are part of every graph; choose another"
        ));
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Some(format!("the node name `{name}` is reserved: choose one that does not start with `__`"));
    }
    separator(name, &['|', ':']).map(|what| {
        format!("the node name `{}` is reserved: {what} separates names; leave it out", name.escape_debug())
    })
}

/// The mistake in the name of a channel. The engine's own channels are not checked.
pub fn channel(name: &str) -> Option<String> {
    if is_blank(name) {
        return Some("a channel needs a name, and this one is empty: give it one".to_owned());
    }
    if name.starts_with(RESERVED_PREFIX) {
        let mend = "choose one that does not start with `__`";
        return Some(format!("the channel name `{name}` is reserved: {mend}"));
    }
    separator(name, &[':']).map(|what| {
        format!(
            "the channel name `{}` is reserved: names with {what} are the engine's own; leave it out",
            name.escape_debug()
        )
    })
}

/// Whether a model can call something by this name: the rule that `OpenAI` and Anthropic have in common.
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

/// What is wrong with the name of a tool or subagent, by which models call it.
pub fn callable(kind: &str, name: &str) -> Option<String> {
    (!is_callable(name)).then(|| {
        format!(
            "models cannot call the {kind} `{}` by its name: 1 to 64 ASCII letters, digits, `_` and `-`; rename it",
            name.escape_debug()
        )
    })
}

/// The sign that stops it from being a name.
fn separator(name: &str, separators: &[char]) -> Option<String> {
    name.chars().find(|letter| separators.contains(letter)).map(|found| format!("`{found}`"))
}

/// Whether nothing of it can be seen.
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
    fn graphs_and_channels_have_rules_of_their_own() {
        for name in ["", "a|b", "a:b", "a/b", "\n"] {
            assert!(graph(name).is_some(), "{name:?}");
        }
        assert_eq!(graph("my graph"), None);
        for name in ["", "a:b", "branch:to:a", "join:a+b:c", "__x"] {
            assert!(channel(name).is_some(), "{name:?}");
        }
        assert_eq!(channel("x-y|z"), None);
    }
}
