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

fn main() {}
