//! The table of the routes, their handlers and their descriptions.

use std::sync::Arc;

use axum::response::Html;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use axum::{Json, Router};
use serde_json::Value;

use crate::agui;
use crate::app::App;
use crate::openapi::{self, RouteDescription};
use crate::routes::{
    assistants, batch, cancel, cron_search, crons, inbox, runs, states, storage, store, streams, system, thread_stream,
    threads,
};
use crate::v3::{commands, events, socket};

macro_rules! routes {
    ($($tag:literal { $($method:ident $path:literal $handler:path, $does:literal;)+ })+) => {
        /// All routes, in the order of the OpenAPI page.
        pub(crate) const ROUTES: &[RouteDescription] = &[$($(RouteDescription {
            method: stringify!($method),
            path: $path,
            tag: $tag,
            does: $does,
            add: |generators, operation| openapi::DescribedHandler::describe(&$handler, generators, operation),
        },)+)+];

        fn handlers() -> Vec<(&'static str, MethodRouter<Arc<App>>)> {
            vec![$($(($path, $method($handler)),)+)+]
        }
    };
}

routes! {
    "System" {
        get "/ok" system::ok, "Checks that the server responds. With `check_db=true`, also checks the database.";
        get "/info" system::info, "Returns the version and the features.";
        get "/metrics" system::metrics, "Returns counts of requests and runs, in the format of Prometheus or, with `format=json`, as JSON.";
        get "/openapi.json" openapi_document, "Returns the OpenAPI document of the routes.";
        get "/docs" openapi_page, "Lists the routes on a page.";
    }
    "Assistants" {
        post "/assistants" assistants::create, "Creates an assistant: a graph with a configuration.";
        post "/assistants/search" assistants::search, "Lists assistants.";
        post "/assistants/count" assistants::count, "Counts assistants.";
        get "/assistants/{assistant_id}" assistants::get, "Returns an assistant.";
        patch "/assistants/{assistant_id}" assistants::patch, "Creates a new version of an assistant.";
        delete "/assistants/{assistant_id}" assistants::delete, "Deletes an assistant with its versions.";
        get "/assistants/{assistant}/graph" assistants::graph, "Returns the nodes and edges of an assistant's graph, by the assistant's id or the graph's name.";
        get "/assistants/{assistant_id}/schemas" assistants::schemas, "Returns the JSON Schemas of input, output, state and context.";
        get "/assistants/{assistant_id}/subgraphs" assistants::subgraphs, "Returns the subgraphs of an assistant's graph.";
        get "/assistants/{assistant_id}/subgraphs/{namespace}" assistants::subgraph, "Returns one subgraph of an assistant's graph.";
        post "/assistants/{assistant_id}/versions" assistants::versions, "Lists the versions of an assistant, newest first.";
        post "/assistants/{assistant_id}/latest" assistants::latest, "Selects the version of an assistant that runs use.";
    }
    "Threads" {
        post "/threads" threads::create, "Creates a thread, optionally with a history.";
        post "/threads/search" threads::search, "Lists threads.";
        post "/threads/count" threads::count, "Counts threads.";
        post "/threads/prune" threads::prune, "Deletes threads, or all of their checkpoints except the latest.";
        get "/threads/{thread_id}" threads::get, "Returns a thread.";
        patch "/threads/{thread_id}" threads::patch, "Changes fields in the metadata of a thread.";
        delete "/threads/{thread_id}" threads::delete, "Deletes a thread with all of its data.";
        post "/threads/{thread_id}/copy" threads::copy, "Copies a thread with its history.";
        get "/threads/{thread_id}/storage" storage::get, "Measures the checkpoints, values and writes of a thread, in bytes. Reads the whole thread.";
        get "/threads/{thread_id}/state" states::get, "Returns the current state.";
        post "/threads/{thread_id}/state" states::update, "Changes the state, as a node would.";
        post "/threads/{thread_id}/state/checkpoint" states::post_at, "Returns the state at a checkpoint.";
        get "/threads/{thread_id}/state/{checkpoint_id}" states::get_at, "Returns the state at a checkpoint.";
        get "/threads/{thread_id}/history" states::history_get, "Lists the states of the thread, newest first.";
        post "/threads/{thread_id}/history" states::history, "Lists the states of the thread, newest first.";
        post "/threads/{thread_id}/signals/{name}" inbox::signal, "Sends a signal to the node that waits for it on the thread.";
        get "/threads/{thread_id}/mail" inbox::list, "Lists the signals and messages that no run has read.";
        delete "/threads/{thread_id}/mail/{letter_id}" inbox::discard, "Removes a signal or message that no run has read.";
        get "/threads/{thread_id}/stream" thread_stream::follow, "Streams the events of the thread, as server-sent events.";
    }
    "Events" {
        post "/threads/{thread_id}/commands" commands::post, "Starts runs and answers questions, in the v3 event protocol.";
        post "/threads/{thread_id}/stream/events" events::stream, "Streams the events of the thread, in the v3 event protocol.";
        get "/threads/{thread_id}/stream/events" socket::open, "Sends events and receives commands over a WebSocket, in the v3 event protocol.";
    }
    "Runs" {
        get "/threads/{thread_id}/runs" runs::list, "Lists the runs of a thread, newest first.";
        post "/threads/{thread_id}/runs" runs::create, "Starts a run in the background.";
        post "/threads/{thread_id}/runs/stream" streams::stream, "Starts a run and streams its events.";
        post "/threads/{thread_id}/runs/wait" runs::wait, "Starts a run and waits for its end.";
        get "/threads/{thread_id}/runs/{run_id}" runs::get, "Returns a run.";
        delete "/threads/{thread_id}/runs/{run_id}" runs::delete, "Deletes a run that has ended.";
        get "/threads/{thread_id}/runs/{run_id}/join" runs::join, "Waits for the end of a run.";
        get "/threads/{thread_id}/runs/{run_id}/stream" streams::join, "Streams the events of a run after a given event, or new events only.";
        post "/threads/{thread_id}/runs/{run_id}/cancel" cancel::run, "Cancels a run.";
        post "/runs" runs::create_stateless, "Starts a run on its own thread, in the background.";
        post "/runs/stream" streams::stream_stateless, "Starts a run on its own thread and streams its events.";
        get "/runs/{run_id}/stream" streams::join_stateless, "Streams the events of a run that was started without a thread.";
        post "/runs/wait" runs::wait_stateless, "Starts a run on its own thread and waits for its end.";
        post "/runs/batch" batch::create, "Starts several runs, each on its own thread. Starts none if any is refused.";
        post "/runs/cancel" cancel::runs, "Cancels runs of a thread, or all runs with a status.";
    }
    "AG-UI" {
        post "/agui/{graph}" agui::run, "Starts a run and streams its events, in the Agent-User Interaction Protocol.";
    }
    "Crons" {
        post "/runs/crons" crons::create, "Creates a cron that adds runs repeatedly, each on its own thread.";
        post "/threads/{thread_id}/runs/crons" crons::create_on, "Creates a cron that adds runs to this thread.";
        post "/runs/crons/search" cron_search::search, "Lists crons.";
        post "/runs/crons/count" cron_search::count, "Counts crons.";
        get "/runs/crons/{cron_id}" crons::get, "Returns a cron.";
        patch "/runs/crons/{cron_id}" crons::patch, "Changes a cron.";
        delete "/runs/crons/{cron_id}" crons::delete, "Deletes a cron. Its runs stay.";
    }
    "Store" {
        put "/store/items" store::put, "Stores an item.";
        get "/store/items" store::get, "Returns an item, or null.";
        delete "/store/items" store::delete, "Deletes an item.";
        post "/store/items/search" store::search, "Searches items.";
        post "/store/namespaces" store::namespaces, "Lists namespaces.";
    }
}

async fn openapi_document() -> Json<Value> {
    Json(openapi::document(ROUTES))
}

async fn openapi_page() -> Html<String> {
    Html(openapi::page(ROUTES))
}

pub(crate) fn router() -> Router<Arc<App>> {
    handlers().into_iter().fold(Router::new(), |router, (path, handler)| router.route(path, handler))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_described_once() {
        let document = openapi::document(ROUTES);
        let paths = document["paths"].as_object().expect("paths").values();
        assert_eq!(paths.map(|path| path.as_object().map_or(0, serde_json::Map::len)).sum::<usize>(), ROUTES.len());
    }
}
