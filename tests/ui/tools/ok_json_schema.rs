// `JsonSchema` of the prelude can be derived in a package that does not depend on schemars.

use hier_agents::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Verdict {
    accepted: bool,
    reasons: Vec<String>,
}

fn main() {
    let schema = hier_agents::OutputSpec::of_type::<Verdict>("verdict").schema;
    assert_eq!(schema["properties"]["accepted"]["type"], "boolean");
    let Verdict { accepted, reasons } = Verdict { accepted: true, reasons: Vec::new() };
    assert!(accepted && reasons.is_empty());
}
