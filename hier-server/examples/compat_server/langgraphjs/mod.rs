//! The graphs that `libs/langgraph-api/tests/api.test.mts` of langchain-ai/langgraphjs expects, and the route by which that suite empties
//! the server.

mod agent;
mod nested;
mod typed;

use std::error::Error;
use std::sync::Arc;

use hier_server::Server;

use agent::Desk;

/// Adds the graphs of the suite.
pub(crate) fn graphs(server: Server) -> Result<Server, Box<dyn Error>> {
    Ok(server
        .graph("agent", agent::agent()?, Desk::of)
        .graph("agent_simple", agent::agent_simple()?, Desk::of)
        .graph("delay", agent::delay()?, ())
        .graph("error", agent::error()?, ())
        .graph("nested", nested::nested()?, ())
        .graph("weather", nested::weather()?, ())
        .dyn_graph("simple_runtime", Arc::new(typed::simple_runtime()?))
        .dyn_graph("state_schema_graph", Arc::new(typed::state_schema()?))
        .dyn_graph("zod_registry_graph", Arc::new(typed::zod_registry()?))
        .dyn_graph("plain_zod_graph", Arc::new(typed::plain_zod()?)))
}
