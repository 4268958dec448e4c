//! The routes, as a table: what answers, and what the OpenAPI page says of it.

use std::sync::Arc;

use axum::response::Html;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use axum::{Json, Router};
use schemars::SchemaGenerator;
use serde_json::Value;

use crate::agui;
use crate::app::App;
use crate::openapi::{self, Described};
use crate::routes::{
    assistants, batch, cancel, crons, mail, runs, states, store, streams, system, thread_stream, threads,
};
use crate::v3::{commands, events, socket};
use crate::wire::run::RunCreate;

macro_rules! routes {
    (@body) => { None };
    (@body $body:ty) => { Some(SchemaGenerator::subschema_for::<$body>) };
    ($($tag:literal { $($method:ident $path:literal $handler:path $([$body:ty])?, $does:literal;)+ })+) => {
        /// All routes, in the order of the page.
        pub(crate) const ROUTES: &[Described] = &[$($(Described {
            method: stringify!($method),
            path: $path,
            tag: $tag,
            does: $does,
            body: routes!(@body $($body)?),
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
        post "/assistants" assistants::create [assistants::AssistantBody], "Makes an assistant: a graph with a configuration.";
        post "/assistants/search" assistants::search [assistants::SearchBody], "Lists assistants.";
        post "/assistants/count" assistants::count [assistants::SearchBody], "Counts assistants.";
        get "/assistants/{assistant_id}" assistants::get, "An assistant.";
        patch "/assistants/{assistant_id}" assistants::patch [assistants::AssistantBody], "Makes a new version of an assistant.";
        delete "/assistants/{assistant_id}" assistants::delete, "Deletes an assistant with its versions.";
        get "/assistants/{assistant_id}/graph" assistants::graph, "The nodes and edges of an assistant's graph.";
        get "/assistants/{assistant_id}/schemas" assistants::schemas, "JSON Schemas of input, output, state and context.";
        get "/assistants/{assistant_id}/subgraphs" assistants::subgraphs, "The graphs inside the assistant's.";
        get "/assistants/{assistant_id}/subgraphs/{namespace}" assistants::subgraph, "One of the graphs inside the assistant's.";
        post "/assistants/{assistant_id}/versions" assistants::versions [assistants::SearchBody], "The versions of an assistant, the newest first.";
        post "/assistants/{assistant_id}/latest" assistants::latest [assistants::LatestBody], "Makes a version the one that is used.";
    }
    "Threads" {
        post "/threads" threads::create [threads::ThreadBody], "Makes a thread, perhaps with a history.";
        post "/threads/search" threads::search [threads::SearchBody], "Lists threads.";
        post "/threads/count" threads::count [threads::SearchBody], "Counts threads.";
        post "/threads/prune" threads::prune [threads::PruneBody], "Deletes threads, or all but their latest checkpoints.";
        get "/threads/{thread_id}" threads::get, "A thread.";
        patch "/threads/{thread_id}" threads::patch [threads::ThreadBody], "Adds to the metadata of a thread.";
        delete "/threads/{thread_id}" threads::delete, "Deletes a thread with everything that it holds.";
        post "/threads/{thread_id}/copy" threads::copy, "Copies a thread with its history.";
        get "/threads/{thread_id}/state" states::get, "The state as it is.";
        post "/threads/{thread_id}/state" states::update [states::UpdateBody], "Changes the state, as a node would.";
        post "/threads/{thread_id}/state/checkpoint" states::post_at [states::AtBody], "The state at a checkpoint.";
        get "/threads/{thread_id}/state/{checkpoint_id}" states::get_at, "The state at a checkpoint.";
        get "/threads/{thread_id}/history" states::history_get, "The states of the thread, newest first.";
        post "/threads/{thread_id}/history" states::history [states::HistoryBody], "The states of the thread, newest first.";
        post "/threads/{thread_id}/signals/{name}" mail::signal [mail::SignalBody], "Sends a signal to whoever waits for it on the thread.";
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
        post "/threads/{thread_id}/runs" runs::create [RunCreate], "Starts a run that nobody waits for.";
        post "/threads/{thread_id}/runs/stream" streams::stream [RunCreate], "Starts a run and tells what happens.";
        post "/threads/{thread_id}/runs/wait" runs::wait [RunCreate], "Starts a run and waits for its end.";
        get "/threads/{thread_id}/runs/{run_id}" runs::get, "A run.";
        delete "/threads/{thread_id}/runs/{run_id}" runs::delete, "Deletes a run that has ended.";
        get "/threads/{thread_id}/runs/{run_id}/join" runs::join, "Waits for the end of a run.";
        get "/threads/{thread_id}/runs/{run_id}/stream" streams::join, "Tells what happens in a run, from any event on.";
        post "/threads/{thread_id}/runs/{run_id}/cancel" cancel::run, "Cancels a run.";
        post "/runs" runs::create_stateless [RunCreate], "Starts a run on a thread of its own.";
        post "/runs/stream" streams::stream_stateless [RunCreate], "Starts such a run and tells what happens.";
        post "/runs/wait" runs::wait_stateless [RunCreate], "Starts such a run and waits for its end.";
        post "/runs/batch" batch::create [Vec<RunCreate>], "Starts several such runs, or none.";
        post "/runs/cancel" cancel::runs [cancel::CancelBody], "Cancels runs of a thread, or all with a status.";
    }
    "AG-UI" {
        post "/agui/{graph}" agui::run [agui::RunAgentInput], "Starts a run and tells what happens, in the Agent-User Interaction Protocol.";
    }
    "Crons" {
        post "/runs/crons" crons::create [crons::CronCreate], "Makes a cron: a run that is added again and again, each on a thread of its own.";
        post "/threads/{thread_id}/runs/crons" crons::create_on [crons::CronCreate], "Makes a cron whose runs are on this thread.";
        post "/runs/crons/search" crons::search [crons::SearchBody], "Lists crons.";
        post "/runs/crons/count" crons::count [crons::SearchBody], "Counts crons.";
        get "/runs/crons/{cron_id}" crons::get, "A cron.";
        patch "/runs/crons/{cron_id}" crons::patch [crons::CronBody], "Changes a cron.";
        delete "/runs/crons/{cron_id}" crons::delete, "Deletes a cron; its runs stay.";
    }
    "Store" {
        put "/store/items" store::put [store::PutBody], "Puts an item.";
        get "/store/items" store::get, "An item, or null.";
        delete "/store/items" store::delete [store::DeleteBody], "Deletes an item.";
        post "/store/items/search" store::search [store::SearchBody], "Searches items.";
        post "/store/namespaces" store::namespaces [store::NamespacesBody], "Lists namespaces.";
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
