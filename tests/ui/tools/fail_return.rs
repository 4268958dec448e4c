//! A tool returns what can become an answer.

use hier_core::prelude::*;

struct Report;

#[tool]
async fn reports() -> Report {
    Report
}

#[tool]
async fn nothing() {}

fn main() {}
