//! The server over real sockets, as its clients meet it.

mod access;
mod agui;
mod assistants;
mod attacks;
mod batches;
mod bounds;
mod crons;
mod databases;
mod effects;
mod graphs;
mod inside;
mod lives;
mod mail;
mod openapi;
mod processes;
mod protocol;
mod recorded;
mod rights;
mod runs;
mod socket;
mod store;
mod streams;
mod studio;
mod support;
mod threads;
mod webhooks;
