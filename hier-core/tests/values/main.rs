//! A value survives every path unchanged, or it is refused when it is first written, by the name of its channel.

#![allow(clippy::option_option)] // such types are tested

mod animals;
mod keys;
mod panics;
mod paths;
mod refused;
mod unreadable;
