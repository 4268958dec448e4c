//! Runs graphs of hier on a [Restate](https://restate.dev) cluster, without changes to the graphs and with the same
//! results.
//!
//! Restate is a server that sends work to programs and stores the results. An [`Endpoint`] is such a program, a worker.
//! A [`Client`] calls graphs through Restate's ingress, the address at which Restate accepts calls.
//!
//! In terms of Restate, a thread is a virtual object that stores a log. An invocation executes a few supersteps,
//! records their results in its journal and then sends the next invocation. If a superstep has several tasks, then by
//! default each of them is a call that any worker can execute.
//!
//! ```no_run
//! use hier_core::graph::DynInput;
//! use hier_core::prelude::*;
//! use hier_restate::{Client, Endpoint, register};
//!
//! # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
//! # struct Filing { accepted: bool }
//! # async fn assess() -> FilingUpdate { Filing::update().accepted(true) }
//! # graph! { Desk<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
//! # async fn worker() -> std::result::Result<(), hier_restate::Error> {
//! // A worker.
//! Endpoint::new().graph("desk", Desk::compile(), ()).serve("127.0.0.1:9080").await
//! # }
//!
//! # async fn client() -> std::result::Result<(), hier_restate::Error> {
//! // Register the worker once.
//! register("http://127.0.0.1:9070", "http://127.0.0.1:9080").await?;
//! // A client.
//! let desk = Client::new("http://127.0.0.1:8080").graph("desk");
//! let input = DynInput::New(serde_json::json!({ "accepted": false }));
//! let end = desk.invoke(input).thread("case-17").await?;
//! assert_eq!(end.into_state(), serde_json::json!({ "accepted": true }));
//! # Ok(())
//! # }
//! ```
//!
//! The page `docs/cluster.md` of the repository describes the guarantees and the places where threads can be stored.

mod admin;
mod cache;
mod client;
mod context;
mod database;
mod endpoint;
mod error;
mod event_sender;
mod host;
mod incoming;
mod log;
mod message;
mod runner;
mod service;
mod slice;
mod stored;
mod stream;
mod thread;
mod wire;
mod work;

pub use admin::{register, threads};
pub use client::{Client, RemoteGraph, RemoteInvoke};
pub use context::{ContextByThread, ContextByValue, IntoContext};
pub use endpoint::{Endpoint, FanOut, loopback};
pub use error::{Error, RunFailure};
pub use incoming::StreamItem;
pub use runner::ClusterRunner;
pub use stream::{Hub, RemoteStream, RemoteStreaming};
