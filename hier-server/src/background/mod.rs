//! What a server and a worker do beside requests and runs: crons are fired, webhooks told, what has expired is deleted.

mod crons;
mod upkeep;

use std::net::SocketAddr;
use std::sync::Arc;

use hier_core::CancellationToken;
use tokio::task::JoinSet;

use crate::app::App;
use crate::webhook::Sender;

/// Does all of it until the token is cancelled.
pub(crate) async fn run_until(app: Arc<App>, own: Option<SocketAddr>, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    tasks.spawn(crons::run_until(app.runs.clone(), stop.clone()));
    tasks.spawn(upkeep::run_until(app.clone(), stop.clone()));
    match Sender::new(app.runs.clone(), app.webhooks.clone(), own) {
        Ok(sender) => drop(tasks.spawn(sender.graphs(app.graphs.clone()).run_until(stop))),
        Err(error) => tracing::error!(error, "webhooks are not told"),
    }
    while tasks.join_next().await.is_some() {}
}
