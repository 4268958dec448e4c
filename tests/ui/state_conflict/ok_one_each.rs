use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[channel(ephemeral)]
    hint: Vec<String>,
    #[reducer(append)]
    list: Vec<String>,
    #[channel(untracked)]
    handle: Option<u8>,
    #[reducer(append)]
    #[channel(delta)]
    log: Vec<String>,
    #[channel(topic)]
    topic: Vec<String>,
    #[state(rename = "a")]
    name: String,
}

fn main() {
    let _ = Filing::update().hint(["h".to_owned()]).list(["l".to_owned()]).topic([]);
}
