// The description of a tool, an argument and a graph: a comment, an option, or a macro that the compiler expands.

use hier_agents::DeclaredTool;
use hier_agents::prelude::*;

/// Looks
/// something up.
#[tool]
async fn commented(word: String) -> String {
    word
}

#[tool(description = "Looks it up.")]
async fn optional(word: String) -> String {
    word
}

#[doc = concat!("  Looks up in ", env!("CARGO_PKG_NAME"), ".\n")]
#[doc = " A word."]
#[tool]
async fn made(
    #[doc = concat!("The ", "word.")]
    word: String,
) -> String {
    word
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Words {
    count: u32,
}

async fn count() {}

graph! {
    #[doc = concat!("Counts ", "words.")]
    Counts<Words> = Graph { nodes: [count], edges: [START >> count >> END] }
}

fn main() {
    assert_eq!(commented::declared().description, "Looks\nsomething up.");
    assert_eq!(optional::declared().description, "Looks it up.");
    let spec = made::declared();
    assert!(spec.description.starts_with("Looks up in hier-"), "{}", spec.description);
    assert!(spec.description.ends_with(".\n\nA word."), "{}", spec.description);
    assert_eq!(spec.parameters["properties"]["word"]["description"], "The word.");
    assert_eq!(<Counts as hier_core::graph::Graph>::SPEC.doc, "Counts words.");
}
