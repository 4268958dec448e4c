//! A subgraph reads a channel that this graph does not have.

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

async fn rate(papers: Papers<'_>) -> Rated {
    Rated { risk: papers.documents.len() as f64 }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Search {
    documents: Vec<String>,
    query: String,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(View)]
#[view(of = Search)]
struct Query<'a> {
    query: &'a String,
}

#[derive(View)]
#[view(of = Search)]
struct Found {
    findings: Vec<String>,
}

async fn search(query: Query<'_>) -> Found {
    Found { findings: vec![query.query.clone()] }
}

graph! {
    Look<Search> = Graph { nodes: [search], edges: [START >> search >> END] }
}

graph! {
    Review<Filing> = Graph {
        nodes: [rate, Look],
        edges: [START >> rate >> Look >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
