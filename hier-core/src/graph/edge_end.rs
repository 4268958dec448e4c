//! The ends of edges of graphs that are built at run time.

use hier_spec::Source;

use crate::engine::program::{End, Start};

/// The source or the target of an edge in a graph that is built at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeEnd {
    /// The start of the graph.
    Start,
    /// The end of the graph.
    End,
    /// The node with this name.
    Node(String),
}

impl From<Start> for EdgeEnd {
    fn from(_: Start) -> Self {
        Self::Start
    }
}

impl From<End> for EdgeEnd {
    fn from(_: End) -> Self {
        Self::End
    }
}

impl From<&str> for EdgeEnd {
    /// Accepts the names that START and END have in events.
    fn from(name: &str) -> Self {
        match name {
            hier_spec::START => Self::Start,
            hier_spec::END => Self::End,
            _ => Self::Node(name.to_owned()),
        }
    }
}

impl From<String> for EdgeEnd {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<&String> for EdgeEnd {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

pub(crate) fn source(place: &EdgeEnd, node: impl FnOnce(&EdgeEnd) -> Result<usize, String>) -> Result<Source, String> {
    match place {
        EdgeEnd::Start => Ok(Source::Start),
        EdgeEnd::End => Err("an edge cannot start at END".to_owned()),
        EdgeEnd::Node(_) => node(place).map(Source::Node),
    }
}
