//! The threads of background runs: a run drives them next to its own thread.

/// The text between the id of a thread and the name of one of its background runs.
pub const BACKGROUND: &str = "/background/";

/// Returns the id of the thread of a background run.
pub fn thread_of(outer: &str, name: &str) -> String {
    format!("{outer}{BACKGROUND}{name}")
}

/// Returns true if this is the thread of a background run of the outer thread, at any depth.
pub fn is_within(thread: &str, outer: &str) -> bool {
    thread.strip_prefix(outer).is_some_and(|rest| rest.starts_with(BACKGROUND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_thread_is_within_its_outer_threads_only() {
        let inner = thread_of(&thread_of("case-1", "a"), "b");
        assert!(is_within(&inner, "case-1") && is_within(&inner, &thread_of("case-1", "a")));
        assert!(!is_within("case-1", "case-1") && !is_within("case-17", "case-1") && !is_within(&inner, "case"));
    }
}
