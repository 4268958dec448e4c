//! A tool is a free async function without type parameters.

use hier_agents::prelude::*;

/// Waits.
#[tool]
fn is_synchronous() -> String {
    String::new()
}

/// Writes a value.
#[tool]
async fn any<T: ToString>(value: T) -> String {
    value.to_string()
}

#[tool]
struct NoFunction;

struct Desk;

impl Desk {
    /// Looks up.
    #[tool]
    async fn look_up(
        &self,
        /// The key.
        key: String,
        #[default = 2] limit: usize,
    ) -> String {
        key.repeat(limit)
    }
}

trait Pick {
    /// Picks.
    #[tool]
    async fn pick(&self, key: String) -> String;
}

fn main() {}
