//! Mermaid text in LangGraph's format.
//!
//! The output differs where LangGraph's output is not valid Mermaid: brackets and quotes in labels, two frames with the
//! same name, and a node with the name `end`.

use std::collections::HashSet;
use std::fmt::Write;

use super::model::{DrawnEdge, DrawnNode, Picture};

const HEAD: &str = "---\nconfig:\n  flowchart:\n    curve: linear\n---\ngraph TD;\n";
const TAIL: &str =
    "\tclassDef default fill:#f2f0ff,line-height:1.2\n\tclassDef first fill-opacity:0\n\tclassDef last fill:#bfb6fc\n";

/// Maximum number of words in a line of an edge label.
const WORDS_A_LINE: usize = 9;

pub(super) fn draw(picture: &Picture) -> String {
    let mut pen =
        Pen { picture, first: picture.first(), last: picture.last(), text: HEAD.to_owned(), names: HashSet::new() };
    pen.frame(None);
    pen.text.push_str(TAIL);
    pen.text
}

struct Pen<'a> {
    picture: &'a Picture,
    first: Option<usize>,
    last: Option<usize>,
    text: String,
    names: HashSet<&'a str>,
}

impl Pen<'_> {
    /// Draws a frame, or the whole graph: its nodes, its edges, and then, in the order of the edges, the nested frames
    /// and the edges from nodes to themselves.
    fn frame(&mut self, frame: Option<usize>) {
        let picture = self.picture;
        if let Some(frame) = frame {
            self.open(frame);
        }
        for (index, node) in picture.nodes.iter().enumerate().filter(|(_, node)| node.frame == frame) {
            self.node(index, node);
        }
        for edge in picture.edges.iter().filter(|edge| edge.from != edge.to && picture.frame_of(edge) == frame) {
            self.edge(edge);
        }
        let mut drawn = HashSet::new();
        for edge in &picture.edges {
            let place = picture.frame_of(edge);
            if edge.from == edge.to && place == frame {
                self.edge(edge);
            }
            if let Some(child) = picture.around(place).find(|place| picture.frames[*place].parent == frame)
                && drawn.insert(child)
            {
                self.frame(Some(child));
            }
        }
        for child in (0..picture.frames.len()).filter(|child| picture.frames[*child].parent == frame) {
            if drawn.insert(child) {
                self.frame(Some(child)); // a frame without edges in it
            }
        }
        if frame.is_some() {
            self.text.push_str("\tend\n");
        }
    }

    fn open(&mut self, frame: usize) {
        let frame = &self.picture.frames[frame];
        // The name of a frame is also its id, which must differ from the ids of other frames and nodes.
        let alone = [frame.name.clone()];
        let free = frame.path == alone
            || !self
                .picture
                .nodes
                .iter()
                .map(|node| &node.path)
                .chain(self.picture.frames.iter().map(|frame| &frame.path))
                .any(|path| *path == alone);
        let line = if is_plain(&frame.name) && free && self.names.insert(&frame.name) {
            format!("\tsubgraph {}\n", frame.name)
        } else {
            format!("\tsubgraph {}[\"{}\"]\n", escaped_id(&frame.path, FRAME_WORDS), escape(&frame.name))
        };
        self.text.push_str(&line);
    }

    fn node(&mut self, index: usize, node: &DrawnNode) {
        let marked = |c: char| matches!(c, '*' | '_' | '`');
        let mut label = escape(&node.name);
        if node.name.starts_with(marked) && node.name.ends_with(marked) {
            label = format!("<p>{label}</p>"); // else it would be read as Markdown
        }
        if !node.notes.is_empty() {
            let notes: Vec<String> =
                node.notes.iter().map(|(key, value)| format!("{key} = {}", escape(value))).collect();
            label = format!("{label}<hr/><small><em>{}</em></small>", notes.join("\n"));
        }
        let id = id(&node.path);
        let line = match index {
            _ if self.first == Some(index) => format!("\t{id}([{label}]):::first\n"),
            _ if self.last == Some(index) => format!("\t{id}([{label}]):::last\n"),
            _ => format!("\t{id}({label})\n"),
        };
        self.text.push_str(&line);
    }

    fn edge(&mut self, edge: &DrawnEdge) {
        let arrow = match (&edge.label, edge.conditional) {
            (Some(label), true) => format!("-. &nbsp;{}&nbsp; .->", broken(label)),
            (Some(label), false) => format!("-- &nbsp;{}&nbsp; -->", broken(label)),
            (None, true) => "-.->".to_owned(),
            (None, false) => "-->".to_owned(),
        };
        let [from, to] = [edge.from, edge.to].map(|node| id(&self.picture.nodes[node].path));
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "\t{from} {arrow} {to};");
    }
}

/// Breaks a label into lines of at most [`WORDS_A_LINE`] words.
fn broken(label: &str) -> String {
    let words: Vec<&str> = label.split_whitespace().collect();
    let lines: Vec<String> = words.chunks(WORDS_A_LINE).map(|line| escape(&line.join(" "))).collect();
    // Mermaid could read a dot as the end of the arrow.
    let lines: Vec<String> = lines.into_iter().map(|line| line.replace('.', "#46;")).collect();
    lines.join("&nbsp<br>&nbsp")
}

/// Words that Mermaid does not accept as a name. Mermaid also rejects a name that begins with such a word, unless a
/// letter, a digit or `_` follows the word.
const WORDS: &[&str] = &[
    "_blank",
    "_parent",
    "_self",
    "_top",
    "call",
    "class",
    "classDef",
    "end",
    "flowchart",
    "graph",
    "href",
    "interpolate",
    "linkStyle",
    "style",
    "subgraph",
];
/// Further words that Mermaid does not accept as the name of a frame.
const FRAME_WORDS: &[&str] = &["click", "default"];

/// Returns true if a frame can have this name unchanged.
fn is_plain(name: &str) -> bool {
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    letters && !name.is_empty() && !WORDS.contains(&name) && !FRAME_WORDS.contains(&name)
}

/// Returns the id of a node or frame. A character that Mermaid does not accept at its position becomes a backslash and
/// the hexadecimal code of the character.
fn id(path: &[String]) -> String {
    escaped_id(path, &[])
}

fn escaped_id(path: &[String], words: &[&str]) -> String {
    let name = path.join(":");
    let first = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let word = WORDS.contains(&first) || words.contains(&first);
    let mut id = String::with_capacity(name.len());
    let mut before = None;
    for c in name.chars() {
        let reserved = before.is_none() && word || before == Some('-') && c == '-';
        if (c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) && !reserved {
            id.push(c);
        } else {
            let _ = write!(id, "\\{:x}", u32::from(c));
        }
        before = Some(c);
    }
    id
}

/// Replaces the characters of Mermaid's syntax by entities.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (index, c) in text.chars().enumerate() {
        match c {
            '"' => escaped.push_str("#quot;"),
            '#' | '&' | '[' | ']' | '(' | ')' | '{' | '}' | '<' | '>' | '|' | '@' => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
            '-' if index == 0 => escaped.push_str("#45;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
