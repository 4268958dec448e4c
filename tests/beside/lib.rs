//! Agents and tools in a crate that names `hier-core` next to the facade.

use hier::prelude::*;

graph! {
    /// Answers customers.
    pub Support<BaseState> = Agent { system: "You answer customers.", tools: [weather] }
}

/// Returns the weather of a city.
#[tool]
pub async fn weather(city: String) -> String {
    format!("sunny in {city}")
}

/// A count.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Count {
    /// The count.
    #[reducer(sum)]
    pub count: u32,
}

graph! {
    /// Counts.
    pub Counting<Count> = Graph { nodes: [add], edges: [START >> add >> END], crate: ::hier_core }
}

async fn add() -> CountUpdate {
    Count::update().count(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_those_of_the_facade() {
        assert_eq!(Support::compile().spec().name, "support");
        assert_eq!(Counting::compile().spec().name, "counting");
    }
}
