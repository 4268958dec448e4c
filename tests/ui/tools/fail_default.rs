use hier_agents::prelude::*;

/// Looks up years.
#[tool]
async fn look(year: u16, limit: u32 = 3) -> String {
    format!("{year} {limit}")
}

fn main() {}
