//! An error of a node must be `Send`.

use std::error::Error;

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    year: u16,
}

graph! {
    Review<Filing> = Graph {
        nodes: [assess],
        edges: [START >> assess >> END],
    }
}

async fn assess() -> Result<FilingUpdate, Box<dyn Error>> {
    Ok(Filing::update().year("7".parse()?))
}

/// Looks.
#[tool]
async fn look(year: String) -> Result<String, Box<dyn Error>> {
    Ok(year.parse::<u16>()?.to_string())
}

fn main() {
    let _ = Review::compile();
}
