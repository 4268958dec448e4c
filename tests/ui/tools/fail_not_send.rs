//! A tool may be called from any thread.

use std::rc::Rc;

use hier_agents::prelude::*;

/// Counts.
#[tool]
async fn counts() -> usize {
    let shared = Rc::new(1);
    std::future::ready(()).await;
    *shared
}

fn main() {}
