use hier_agents::prelude::*;
use hier_core::Result;
use serde_json::{Map, Value};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 3, migrate = [from_v1, from_v2])]
struct Case {
    title: String,
}

/// Each older version can only be migrated to the next one.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 3, migrate = from_v2)]
struct Young {
    title: String,
}

fn from_v1(stored: &mut Map<String, Value>) -> Result<()> {
    stored.remove("draft");
    Ok(())
}

fn from_v2(stored: &mut Map<String, Value>) -> Result<()> {
    stored.insert("title".to_owned(), "untitled".into());
    Ok(())
}

fn main() {
    let _ = (Case::default(), Young::default());
}
