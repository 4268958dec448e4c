//! State graphs and hierarchies of agents, checked by the compiler. Programs use this crate, which re-exports the other
//! crates of hier.
//!
//! ```
//! use hier::prelude::*;
//!
//! #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
//! struct Countdown {
//!     seconds: u32,
//!     #[reducer(append)]
//!     log: Vec<String>,
//! }
//!
//! graph! {
//!     Launch<Countdown> = Graph {
//!         nodes: [tick, ignite],
//!         edges: [START >> tick >> if is_over { ignite } else { tick }, ignite >> END],
//!     }
//! }
//!
//! async fn tick(state: &Countdown) -> CountdownUpdate {
//!     Countdown::update().seconds(state.seconds.saturating_sub(1)).log([format!("{} …", state.seconds)])
//! }
//!
//! async fn ignite() -> CountdownUpdate {
//!     Countdown::update().log(["Lift-off!".to_owned()])
//! }
//!
//! fn is_over(state: &Countdown) -> bool {
//!     state.seconds == 0
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> hier::Result<()> {
//! let out = Launch::compile().invoke(Countdown::update().seconds(2)).await?;
//! assert_eq!(out.state().log, ["2 …", "1 …", "Lift-off!"]);
//! # Ok(())
//! # }
//! ```
//!
//! | feature | contents |
//! |---|---|
//! | `models` (default) | [`models`]: OpenAI, Anthropic, Gemini, Ollama and compatible servers. |
//! | `bedrock` | Models of Amazon Bedrock (includes the feature `models`). |
//! | `sqlite` (default) | [`checkpoint::Sqlite`] and [`store::SqliteStore`]. |
//! | `postgres` | `checkpoint::Postgres` and `store::PostgresStore`. |
//! | `tls` | Encrypted connections to Postgres (includes the feature `postgres`). |
//! | `mcp` | `mcp`: tools of MCP servers for agents, and graphs as tools of a server. |
//! | `mcp-oauth` | `mcp` with OAuth for MCP clients (includes the feature `mcp`). |
//! | `server` | `server`: serves graphs over HTTP, compatible with LangGraph's clients. |
//! | `metrics` | Histograms of model calls and runs for OpenTelemetry. |
//! | `testing` | `testing`: scripted models, sessions, clocks, operators, replays of stored threads. |
//! | `restate` | `restate`: graphs on a Restate cluster. |
//! | `compression`, `encryption` | Compression and encryption of stored values. |
//!
//! This crate contains the items of [`hier_core`] and, in [`agent`] and [`worker`], those of [`hier_agents`] and
//! [`hier_worker`]. The savers for databases are in [`checkpoint`], and the stores are in [`store`].
//!
//! You can give this crate another name in `Cargo.toml`. If you use hier through a crate that re-exports it, give the
//! macros the path: `#[state(crate = my_crate::hier)]`, `#[view(of = …, crate = …)]`, `#[tool(crate = …)]`, and
//! `crate: …` in `graph!`.
//!
//! `#[derive(Serialize, Deserialize)]` needs `serde = { version = "1", features = ["derive"] }` in `Cargo.toml`, or
//! `#[serde(crate = "hier::serde")]` on the type.

#[doc(inline)]
pub use hier_agents as agent;
pub use hier_agents::{plumbing, tools};
pub use hier_core::*;
#[cfg(feature = "mcp")]
pub use hier_mcp as mcp;
#[cfg(feature = "models")]
pub use hier_models as models;
#[cfg(feature = "restate")]
pub use hier_restate as restate;
#[cfg(feature = "server")]
pub use hier_server as server;
#[cfg(feature = "testing")]
pub use hier_testkit as testing;
pub use hier_worker as worker;
pub use {schemars, serde};

/// Graphs and their drawings.
pub mod graph {
    pub use hier_core::graph::*;
    pub use hier_draw as draw;
}

/// Checkpoints and savers.
pub mod checkpoint {
    #[cfg(all(feature = "encryption", any(feature = "sqlite", feature = "postgres")))]
    pub use hier_checkpoint::Key;
    pub use hier_core::checkpoint::*;
    #[cfg(feature = "postgres")]
    pub use hier_postgres::{Postgres, PostgresOptions};
    #[cfg(feature = "sqlite")]
    pub use hier_sqlite::{Sqlite, SqliteOptions, Survives};
}

/// Stores, which keep values that threads share.
pub mod store {
    pub use hier_core::store::*;
    #[cfg(feature = "postgres")]
    pub use hier_postgres::PostgresStore;
    #[cfg(feature = "sqlite")]
    pub use hier_sqlite::SqliteStore;
}

/// The names that most programs use: `use hier::prelude::*;`
///
/// The names do not collide with a glob import of axum, anyhow, tokio or std. Other names are in [`agent`],
/// [`checkpoint`] and the other modules.
pub mod prelude {
    pub use hier_agents::prelude::{Approval, BaseContext, BaseState, MessagesState, tool, tools};
    pub use hier_agents::{AgentOutcome as _, BaseStateSetters as _, NamedTool as _, RunModel as _};
    pub use hier_core::QuestionSet as _;
    pub use hier_core::graph::Graph as _;
    pub use hier_core::prelude::{
        Ask, Command, Config, Deserialize, END, JsonSchema, MemorySaver, Message, Messages, NodeError, Outcome,
        Question, Run, RunError, START, Sent, Serialize, State, StreamMode, View, graph, schemars,
    };
    pub use hier_core::reducer::Identified as _;
    pub use hier_core::state::{State as _, Update as _, Values as _};
    pub use hier_draw::Draw as _;
    #[cfg(feature = "models")]
    pub use hier_models::Model;

    #[cfg(feature = "sqlite")]
    pub use crate::checkpoint::Sqlite;
}

/// The page *Coming from LangGraph*, so that its programs are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/coming-from-langgraph.md")]
struct ComingFromLangGraph;

/// The page *Views and data flow*, so that its program is run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/data-flow.md")]
struct DataFlow;

/// The page *A first graph*, so that its program is run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/first-graph.md")]
struct FirstGraph;

/// The page *People in the loop*, so that its program is run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/people.md")]
struct People;

/// The page *Tools in the client*, so that its program is run.
#[cfg(all(doctest, feature = "testing", feature = "server", feature = "models"))]
#[doc = include_str!("../../docs/client-tools.md")]
struct ClientTools;

/// The page *A crash-proof workflow*, so that its program is run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/first-workflow.md")]
struct FirstWorkflow;

/// The page *A hierarchy with policies*, so that its program is run.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/first-hierarchy.md")]
struct FirstHierarchy;

/// The page *A service*, so that its program is compiled.
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../../docs/first-service.md")]
struct FirstService;

/// The page *Deploys and threads in flight*, so that its programs are compiled.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/deploys.md")]
struct Deploys;

/// The page *Deploying*, so that its program is compiled.
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../../docs/deploying.md")]
struct Deploying;

/// The page *Map-reduce with failures*, so that its program is run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/map-reduce.md")]
struct MapReduce;

/// The page *Stream to a browser*, so that its program is compiled.
#[cfg(all(doctest, feature = "server", feature = "models"))]
#[doc = include_str!("../../docs/streaming.md")]
struct Streaming;

/// The page *Secure a server*, so that its programs are compiled.
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../../docs/securing.md")]
struct Securing;

/// The page *Observe*, so that its program is run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/observing.md")]
struct Observing;
