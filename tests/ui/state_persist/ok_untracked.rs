use hier_agents::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Handle;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[channel(untracked)]
    #[serde(skip)]
    handle: Option<Handle>,
    #[channel(untracked)]
    #[serde(skip)]
    shared: Option<Arc<Handle>>,
    title: String,
}

fn main() {
    let _ = Filing::update().handle(Handle).title("t");
}
