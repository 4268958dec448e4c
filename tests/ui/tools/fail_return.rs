//! A tool returns a type that can become its result.

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
