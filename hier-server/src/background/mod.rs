//! Background jobs of servers and workers: crons, webhooks, and the deletion of expired data.

mod crons;
mod upkeep;

use std::net::SocketAddr;
use std::sync::Arc;

use hier_core::CancellationToken;
use tokio::task::JoinSet;

use crate::app::App;
use crate::webhook::WebhookSender;

pub(crate) async fn run_until(app: Arc<App>, own: Option<SocketAddr>, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    tasks.spawn(crons::run_until(app.clone(), stop.clone()));
    tasks.spawn(upkeep::run_until(app.clone(), stop.clone()));
    match WebhookSender::new(app.runs.clone(), app.webhooks.clone(), own) {
        Ok(sender) => drop(tasks.spawn(sender.graphs(app.graphs.clone()).run_until(stop))),
        Err(error) => tracing::error!(error, "webhooks are disabled"),
    }
    while tasks.join_next().await.is_some() {}
}

/// Sends the webhooks to paths of this server until the token is cancelled. Workers in other processes have no routes, so
/// they cannot send these webhooks.
pub(crate) async fn send_to_paths(app: Arc<App>, own: SocketAddr, stop: CancellationToken) {
    match WebhookSender::new(app.runs.clone(), app.webhooks.clone(), Some(own)) {
        Ok(sender) => sender.graphs(app.graphs.clone()).only_paths().run_until(stop).await,
        Err(error) => tracing::error!(error, "webhooks to paths are disabled"),
    }
}
