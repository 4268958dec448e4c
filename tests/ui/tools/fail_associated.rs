//! A tool is not possible in an `impl` block. The error is reported once.

use hier_agents::prelude::*;

struct Desk;

impl Desk {
    /// Looks up a year.
    #[tool(needs_approval, timeout = 5s)]
    async fn look_up(year: u16) -> String {
        year.to_string()
    }
}

fn main() {
    let _ = Desk::look_up(1);
}
