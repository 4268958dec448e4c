//! All words of the macros' languages, each defined once.

mod graph;
mod layers;
mod question;
mod state;
mod tool;

pub(crate) use graph::*;
pub(crate) use layers::*;
pub(crate) use question::*;
pub(crate) use state::*;
pub(crate) use tool::*;
