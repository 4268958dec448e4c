//! Serves graphs over HTTP, to the clients of LangGraph's server.

mod app;
pub mod auth;
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
mod server;
mod stream;
mod time;
mod v3;
mod webhook;
mod wire;

pub use context::{ByFallible, ByFunction, ByValue, IntoContext, RunRequest};
pub use error::ApiError;
pub use failure::ServerError;
pub use hier_core::async_trait;
pub use server::{Running, Server, Worker};
