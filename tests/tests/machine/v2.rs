//! The second version of the state: two channels have other names.

#[path = "program.rs"]
pub(crate) mod program;

pub(crate) mod state {
    use hier_agents::prelude::*;
    use serde_json::{Map, Value};

    use crate::world::Item;
    use crate::zoo::Zoo;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 2, migrate = [from_v1])]
    pub(crate) struct Case {
        pub(crate) turn: u32,
        pub(crate) items: Vec<Item>,
        #[reducer(append)]
        pub(crate) log: Vec<String>,
        #[reducer(append)]
        pub(crate) remarks: Vec<String>,
        pub(crate) said: String,
        pub(crate) calls: u32,
        #[reducer(messages)]
        pub(crate) talk: Messages,
        #[reducer(append)]
        pub(crate) zoos: Vec<Zoo>,
        pub(crate) animals: Zoo,
    }

    /// Writes the channel that has another name in each version.
    pub(crate) fn keeps(zoo: Zoo) -> CaseUpdate {
        Case::update().animals(zoo)
    }

    #[allow(clippy::unnecessary_wraps)] // migrations can fail
    fn from_v1(stored: &mut Map<String, Value>) -> hier_core::Result<()> {
        for (old, new) in [("notes", "remarks"), ("zoo", "animals")] {
            if let Some(value) = stored.remove(old) {
                stored.insert(new.to_owned(), value);
            }
        }
        Ok(())
    }
}
