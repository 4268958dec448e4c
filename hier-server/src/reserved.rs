//! Names and ids that clients cannot choose.
//!
//! For AG-UI, the server derives the ids of threads and runs from the user and the client's ids, so anyone can compute
//! them. Only the route of AG-UI creates threads with such ids. Otherwise, another user could occupy the id of a
//! thread.

use uuid::{Builder, Uuid, Variant};

/// The first bytes of derived ids.
const MARK: [u8; 4] = *b"agui";

pub(crate) const REFUSED: &str =
    "`thread_id`: UUIDs of version 8 that begin with `61677569` are reserved for `POST /agui/{graph}`: use another one";

/// The field for the user in the configuration of a run, as in LangGraph.
pub(crate) const USER: &str = "langgraph_auth_user";

/// The prefix of the names that LangGraph's engine adds to a configuration.
pub(crate) const ENGINE: &str = "__pregel_";

/// Names in a configuration that select a checkpoint.
const ADDRESS: [&str; 4] = ["thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"];

/// Returns true for names in `configurable` that clients cannot set: the user, a checkpoint, or a name of LangGraph's
/// engine.
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with(USER) || name.starts_with(ENGINE) || ADDRESS.contains(&name)
}

pub(crate) fn derived(name: &str) -> Uuid {
    let mut bytes = Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).into_bytes();
    bytes[..MARK.len()].copy_from_slice(&MARK);
    Builder::from_custom_bytes(bytes).into_uuid()
}

pub(crate) fn is_derived(id: Uuid) -> bool {
    id.as_bytes().starts_with(&MARK) && id.get_version_num() == 8 && id.get_variant() == Variant::RFC4122
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_recognized_and_others_are_not() {
        let id = derived("alice");
        assert_eq!(id, derived("alice"));
        assert_ne!(id, derived("bob"));
        assert!(is_derived(id), "{id}");
        assert!(REFUSED.contains(id.to_string().split('-').next().expect("a part")), "{id}");
        for other in [Uuid::nil(), Uuid::max(), Uuid::now_v7(), Uuid::new_v4()] {
            assert!(!is_derived(other), "{other}");
        }
    }
}
