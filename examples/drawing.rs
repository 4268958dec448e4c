//! Drawings of a graph: Mermaid text, DOT, and a picture in SVG.
//!
//! The library draws the declaration of the graph. Subgraphs are frames, routes are broken lines with the names of their
//! arms, and a Send is a broken line with the name of the function that returns the items.
//!
//! Look at the Mermaid text in a Markdown file between ```` ```mermaid ```` and ```` ``` ````, and at the picture in a
//! browser: its path is printed at the end.
//!
//! Run it: `cargo run --example drawing`, or `… -- picture.svg` to choose the file

use std::path::PathBuf;

use hier::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    documents: Vec<String>,
    #[reducer(append)]
    findings: Vec<String>,
    rounds: u32,
}

graph! {
    /// Reviews a filing until it is accepted.
    Review<Filing> = Graph {
        nodes: [validate, Scan, assess, notify, archive, escalate { goto: [assess, END] }],
        edges: [
            START >> validate >> for filing in batches { Scan(filing) },
            Scan >> assess >> match verdict {
                Verdict::Accept => [notify, archive],
                Verdict::Redo => validate,
                Verdict::Unclear => escalate,
                Verdict::Reject => END,
            },
            notify >> END,
            archive >> END,
        ],
    }
}

graph! {
    /// Reads one batch of documents, two ways at once.
    Scan<Filing> = Graph {
        nodes: [split, read_text, read_stamps, merge],
        edges: [START >> split >> [read_text, read_stamps] >> merge >> END],
    }
}

enum Verdict {
    Accept,
    Redo,
    Unclear,
    Reject,
}

fn verdict(filing: &Filing) -> Verdict {
    match (filing.findings.len(), filing.rounds) {
        (0, _) => Verdict::Accept,
        (_, 0) => Verdict::Redo,
        (1..=3, _) => Verdict::Unclear,
        _ => Verdict::Reject,
    }
}

fn batches(filing: &Filing) -> Vec<Filing> {
    let batches = filing.documents.chunks(10);
    batches.map(|documents| Filing { documents: documents.to_vec(), ..Filing::default() }).collect()
}

async fn validate(filing: &Filing) -> FilingUpdate {
    Filing::update().rounds(filing.rounds + 1)
}

async fn escalate(filing: &Filing) -> Command<Filing> {
    if filing.findings.is_empty() { Command::new().goto(END) } else { Command::new().goto(Review::assess) }
}

async fn assess() {}
async fn notify() {}
async fn archive() {}
async fn split() {}
async fn read_text() {}
async fn read_stamps() {}
async fn merge() {}

fn main() -> hier::Result<()> {
    // Defaults to a file next to this program in the target folder.
    let path = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("review.svg"),
    };
    println!("{}", Review::SPEC.mermaid());
    println!("{}", Review::SPEC.dot());
    std::fs::write(&path, Review::SPEC.svg())?;
    println!("The picture is in {}", path.display());
    Ok(())
}
