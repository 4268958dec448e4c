//! The routes, as a table: what answers, and what the OpenAPI page says of it.

use std::sync::Arc;

use axum::response::Html;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use axum::{Json, Router};
use serde_json::Value;

use crate::agui;
use crate::app::App;
use crate::openapi::{self, Described};
use crate::routes::{
    assistants, batch, cancel, crons, mail, runs, states, storage, store, streams, system, thread_stream, threads,
};
use crate::v3::{commands, events, socket};

macro_rules! routes {
    ($($tag:literal { $($method:ident $path:literal $handler:path, $does:literal;)+ })+) => {
        /// All routes, in the order of the page.
        pub(crate) const ROUTES: &[Described] = &[$($(Described {
            method: stringify!($method),
            path: $path,
            tag: $tag,
            does: $does,
            add: |generators, operation| openapi::Handler::describe(&$handler, generators, operation),
        },)+)+];

        /// Their handlers.
        fn handlers() -> Vec<(&'static str, MethodRouter<Arc<App>>)> {
            vec![$($(($path, $method($handler)),)+)+]
        }
    };
}

routes! {
    "System" {
        get "/ok" system::ok, "Whether the server lives; with `check_db=true`, whether its database does.";
        get "/info" system::info, "The version, and what the server can do.";
        get "/metrics" system::metrics, "Counts of requests and runs, in Prometheus' format or (`format=json`) as JSON.";
        get "/openapi.json" described, "This description.";
        get "/docs" listed, "The routes as a page.";
    }
    "Assistants" {
        post "/assistants" assistants::create, "Makes an assistant: a graph with a configuration.";
        post "/assistants/search" assistants::search, "Lists assistants.";
        post "/assistants/count" assistants::count, "Counts assistants.";
        get "/assistants/{assistant_id}" assistants::get, "An assistant.";
        patch "/assistants/{assistant_id}" assistants::patch, "Makes a new version of an assistant.";
        delete "/assistants/{assistant_id}" assistants::delete, "Deletes an assistant with its versions.";
        get "/assistants/{assistant}/graph" assistants::graph, "The nodes and edges of an assistant's graph, by the assistant's id or the graph's name.";
        get "/assistants/{assistant_id}/schemas" assistants::schemas, "JSON Schemas of input, output, state and context.";
        get "/assistants/{assistant_id}/subgraphs" assistants::subgraphs, "The graphs inside the assistant's.";
        get "/assistants/{assistant_id}/subgraphs/{namespace}" assistants::subgraph, "One of the graphs inside the assistant's.";
        post "/assistants/{assistant_id}/versions" assistants::versions, "The versions of an assistant, the newest first.";
        post "/assistants/{assistant_id}/latest" assistants::latest, "Makes a version the one that is used.";
    }
    "Threads" {
        post "/threads" threads::create, "Makes a thread, perhaps with a history.";
        post "/threads/search" threads::search, "Lists threads.";
        post "/threads/count" threads::count, "Counts threads.";
        post "/threads/prune" threads::prune, "Deletes threads, or all but their latest checkpoints.";
        get "/threads/{thread_id}" threads::get, "A thread.";
        patch "/threads/{thread_id}" threads::patch, "Adds to the metadata of a thread.";
        delete "/threads/{thread_id}" threads::delete, "Deletes a thread with everything that it holds.";
        post "/threads/{thread_id}/copy" threads::copy, "Copies a thread with its history.";
        get "/threads/{thread_id}/storage" storage::get, "How much the thread takes in the database: its checkpoints, values and writes, in bytes. Reads all of it.";
        get "/threads/{thread_id}/state" states::get, "The state as it is.";
        post "/threads/{thread_id}/state" states::update, "Changes the state, as a node would.";
        post "/threads/{thread_id}/state/checkpoint" states::post_at, "The state at a checkpoint.";
        get "/threads/{thread_id}/state/{checkpoint_id}" states::get_at, "The state at a checkpoint.";
        get "/threads/{thread_id}/history" states::history_get, "The states of the thread, newest first.";
        post "/threads/{thread_id}/history" states::history, "The states of the thread, newest first.";
        post "/threads/{thread_id}/signals/{name}" mail::signal, "Sends a signal to whoever waits for it on the thread.";
        get "/threads/{thread_id}/mail" mail::list, "What waits on the thread to be read: signals and messages.";
        delete "/threads/{thread_id}/mail/{letter_id}" mail::discard, "Takes a signal or a message away that nobody has read.";
        get "/threads/{thread_id}/stream" thread_stream::follow, "What happens on the thread, as server-sent events.";
    }
    "Events" {
        post "/threads/{thread_id}/commands" commands::post, "Starts runs and answers questions: the second protocol.";
        post "/threads/{thread_id}/stream/events" events::stream, "What happens on the thread, in the second protocol.";
        get "/threads/{thread_id}/stream/events" socket::open, "The same, with commands, over a WebSocket.";
    }
    "Runs" {
        get "/threads/{thread_id}/runs" runs::list, "The runs of a thread, newest first.";
        post "/threads/{thread_id}/runs" runs::create, "Starts a run that nobody waits for.";
        post "/threads/{thread_id}/runs/stream" streams::stream, "Starts a run and tells what happens.";
        post "/threads/{thread_id}/runs/wait" runs::wait, "Starts a run and waits for its end.";
        get "/threads/{thread_id}/runs/{run_id}" runs::get, "A run.";
        delete "/threads/{thread_id}/runs/{run_id}" runs::delete, "Deletes a run that has ended.";
        get "/threads/{thread_id}/runs/{run_id}/join" runs::join, "Waits for the end of a run.";
        get "/threads/{thread_id}/runs/{run_id}/stream" streams::join, "Tells what happens in a run, from any event on.";
        post "/threads/{thread_id}/runs/{run_id}/cancel" cancel::run, "Cancels a run.";
        post "/runs" runs::create_stateless, "Starts a run on a thread of its own.";
        post "/runs/stream" streams::stream_stateless, "Starts such a run and tells what happens.";
        post "/runs/wait" runs::wait_stateless, "Starts such a run and waits for its end.";
        post "/runs/batch" batch::create, "Starts several such runs, or none.";
        post "/runs/cancel" cancel::runs, "Cancels runs of a thread, or all with a status.";
    }
    "AG-UI" {
        post "/agui/{graph}" agui::run, "Starts a run and tells what happens, in the Agent-User Interaction Protocol.";
    }
    "Crons" {
        post "/runs/crons" crons::create, "Makes a cron: a run that is added again and again, each on a thread of its own.";
        post "/threads/{thread_id}/runs/crons" crons::create_on, "Makes a cron whose runs are on this thread.";
        post "/runs/crons/search" crons::search, "Lists crons.";
        post "/runs/crons/count" crons::count, "Counts crons.";
        get "/runs/crons/{cron_id}" crons::get, "A cron.";
        patch "/runs/crons/{cron_id}" crons::patch, "Changes a cron.";
        delete "/runs/crons/{cron_id}" crons::delete, "Deletes a cron; its runs stay.";
    }
    "Store" {
        put "/store/items" store::put, "Puts an item.";
        get "/store/items" store::get, "An item, or null.";
        delete "/store/items" store::delete, "Deletes an item.";
        post "/store/items/search" store::search, "Searches items.";
        post "/store/namespaces" store::namespaces, "Lists namespaces.";
    }
}

async fn described() -> Json<Value> {
    Json(openapi::document(ROUTES))
}

/// The routes as a page.
async fn listed() -> Html<String> {
    Html(openapi::page(ROUTES))
}

/// The routes with their handlers.
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
