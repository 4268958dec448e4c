//! A channel declares either a reducer or a kind.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(append)]
    #[channel(ephemeral)]
    hint: Vec<String>,
    #[reducer(append, extend)]
    list: Vec<String>,
    #[channel(ephemeral)]
    #[channel(untracked)]
    handle: Option<u8>,
    #[channel(delta)]
    plain: Vec<String>,
    #[channel(topic)]
    topic: Option<String>,
    #[state(rename = "a", rename = "b")]
    name: String,
}

fn main() {
    let _ = Filing::update().hint(["h".to_owned()]).list(["l".to_owned()]).topic(None);
}
