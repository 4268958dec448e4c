//! Runs graphs through a real Restate server: `scripts/peers.sh cluster`.

mod conformance;
mod events;
mod kept;
mod kills;
mod limits;
mod loops;
mod operators;
mod places;
mod races;
mod refused;
mod remote;
mod repeats;
mod runs;
mod served;
mod speed;
mod support;
mod versions;
