//! The tables and functions of the database.

mod changes;
mod claims;
mod commits;
mod reads;
mod rows;
mod tables;

/// The parts of each version, in order, where `{s}` is the schema. A database stores the number of the versions that it
/// has.
pub(super) const VERSIONS: &[&[&str]] =
    &[&[tables::TABLES, rows::ROWS, commits::COMMITS, claims::CLAIMS, changes::CHANGES, reads::READS]];
