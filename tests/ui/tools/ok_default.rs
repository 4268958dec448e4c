use hier_agents::prelude::*;

/// Looks up years.
#[tool]
async fn look(year: u16, #[default = 3] limit: u32) -> String {
    format!("{year} {limit}")
}

graph! {
    Clerk<MessagesState> = Agent { tools: [look] }
}

fn main() {
    let _ = Clerk::compile();
}
