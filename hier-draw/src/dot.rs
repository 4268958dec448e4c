use std::fmt::Write;

use super::model::{DrawnEdge, DrawnNode, Note, Picture, remark};

/// The colors equal those of the Mermaid drawing.
const STYLE: &str = "    node [shape=box, style=\"rounded,filled\", fillcolor=\"#f2f0ff\", fontname=\"Helvetica\"];\n    \
    edge [fontname=\"Helvetica\", fontsize=11];\n";
const START_OR_END: &str = "shape=oval, style=filled, fillcolor=\"#bfb6fc\"";

pub(super) fn draw(picture: &Picture, name: &str) -> String {
    let mut text = format!("digraph {} {{\n{STYLE}", quoted(name));
    frame(picture, None, 1, &mut text);
    for edge in &picture.edges {
        draw_edge(picture, edge, &mut text);
    }
    text.push_str("}\n");
    text
}

/// Writes the nodes and frames that are directly in a frame. Writing to a string cannot fail.
fn frame(picture: &Picture, frame: Option<usize>, depth: usize, text: &mut String) {
    let indent = "    ".repeat(depth);
    for node in picture.nodes.iter().filter(|node| node.frame == frame) {
        let label = with_notes(&node.name, &node.notes);
        let style = if node.is_terminal() { format!(", {START_OR_END}") } else { String::new() };
        let flow = node.flow.join("\n");
        let tooltip = if flow.is_empty() { String::new() } else { format!(", tooltip={}", quoted(&flow)) };
        let _ = writeln!(text, "{indent}{} [label={}{style}{tooltip}];", id(node), quoted(&label));
    }
    for (index, child) in picture.frames.iter().enumerate().filter(|(_, child)| child.parent == frame) {
        let _ = writeln!(text, "{indent}subgraph cluster_{index} {{");
        let _ = writeln!(text, "{indent}    label={};", quoted(&with_notes(&child.name, &child.notes)));
        self::frame(picture, Some(index), depth + 1, text);
        let _ = writeln!(text, "{indent}}}");
    }
}

fn draw_edge(picture: &Picture, edge: &DrawnEdge, text: &mut String) {
    let style = match (&edge.label, edge.conditional) {
        (Some(label), true) => format!(" [style=dashed, label={}]", quoted(label)),
        (Some(label), false) => format!(" [label={}]", quoted(label)),
        (None, true) => " [style=dashed]".to_owned(),
        (None, false) => String::new(),
    };
    let [from, to] = [edge.from, edge.to].map(|node| id(&picture.nodes[node]));
    let _ = writeln!(text, "    {from} -> {to}{style};");
}

fn with_notes(name: &str, notes: &[Note]) -> String {
    let lines: Vec<String> = notes.iter().map(|note| format!("\n{}", remark(note))).collect();
    format!("{name}{}", lines.concat())
}

fn id(node: &DrawnNode) -> String {
    quoted(&node.path.join(":"))
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{}\"", text.replace(char::is_control, " "))
}
