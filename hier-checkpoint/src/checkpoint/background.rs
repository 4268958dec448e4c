//! The threads of background subagents. Such a thread belongs to the outer thread, which is the thread of the run that
//! has started the subagent. Deleting the outer thread also deletes the subagent's thread.

use std::ops::Range;

/// The text between the id of a thread and the name of one of its background runs.
const BACKGROUND: &str = "/background/";

/// Returns the id of the thread of a background subagent: `OUTER/background/NAME`. `outer` is the id of the thread to
/// which the subagent's thread belongs.
pub fn thread_of(outer: &str, name: &str) -> String {
    format!("{outer}{BACKGROUND}{name}")
}

/// Returns true if `thread` is the thread of a background subagent that a run of the thread `outer` has started,
/// directly or through other background subagents.
pub fn is_within(thread: &str, outer: &str) -> bool {
    thread.strip_prefix(outer).is_some_and(|rest| rest.starts_with(BACKGROUND))
}

/// Returns the thread to which the thread of a background subagent belongs, or `None` for any other thread.
pub fn outer_of(thread: &str) -> Option<&str> {
    thread.rsplit_once(BACKGROUND).map(|(outer, _)| outer)
}

/// Returns the range of ids that contains exactly the threads for which [`is_within`] returns true, if ids are ordered
/// by their bytes. A query of a database must use this order.
pub fn names_within(outer: &str) -> Range<String> {
    // `0` is the character after `/`. The range therefore contains all names that start with `{outer}/background/`.
    thread_of(outer, "")..format!("{outer}/background0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_thread_is_within_its_outer_threads_only() {
        let inner = thread_of(&thread_of("case-1", "a"), "b");
        for outer in ["case-1", &thread_of("case-1", "a")] {
            assert!(is_within(&inner, outer) && names_within(outer).contains(&inner));
        }
        for other in ["case-1", "case-17", "case"] {
            let name = thread_of(other, "a");
            assert_eq!(
                (is_within(&name, "case-1"), names_within("case-1").contains(&name)),
                (other == "case-1", other == "case-1")
            );
            assert!(!is_within(other, "case-1") && !names_within("case-1").contains(&other.to_owned()));
        }
        assert_eq!(outer_of(&inner), Some("case-1/background/a"));
        assert_eq!(outer_of("case-1"), None);
    }
}
