//! Each item is sent to two writers.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    documents: Vec<String>,
    risk: f64,
    verdict: String,
    summary: String,
    tries: u32,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Request {
    documents: Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Papers<'a> {
    documents: &'a Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Risk<'a> {
    risk: &'a f64,
}

#[derive(View)]
#[view(of = Filing)]
struct Rated {
    risk: f64,
}

#[derive(View)]
#[view(of = Filing)]
struct Assessment {
    verdict: String,
    findings: Vec<String>,
}

async fn read(Sent(name): Sent<String>) -> Assessment {
    Assessment { verdict: name, findings: Vec::new() }
}

async fn scan(Sent(name): Sent<String>) -> Assessment {
    Assessment { verdict: name, findings: Vec::new() }
}

graph! {
    Review<Filing> = Graph {
        nodes: [read, scan],
        edges: [START >> for name in state.documents { [read(name.clone()), scan(name)] }, [read, scan] >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
