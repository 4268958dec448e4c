//! Runs graphs through a real Restate server: `scripts/restate.sh with cargo test -p hier-restate`. Without one only `refused` runs.

mod conformance;
mod kept;
mod kills;
mod limits;
mod loops;
mod places;
mod refused;
mod runs;
mod served;
mod speed;
mod support;
mod versions;
