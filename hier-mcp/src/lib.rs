//! The Model Context Protocol for hier: tools of MCP servers for agents ([`McpClient`]), and graphs as tools of an MCP
//! server ([`McpServer`]).
//!
//! Clients and servers support the stateless protocol of 2026-07-28, and older protocols, which start with the request
//! `initialize`.

mod client;
mod error;
#[cfg(feature = "oauth")]
mod oauth;
mod seal;
mod server;

pub use client::{McpClient, McpClientBuilder, McpPrompt, McpQuestion, McpResource, PromptArgument, Protocol};
pub use error::McpError;
#[cfg(feature = "oauth")]
pub use oauth::{McpAuth, McpAuthBuilder};
pub use seal::SealKey;
pub use server::{McpServer, ServedPrompt, ServedResource};
