//! Tests of graphs through the public API, in one program to save links. Tests that change or measure the whole process are
//! separate programs.

mod builder_rules;
mod channels;
mod commands;
mod declared_checkpoints;
mod endless;
mod failures;
mod fan_out;
mod foreign_messages;
mod growth;
mod guards;
mod handle;
mod hooks;
mod identity;
mod joins_and_defer;
mod laws;
mod limits;
mod messages;
mod routes_and_sends;
mod run_faults;
mod run_log;
mod savers;
mod stores;
mod streaming;
mod subgraphs;
#[path = "../support/mod.rs"]
mod support;
mod typed_writes;
mod views;
mod worker_panics;
mod workers;
