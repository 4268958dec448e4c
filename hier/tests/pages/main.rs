//! The code blocks of pages, with the names that they need around them. A test compares each block with this code, so that
//! pages show only code that compiles. Pages with whole programs are doctests of `hier` instead (`src/lib.rs`). This is one
//! crate for all blocks, because each doctest is linked separately.

#![allow(dead_code, unreachable_pub, unused_imports, unused_variables, clippy::all, clippy::pedantic)]

mod agents;
mod cluster;
mod durability;
mod first_agent;
mod guide;
mod mcp;
mod models;
mod pictures;
mod prelude;
mod readme;
mod secrets;
mod server;
mod testing;
mod trust;

use std::fs;
use std::path::{Path, PathBuf};

/// The pages, each with the file that has its code.
const PAGES: &[(&str, &str)] = &[
    ("README.md", include_str!("readme.rs")),
    ("docs/agents.md", include_str!("agents.rs")),
    ("docs/cluster.md", include_str!("cluster.rs")),
    ("docs/durability.md", include_str!("durability.rs")),
    ("docs/first-agent.md", include_str!("first_agent.rs")),
    ("docs/guide.md", include_str!("guide.rs")),
    ("docs/layers.md", include_str!("agents.rs")),
    ("docs/mcp.md", include_str!("mcp.rs")),
    ("docs/memory.md", include_str!("guide.rs")),
    ("docs/models.md", include_str!("models.rs")),
    ("docs/runs.md", include_str!("server.rs")),
    ("docs/secrets.md", include_str!("secrets.rs")),
    ("docs/server.md", include_str!("server.rs")),
    ("docs/testing.md", include_str!("testing.rs")),
    ("docs/trust.md", include_str!("trust.rs")),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The blocks of Rust of a page, each with the number of its first line.
fn pieces(page: &str) -> Vec<(usize, String)> {
    let mut pieces = Vec::new();
    let mut lines = page.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let code: Vec<&str> = lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```").collect();
            if language.starts_with("rust") {
                pieces.push((number + 1, code.join("\n")));
            }
        }
    }
    pieces
}

/// Removes comments and everything that a formatter may change.
fn bare(code: &str) -> String {
    let lines = code.lines().flat_map(|line| uncommented(line).chars());
    let code: String = lines.filter(|letter| !letter.is_whitespace()).collect();
    [")", "]", "}"].iter().fold(code, |code, end| code.replace(&format!(",{end}"), end))
}

/// The line up to its comment. A comment starts the line or follows a space, unlike the `//` of a URL.
fn uncommented(line: &str) -> &str {
    let mut found = line.match_indices("//").map(|(at, _)| &line[..at]);
    found.find(|before| before.is_empty() || before.ends_with(' ')).unwrap_or(line)
}

#[test]
fn every_block_of_a_page_is_compiled() {
    let mut missing = Vec::new();
    for (page, source) in PAGES {
        let source = bare(source);
        let pieces = pieces(&read(page));
        assert!(!pieces.is_empty(), "{page} has no code: take it off the list");
        for (line, code) in pieces.into_iter().filter(|(_, code)| !source.contains(&bare(code))) {
            missing.push(format!("{page}:{line}:\n{code}"));
        }
    }
    assert!(missing.is_empty(), "not in the page's file in hier/tests/pages:\n{}", missing.join("\n\n"));
}

#[test]
fn every_page_with_code_is_tested() {
    let doctests = read("hier/src/lib.rs");
    for entry in root().join("docs").read_dir().expect("the pages") {
        let name = entry.expect("a page").file_name().to_string_lossy().into_owned();
        let page = format!("docs/{name}");
        if !name.ends_with(".md") || pieces(&read(&page)).is_empty() {
            continue;
        }
        let here = PAGES.iter().any(|(listed, _)| *listed == page);
        assert!(
            here != doctests.contains(&format!("{page}\")]")),
            "{page}: list it here, or make it a doctest of `hier`"
        );
    }
}

#[test]
fn page_has_the_date_of_the_published_prices() {
    let date = format!("as of {} (`PUBLISHED_PRICES_DATE`)", hier::agent::PUBLISHED_PRICES_DATE);
    assert!(read("docs/agents.md").replace('\n', " ").contains(&date), "docs/agents.md lacks `{date}`");
}

#[test]
fn code_is_compared_by_its_words() {
    let formatted = bare("f(\n    a, // the first\n    \"http://b\",\n);");
    assert_eq!(formatted, bare("f(a, \"http://b\");"));
    assert!(!formatted.contains(&bare("f(a, \"http://c\")")));
    let page = "text\n```rust\nlet a = 1;\n```\n```toml\nb = 2\n```\n```rust,ignore\nlet c = 3;\n```";
    assert_eq!(pieces(page), [(3, "let a = 1;".to_owned()), (9, "let c = 3;".to_owned())]);
}
