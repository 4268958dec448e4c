//! The studio: pages that show graphs, threads and runs, and the routes that only they ask.
//!
//! The pages hold no data and are open to everybody; everything under `/studio/api` is asked like any other route. What runs,
//! answers and edits is asked of the routes that all clients have. What is read, forked and pruned here needs no graph, so that the
//! same pages work on a database alone.

mod change;
mod checkpoints;
mod events;
mod graphs;
mod pages;
mod threads;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

/// What the routes of the pages begin with.
const PAGES: &str = "/studio";
/// What the routes begin with that tell data.
const DATA: &str = "/studio/api/";

/// Whether a path is a page, which holds no data and everybody may look at.
pub(crate) fn is_page(path: &str) -> bool {
    let below = path.strip_prefix(PAGES).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    below && !path.starts_with(DATA)
}

/// The pages, and what they ask.
pub(crate) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/studio", get(pages::enter))
        .route("/studio/", get(pages::index))
        .route("/studio/{file}", get(pages::file))
        .route("/studio/api/about", get(graphs::about))
        .route("/studio/api/graphs/{graph}", get(graphs::graph))
        .route("/studio/api/graphs/{graph}/svg", get(graphs::svg))
        .route("/studio/api/threads", get(threads::list))
        .route("/studio/api/threads/{thread}", get(threads::get))
        .route("/studio/api/threads/{thread}/events", get(events::events))
        .route("/studio/api/threads/{thread}/checkpoints", get(checkpoints::list))
        .route("/studio/api/threads/{thread}/checkpoints/{checkpoint}", get(checkpoints::get))
        .route("/studio/api/threads/{thread}/fork", post(change::fork))
        .route("/studio/api/threads/{thread}/prune", post(change::prune))
}

#[cfg(test)]
mod tests {
    use super::is_page;

    #[test]
    fn pages_are_open_and_data_is_not() {
        for path in ["/studio", "/studio/", "/studio/main.js"] {
            assert!(is_page(path), "{path}");
        }
        for path in ["/studio/api/about", "/studio/api/threads/x", "/studios", "/threads", "/"] {
            assert!(!is_page(path), "{path}");
        }
    }
}
