//! Versions and migrations that do not fit together: each is reported, all at once.

use hier_agents::prelude::*;
use hier_core::Result;
use serde_json::{Map, Value};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 2, migrate = [from_v1, from_v2])]
struct TooMany {
    title: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 0)]
struct BeforeTheFirst {
    title: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(migrate = from_v1)]
struct NoVersion {
    title: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 3, version = 4, migrate = from_v1, migrate = from_v2)]
struct Twice {
    title: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = "2", migrate = "from_v1", migrat = from_v1)]
struct Texts {
    title: String,
}

fn from_v1(_: &mut Map<String, Value>) -> Result<()> {
    Ok(())
}

fn from_v2(_: &mut Map<String, Value>) -> Result<()> {
    Ok(())
}

fn main() {}
