//! The second version of the state: a channel has another name.

#[path = "program.rs"]
pub(crate) mod program;

pub(crate) mod state {
    use hier_core::prelude::*;
    use serde_json::{Map, Value};

    use crate::world::Item;

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
    }

    #[allow(clippy::unnecessary_wraps)] // migrations can fail
    fn from_v1(stored: &mut Map<String, Value>) -> Result<()> {
        if let Some(notes) = stored.remove("notes") {
            stored.insert("remarks".to_owned(), notes);
        }
        Ok(())
    }
}
