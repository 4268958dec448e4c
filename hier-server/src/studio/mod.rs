//! The studio: pages that show graphs, threads and runs, and the routes that only these pages use.
//!
//! The pages contain no data and need no authentication. The routes below `/studio/api` need authentication like other
//! routes. They read, copy, prune and delete threads, and work without graphs, so the pages can show a database without
//! its program. To start runs, answer questions and edit states, the pages use the same routes as other clients.

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

/// The routes of the pages, which contain no data and need no authentication.
pub(crate) const PAGES: [&str; 3] = ["/studio", "/studio/", "/studio/{file}"];

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
