//! Runs graphs through a real Restate server: `scripts/restate.sh with cargo test -p hier-restate`. Without one nothing runs.

mod conformance;
mod kept;
mod kills;
mod limits;
mod loops;
mod places;
mod runs;
mod served;
mod speed;
mod support;
mod versions;
