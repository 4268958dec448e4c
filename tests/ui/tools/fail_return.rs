//! A tool returns what can become an answer.

use hier_agents::prelude::*;

struct Report;

/// Reports.
#[tool]
async fn reports() -> Report {
    Report
}

/// Does nothing.
#[tool]
async fn nothing() {}

fn main() {}
