// A subgraph that is sent its state reads nothing of this graph.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Paper {
    document: String,
    #[reducer(append)]
    notes: Vec<String>,
}

#[derive(View)]
#[view(of = Paper)]
struct Document<'a> {
    document: &'a String,
}

#[derive(View)]
#[view(of = Paper)]
struct Note {
    notes: Vec<String>,
}

async fn sum_up(document: Document<'_>) -> Note {
    Note { notes: vec![document.document.clone()] }
}

graph! {
    Sum<Paper> = Graph { nodes: [sum_up], edges: [START >> sum_up >> END] }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    documents: Vec<String>,
    #[reducer(append)]
    notes: Vec<String>,
}

fn papers(filing: &Filing) -> Vec<Paper> {
    let paper = |document: &String| Paper { document: document.clone(), ..Paper::default() };
    filing.documents.iter().map(paper).collect()
}

graph! {
    Main<Filing> = Graph {
        nodes: [Sum],
        edges: [START >> for paper in papers { Sum(paper) }, Sum >> END],
    }
}

fn main() {
    let _ = Main::compile();
}
