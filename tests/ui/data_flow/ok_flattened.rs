// They write two channels.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Base {
    #[state(rename = "result")]
    verdict: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: Base,
    risk: f64,
}

#[derive(View)]
#[view(of = Base)]
struct Assessment {
    verdict: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Revision {
    verdict: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Rated {
    risk: f64,
}

async fn assess() -> Assessment {
    Assessment { verdict: "fine".to_owned() }
}

async fn revise() -> Revision {
    Revision { verdict: "better".to_owned() }
}

async fn rate() -> Rated {
    Rated { risk: 0.1 }
}

graph! {
    Review<Filing> = Graph {
        nodes: [assess, rate, revise],
        edges: [START >> [assess, rate], [assess, rate] >> revise >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
