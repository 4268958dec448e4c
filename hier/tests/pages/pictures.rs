//! The graph whose picture `docs/first-graph.md` shows, word by word.

use hier::prelude::*;

use crate::{bare, read};

mod first_graph {
    use hier::prelude::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(super) struct Order {
        amount: u32,
    }

    graph! {
        /// Accepts small orders and puts large ones aside.
        pub(super) Review<Order> = Graph {
            nodes: [weigh, accept, put_aside],
            edges: [
                START >> weigh >> if state.amount > 100 { put_aside } else { accept },
                accept >> END,
                put_aside >> END,
            ],
        }
    }

    async fn weigh() {}
    async fn accept() {}
    async fn put_aside() {}
}

const PAGE: &str = "docs/first-graph.md";

/// Compares the picture of the page with the library's. With `UPDATE_EXPECT=1` it writes the page instead.
#[test]
fn picture_is_that_of_the_library() {
    let text = read(PAGE);
    let mermaid = first_graph::Review::SPEC.mermaid();
    let (before, rest) = text.split_once("```mermaid\n").expect("the page has no picture");
    let (_, after) = rest.split_once("```").expect("the end of the picture");
    let current = format!("{before}```mermaid\n{mermaid}```{after}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(crate::root().join(PAGE), current).unwrap_or_else(|error| panic!("{PAGE}: {error}"));
    } else {
        assert_eq!(text, current, "{PAGE}: run this test with UPDATE_EXPECT=1");
    }
}

#[test]
fn picture_is_of_the_graph_of_its_page() {
    let here = bare(include_str!("pictures.rs")).replace("pub(super)", "");
    let text = read(PAGE);
    let graph = text.split("\ngraph! {\n").nth(1).and_then(|rest| rest.split("\n}\n").next()).expect("a graph");
    assert!(here.contains(&bare(graph)), "{PAGE} has another graph:\n{graph}");
}
