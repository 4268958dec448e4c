//! The server over real sockets, as its clients meet it.

mod access;
mod assistants;
mod graphs;
mod protocol;
mod runs;
mod store;
mod streams;
mod support;
mod threads;
