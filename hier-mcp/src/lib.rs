//! The Model Context Protocol for hier: the tools of MCP servers in agents ([`McpClient`]), and graphs as the tools of
//! an MCP server ([`McpServer`]).
//!
//! Both support the stateless protocol of 2026-07-28, and the older protocols, which start with `initialize`.

mod client;
mod error;
mod server;

pub use client::{McpClient, McpClientBuilder, McpPrompt, McpQuestion, McpResource, PromptArgument, Protocol};
pub use error::McpError;
pub use server::{McpServer, SealKey};
