// One of them writes only a channel with a reducer.

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

#[derive(View)]
#[view(of = Filing)]
struct Note {
    findings: Vec<String>,
}

async fn note(papers: Papers<'_>) -> Note {
    Note { findings: papers.documents.clone() }
}

async fn read(Sent(name): Sent<String>) -> Assessment {
    Assessment { verdict: name, findings: Vec::new() }
}

async fn scan(Sent(name): Sent<String>) -> Note {
    Note { findings: vec![name] }
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
