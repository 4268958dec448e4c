//! The server over real sockets, as its clients meet it.

mod access;
mod agui;
mod assistants;
mod attacks;
mod batches;
mod crons;
mod databases;
mod graphs;
mod inside;
mod mail;
mod openapi;
mod processes;
mod protocol;
mod recorded;
mod runs;
mod socket;
mod store;
mod streams;
mod studio;
mod support;
mod threads;
mod webhooks;
