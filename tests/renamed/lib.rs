//! The macros find hier under the name that `Cargo.toml` gives it, and under the path that a call gives.

/// Under the name of `Cargo.toml`.
pub mod found {
    use chart::prelude::*;

    /// A sum.
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(crate = "chart::serde")]
    pub struct Sum {
        /// The number.
        #[reducer(sum)]
        pub number: u64,
    }

    graph! {
        /// Adds one.
        pub Adds<Sum> = Graph { nodes: [add], edges: [START >> add >> END] }
    }

    async fn add(seen: Seen<'_>) -> SumUpdate {
        Sum::update().number(*seen.number + 1)
    }

    /// A view of it.
    #[derive(View)]
    #[view(of = Sum)]
    pub struct Seen<'a> {
        number: &'a u64,
    }

    /// Looks.
    #[tool]
    pub async fn look(year: u16) -> String {
        year.to_string()
    }
}

/// A crate that offers hier to others, as its own.
pub mod offered {
    pub use chart as graphs;
}

/// Under a path that is given.
pub mod given {
    use crate::offered::graphs::prelude::*;

    /// A sum.
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(crate = "crate::offered::graphs::serde")]
    #[state(crate = crate::offered::graphs)]
    pub struct Sum {
        /// The number.
        #[reducer(sum)]
        pub number: u64,
    }

    graph! {
        /// Adds one.
        pub Adds<Sum> = Graph { crate: crate::offered::graphs, nodes: [add], edges: [START >> add >> END] }
    }

    async fn add(seen: Seen<'_>) -> SumUpdate {
        Sum::update().number(*seen.number + 1)
    }

    /// A view of it.
    #[derive(View)]
    #[view(of = Sum, crate = crate::offered::graphs)]
    pub struct Seen<'a> {
        number: &'a u64,
    }

    /// Looks.
    #[tool(crate = crate::offered::graphs)]
    pub async fn look(year: u16) -> String {
        year.to_string()
    }
}

#[cfg(test)]
mod tests {
    use chart::prelude::*;

    #[tokio::test]
    async fn graphs_of_both_names_run() {
        let found = super::found::Adds::compile();
        let out = found.invoke(super::found::Sum::update().number(1)).await.unwrap();
        assert_eq!(out.state().number, 3);
        let given = super::given::Adds::compile();
        let out = given.invoke(super::given::Sum::update().number(2)).await.unwrap();
        assert_eq!(out.state().number, 5);
    }
}
