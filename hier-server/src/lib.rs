//! Serves graphs over HTTP, to the clients of LangGraph's server.

mod agui;
mod app;
pub mod auth;
mod background;
mod body;
mod context;
mod cross_origin;
mod database;
mod drawing;
mod error;
mod failure;
mod fault;
mod follow;
mod graphs;
mod layers;
mod metrics;
mod openapi;
mod options;
mod router;
mod routes;
mod schedule;
mod server;
mod stream;
mod studio;
mod time;
mod v3;
mod webhook;
mod wire;

pub use axum;
pub use context::{ByFallible, ByFunction, ByValue, IntoContext, RunRequest};
pub use error::ApiError;
pub use failure::ServerError;
pub use hier_core::async_trait;
pub use server::{Running, Server, Worker};
pub use webhook::Webhooks;
