//! The model of a drawing: a graph and the graphs inside it, as one list of nodes, edges and frames.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use hier_spec::{END, EdgeSpec, Goto, GraphSpec, NodeSpec, START, Source, Target};

/// An option of a node, as `(key, value)`.
pub(super) type Note = (&'static str, Cow<'static, str>);

/// A node of the drawing.
#[derive(Debug)]
pub(super) struct Node {
    /// The name as the user wrote it, `__start__` or `__end__`.
    pub(super) name: String,
    /// The names of the frames around it and its own, from the outside in.
    pub(super) path: Vec<String>,
    /// The innermost frame around it.
    pub(super) frame: Option<usize>,
    /// Its options, as `(key, value)`.
    pub(super) notes: Vec<Note>,
    /// Whether it runs a graph that is not opened.
    pub(super) closed: bool,
    kept: bool,
}

impl Node {
    /// Whether this is the START or the END of a graph and not a node of it.
    pub(super) fn is_terminal(&self) -> bool {
        self.name == START || self.name == END
    }

    /// The name for pictures.
    pub(super) fn shown(&self) -> &str {
        match &*self.name {
            START => "START",
            END => "END",
            name => name,
        }
    }
}

/// The label of a node option.
pub(super) fn remark((key, value): &Note) -> String {
    match *key {
        "defer" => "deferred".to_owned(),
        key => format!("{} {value}", key.trim_start_matches('_')),
    }
}

/// An edge of the drawing, by the indices of its nodes.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether a function or a command chooses it.
    pub(super) conditional: bool,
    pub(super) label: Option<String>,
}

/// A graph inside another one.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) name: String,
    /// The names of the frames around it and its own, from the outside in.
    pub(super) path: Vec<String>,
    /// The innermost frame around it.
    pub(super) parent: Option<usize>,
    /// The options of the node that runs the graph.
    pub(super) notes: Vec<Note>,
}

/// A graph, ready to be drawn. A frame comes after the frames around it.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    pub(super) frames: Vec<Frame>,
}

impl Picture {
    /// The only node without a predecessor, if there is one.
    pub(super) fn first(&self) -> Option<usize> {
        self.only_without(0, |edge| edge.to, |_| true)
    }

    /// The only node without a successor, if there is one.
    pub(super) fn last(&self) -> Option<usize> {
        self.only_without(0, |edge| edge.from, |_| true)
    }

    /// The only node from `base` on that is not at this end of any edge that counts.
    fn only_without(&self, base: usize, end: fn(&Edge) -> usize, counts: impl Fn(&Edge) -> bool) -> Option<usize> {
        let taken: BTreeSet<usize> = self.edges.iter().filter(|edge| counts(edge)).map(end).collect();
        let mut free = (base..self.nodes.len()).filter(|node| self.nodes[*node].kept && !taken.contains(node));
        let found = free.next();
        if free.next().is_some() { None } else { found }
    }

    /// The frames around a place, from the inside out.
    pub(super) fn around(&self, frame: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(frame, |frame| self.frames[*frame].parent)
    }

    /// The innermost frame around both ends of an edge.
    pub(super) fn frame_of(&self, edge: &Edge) -> Option<usize> {
        let from: Vec<usize> = self.around(self.nodes[edge.from].frame).collect();
        self.around(self.nodes[edge.to].frame).find(|frame| from.contains(frame))
    }
}

/// Says which of the graphs inside are opened, by the paths of their nodes.
pub(super) type Open<'a> = &'a dyn Fn(&[String]) -> bool;

/// The graph and the graphs inside it that are opened.
pub(super) fn picture(spec: &GraphSpec, open: Open<'_>) -> Picture {
    let mut picture = Picture::default();
    add_graph(&mut picture, spec, None, open);
    compact(picture)
}

/// Adds a graph inside a frame. Returns its START, and its END if anything leads there.
fn add_graph(picture: &mut Picture, spec: &GraphSpec, frame: Option<usize>, open: Open<'_>) -> (usize, Option<usize>) {
    let lines = lines(spec);
    let start = add_node(picture, START, frame, Vec::new());
    for (index, node) in spec.nodes.iter().enumerate() {
        add_node(picture, &node.name, frame, notes(spec, index, node));
    }
    let end = lines.iter().any(|line| line.to == Target::End).then(|| add_node(picture, END, frame, Vec::new()));
    let source = |from| match from {
        Source::Start => start,
        Source::Node(node) => start + 1 + node,
    };
    for Line { from, to, conditional, label } in lines {
        let to = match (to, end) {
            (Target::Node(node), _) => start + 1 + node,
            (Target::End, Some(end)) => end,
            (Target::End, None) => continue,
        };
        picture.edges.push(Edge { from: source(from), to, conditional, label });
    }
    for (index, node) in spec.nodes.iter().enumerate() {
        if let Some(nested) = &node.nested {
            expand(picture, start + 1 + index, nested.spec(), open);
        }
    }
    (start, end)
}

fn add_node(picture: &mut Picture, name: &str, frame: Option<usize>, notes: Vec<Note>) -> usize {
    let path = inside(picture, frame, name);
    picture.nodes.push(Node { name: name.to_owned(), path, frame, notes, closed: false, kept: true });
    picture.nodes.len() - 1
}

fn inside(picture: &Picture, frame: Option<usize>, name: &str) -> Vec<String> {
    let mut path = frame.map_or_else(Vec::new, |frame| picture.frames[frame].path.clone());
    path.push(name.to_owned());
    path
}

/// Puts the graph that a node runs in the node's place, if it is opened.
fn expand(picture: &mut Picture, node: usize, spec: &GraphSpec, open: Open<'_>) {
    if !open(&picture.nodes[node].path) {
        picture.nodes[node].closed = true;
        return;
    }
    let before = (picture.nodes.len(), picture.edges.len(), picture.frames.len());
    let (name, parent, notes) =
        (picture.nodes[node].name.clone(), picture.nodes[node].frame, picture.nodes[node].notes.clone());
    let path = inside(picture, parent, &name);
    picture.frames.push(Frame { name, path, parent, notes });
    let (start, end) = add_graph(picture, spec, Some(before.2), open);
    let Some(end) = end.filter(|_| !spec.nodes.is_empty()) else {
        picture.nodes.truncate(before.0);
        picture.edges.truncate(before.1);
        picture.frames.truncate(before.2);
        return;
    };
    let entry = trim(picture, before.0, start, |edge| edge.from, |edge| edge.to);
    let exit = trim(picture, before.0, end, |edge| edge.to, |edge| edge.from);
    picture.nodes[node].kept = false;
    for edge in &mut picture.edges[..before.1] {
        if edge.from == node {
            edge.from = exit;
        }
        if edge.to == node {
            edge.to = entry;
        }
    }
}

/// Leaves out a START or END of the graph from `base` on, if another node takes its place. Returns what stands there.
fn trim(
    picture: &mut Picture,
    base: usize,
    terminal: usize,
    near: fn(&Edge) -> usize,
    far: fn(&Edge) -> usize,
) -> usize {
    let mut next = picture.edges.iter().filter(|edge| near(edge) == terminal).map(far);
    let (Some(next), None) = (next.next(), next.next()) else { return terminal };
    picture.nodes[terminal].kept = false;
    if picture.only_without(base, far, |edge| near(edge) != terminal) != Some(next) {
        picture.nodes[terminal].kept = true;
        return terminal;
    }
    picture.edges.retain(|edge| near(edge) != terminal);
    next
}

/// Drops the nodes that are not drawn.
fn compact(mut picture: Picture) -> Picture {
    let mut place = Vec::with_capacity(picture.nodes.len());
    let mut next = 0;
    for node in &picture.nodes {
        place.push(next);
        next += usize::from(node.kept);
    }
    picture.nodes.retain(|node| node.kept);
    for edge in &mut picture.edges {
        (edge.from, edge.to) = (place[edge.from], place[edge.to]);
    }
    picture
}

fn notes(spec: &GraphSpec, index: usize, node: &NodeSpec) -> Vec<Note> {
    let mut notes = Vec::new();
    if node.defer {
        notes.push(("defer", "True".into())); // as the reference writes it
    }
    match (spec.interrupt_before.contains(&index), spec.interrupt_after.contains(&index)) {
        (true, true) => notes.push(("__interrupt", "before,after".into())),
        (true, false) => notes.push(("__interrupt", "before".into())),
        (false, true) => notes.push(("__interrupt", "after".into())),
        (false, false) => {}
    }
    if !node.layers.is_empty() {
        // A call goes through them from the first to the last.
        notes.push(("layers", node.layers.join(", ").into()));
    }
    notes
}

/// An edge of one graph.
struct Line {
    from: Source,
    to: Target,
    conditional: bool,
    label: Option<String>,
}

/// The connection from one place to another.
#[derive(Default)]
struct Way {
    always: bool,
    labels: BTreeSet<String>,
}

/// The edges of one graph, in the order of the reference: by the names of their ends, those that always end the run last.
fn lines(spec: &GraphSpec) -> Vec<Line> {
    let ways = ways(spec);
    let sources: BTreeSet<Source> = ways.keys().map(|(from, _)| *from).collect();
    let stuck: BTreeSet<Source> =
        ways.keys().filter_map(|(_, to)| as_source(*to)).filter(|node| !sources.contains(node)).collect();
    let mut lines: Vec<Line> = ways.into_iter().map(|((from, to), way)| line(spec, from, to, way)).collect();
    lines.extend(stuck.into_iter().map(|from| Line { from, to: Target::End, conditional: false, label: None }));
    lines.sort_by_key(|line| {
        let ends = line.to == Target::End && !line.conditional;
        (ends, spec.source_name(line.from).to_owned(), spec.target_name(line.to).to_owned())
    });
    lines
}

fn line(spec: &GraphSpec, from: Source, to: Target, way: Way) -> Line {
    let name = spec.target_name(to);
    let told = !way.always && way.labels.iter().any(|label| label != name);
    let label = told.then(|| Vec::from_iter(way.labels).join(", "));
    Line { from, to, conditional: !way.always, label }
}

/// Everything that leads from one place to another. Indices that the graph does not have are left out.
fn ways(spec: &GraphSpec) -> BTreeMap<(Source, Target), Way> {
    let mut ways = BTreeMap::new();
    let mut add = |from: Source, to: Target, always: bool, label: Option<&str>| {
        let known = |node: Option<Source>| !matches!(node, Some(Source::Node(node)) if node >= spec.nodes.len());
        if known(Some(from)) && known(as_source(to)) {
            let way: &mut Way = ways.entry((from, to)).or_default();
            way.always |= always;
            way.labels.extend(label.map(str::to_owned));
        }
    };
    for edge in spec.edges.iter() {
        match edge {
            EdgeSpec::Plain { from, to } => add(*from, *to, true, None),
            EdgeSpec::Join { from, to } => from.iter().for_each(|from| add(Source::Node(*from), *to, true, None)),
            EdgeSpec::Route { from, arms, .. } => {
                for arm in arms.iter() {
                    arm.to.iter().for_each(|to| add(*from, to.target(), false, Some(&arm.label)));
                }
            }
        }
    }
    for (index, node) in spec.nodes.iter().enumerate() {
        if let Goto::Only(targets) = &node.goto {
            targets.iter().for_each(|to| add(Source::Node(index), *to, false, None));
        }
    }
    ways
}

/// The place as one where edges start, unless it is END.
fn as_source(to: Target) -> Option<Source> {
    match to {
        Target::End => None,
        Target::Node(node) => Some(Source::Node(node)),
    }
}
