//! What graphs do, by the public API. One program: each costs a link, and a second of its own before its tests begin. What decides
//! something for all threads of a process, or measures it, is a program of its own.

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
mod savers;
mod stores;
mod streaming;
mod subgraphs;
mod typed_writes;
mod views;
mod worker_panics;
mod workers;
