//! Durable threads through the public API: what is stored when, what is run again and what is not, what is asked and
//! answered, how a thread goes back in time, and how it is read by another program than the one that wrote it.

mod answered;
mod answers;
mod breakpoints;
mod committing;
mod conversations;
mod crashes;
mod due;
mod erased;
mod faulty;
mod fencing;
mod golden;
mod handlers;
mod hooked;
mod inbox;
mod interrupts;
mod kept;
mod kit;
mod laws;
mod letters;
mod modes;
mod nested;
mod own_parts;
mod panicking;
mod pending;
mod positions;
mod properties;
mod redeployed;
mod reducers;
mod refused;
mod retention;
mod sizes;
mod snapshots;
mod step_failures;
mod steps;
mod streaming;
mod subgraphs;
mod sweeping;
mod travel;

mod updates;
mod versions;
