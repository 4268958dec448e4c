//! The first version of the state.

#[path = "program.rs"]
pub(crate) mod program;

pub(crate) mod state {
    use hier_agents::prelude::*;

    use crate::world::Item;
    use crate::zoo::Zoo;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(crate) struct Case {
        pub(crate) turn: u32,
        pub(crate) items: Vec<Item>,
        #[reducer(append)]
        pub(crate) log: Vec<String>,
        #[reducer(append)]
        pub(crate) notes: Vec<String>,
        pub(crate) said: String,
        pub(crate) calls: u32,
        #[reducer(messages)]
        pub(crate) talk: Messages,
        #[reducer(append)]
        pub(crate) zoos: Vec<Zoo>,
        pub(crate) zoo: Zoo,
    }

    /// Writes the channel that has another name in each version.
    pub(crate) fn keeps(zoo: Zoo) -> CaseUpdate {
        Case::update().zoo(zoo)
    }
}
