//! The first version of the state.

#[path = "program.rs"]
pub(crate) mod program;

pub(crate) mod state {
    use hier_core::prelude::*;

    use crate::world::Item;

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
    }
}
