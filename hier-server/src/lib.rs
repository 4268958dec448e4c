//! Serves graphs over HTTP, for clients of LangGraph's server and for AG-UI. Start with [`Server`]. The module [`auth`]
//! identifies users.

mod admission;
mod agui;
mod answer;
mod app;
pub mod auth;
mod background;
mod body;
mod context;
mod cross_origin;
mod database;
mod default_assistants;
mod drawing;
mod error;
mod event_tail;
mod failure;
mod fault;
mod graphs;
mod metrics;
mod middleware;
mod openapi;
mod options;
mod query;
mod reserved;
mod router;
mod routes;
mod running;
mod schedule;
mod server;
mod serving;
mod sse;
mod stream;
mod studio;
mod time;
mod upgrade;
mod v3;
mod webhook;
mod wire;

pub use axum;
pub use context::{ByFallible, ByFunction, ByValue, IntoContext, RunRequest};
pub use error::ApiError;
pub use failure::ServerError;
pub use hier_core::async_trait;
pub use running::{Running, WorkerProcess};
pub use server::Server;
pub use webhook::Webhooks;
