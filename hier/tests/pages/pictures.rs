//! The graphs whose pictures pages show. Each module has the graph of one page, word by word.

use hier::prelude::*;

use crate::{bare, read};

mod first_graph {
    use hier::prelude::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(super) struct Order {
        amount: u32,
    }

    graph! {
        /// Accepts small orders, and puts large ones aside.
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

mod first_workflow {
    use hier::graph::Failure;
    use hier::prelude::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(super) struct Order {
        amount: u32,
    }

    graph! {
        /// Charges an order and ships it.
        pub(super) Fulfil<Order> = Graph {
            nodes: [charge { retry: 3, timeout: 10s }, ship { on_error: pay_back }],
            edges: [START >> charge >> ship >> END],
        }
    }

    async fn charge() {}
    async fn ship() {}
    async fn pay_back(_failure: Failure) {}
}

mod map_reduce {
    use hier::graph::Failure;
    use hier::prelude::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(super) struct Trip {
        hotels: Vec<String>,
        #[reducer(append)]
        failed: Vec<String>,
    }

    graph! {
        /// Books all hotels of a trip, or none.
        pub(super) BookTrip<Trip> = Graph {
            nodes: [
                plan,
                book { retry: Retry { attempts: 3, interval: 10ms }, timeout: 10s, on_error: give_up, goto: [check] },
                check, confirm, cancel,
            ],
            edges: [
                START >> plan >> for hotel in state.hotels { book(hotel) },        // map: one task for each hotel
                book >> check >> if state.failed.is_empty() { confirm } else { cancel },
                confirm >> END,
                cancel >> END,
            ],
        }
    }

    async fn plan() {}
    async fn book(Sent(_hotel): Sent<String>) {}
    async fn give_up(Sent(_hotel): Sent<String>, _failure: Failure) -> Command<Trip> {
        Command::to(BookTrip::check)
    }
    async fn check() {}
    async fn confirm() {}
    async fn cancel() {}
}

/// The pages with the Mermaid text of their graphs.
fn pictures() -> [(&'static str, String); 3] {
    [
        ("docs/first-graph.md", first_graph::Review::SPEC.mermaid()),
        ("docs/first-workflow.md", first_workflow::Fulfil::SPEC.mermaid()),
        ("docs/map-reduce.md", map_reduce::BookTrip::SPEC.mermaid()),
    ]
}

/// Compares the picture of each page with the library's. With `UPDATE_EXPECT=1` it writes the page instead.
#[test]
fn pictures_are_those_of_the_library() {
    for (page, mermaid) in pictures() {
        let text = read(page);
        let (before, rest) = text.split_once("```mermaid\n").unwrap_or_else(|| panic!("{page} has no picture"));
        let (_, after) = rest.split_once("```").expect("the end of the picture");
        let current = format!("{before}```mermaid\n{mermaid}```{after}");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(crate::root().join(page), current).unwrap_or_else(|error| panic!("{page}: {error}"));
        } else {
            assert_eq!(text, current, "{page}: run this test with UPDATE_EXPECT=1");
        }
    }
}

#[test]
fn pictures_are_of_the_graphs_of_their_pages() {
    let here = bare(include_str!("pictures.rs")).replace("pub(super)", "");
    for (page, _) in pictures() {
        let text = read(page);
        let graphs = text.split("\ngraph! {\n").skip(1).map(|rest| rest.split("\n}\n").next().unwrap_or_default());
        for graph in graphs {
            assert!(here.contains(&bare(graph)), "{page} has another graph:\n{graph}");
        }
    }
}
