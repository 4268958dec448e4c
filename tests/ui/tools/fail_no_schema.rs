//! The model receives the schema of every argument.

use hier_agents::prelude::*;

#[derive(Deserialize)]
struct Span {
    from: u16,
}

/// Measures a span.
#[tool]
async fn between(span: Span) -> String {
    span.from.to_string()
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    year: u16,
}

/// Reads the state by value.
#[tool]
async fn current(filing: Filing) -> String {
    filing.year.to_string()
}

fn main() {}
