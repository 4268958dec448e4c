//! Drawings of graphs: Mermaid text, DOT and SVG.

use hier_spec::GraphSpec;

/// The graph as a Mermaid flowchart.
pub fn mermaid(spec: &GraphSpec) -> String {
    let _ = spec;
    String::new()
}

/// The graph in DOT.
pub fn dot(spec: &GraphSpec) -> String {
    let _ = spec;
    String::new()
}

/// The graph as SVG.
pub fn svg(spec: &GraphSpec) -> String {
    let _ = spec;
    String::new()
}
