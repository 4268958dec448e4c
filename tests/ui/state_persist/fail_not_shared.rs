//! Tasks on several threads read a state, so threads share untracked channels, too. The error is reported once, at the
//! type.

use hier_agents::prelude::*;
use std::rc::Rc;

#[derive(State, Clone, Debug, Default)]
struct Filing {
    #[channel(untracked)]
    handle: Rc<String>,
    title: String,
}

async fn read(filing: &Filing) -> FilingUpdate {
    Filing::update().title(filing.title.clone())
}

graph! {
    Review<Filing> = Graph { nodes: [read], edges: [START >> read >> END] }
}

fn main() {
    let _ = Review::compile();
}
