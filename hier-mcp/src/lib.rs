//! The Model Context Protocol for hier: the tools of MCP servers in agents ([`Client`]), and graphs as tools of an MCP server
//! ([`Server`]).
//!
//! Both speak the protocol of 2026-07-28, in which a request stands for itself, and the older ones, which begin with `initialize`.

mod client;
mod error;
mod server;

pub use client::{Client, ClientBuilder, Prompt, PromptArgument, Protocol, Question, Resource};
pub use error::McpError;
pub use server::{SealKey, Server};
