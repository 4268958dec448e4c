// Two routes of one step can choose the same writer.

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

async fn assess(risk: Risk<'_>) -> Result<Assessment, NodeError> {
    Ok(Assessment { verdict: format!("risk {}", risk.risk), findings: Vec::new() })
}

#[derive(View)]
#[view(of = Filing)]
struct Note {
    findings: Vec<String>,
}

async fn note(papers: Papers<'_>) -> Note {
    Note { findings: papers.documents.clone() }
}

fn is_risky(filing: &Filing) -> bool {
    filing.risk > 0.5
}

graph! {
    Review<Filing> = Graph {
        nodes: [rate, note, assess],
        edges: [START >> [rate, note], rate >> if is_risky { assess } else { END }, note >> if is_risky { assess } else { END }, assess >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
