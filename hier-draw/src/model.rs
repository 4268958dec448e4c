//! The model of a drawing: a graph and its nested graphs, as one list of nodes, edges and frames.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use hier_spec::flow::NodeChannels;
use hier_spec::{END, EdgeSpec, Goto, GraphSpec, NodeSpec, START, Source, Target};

pub(super) type Note = (&'static str, Cow<'static, str>);

#[derive(Debug)]
pub(super) struct DrawnNode {
    /// The name of the node, or `__start__` or `__end__`.
    pub(super) name: String,
    /// The names of the surrounding frames, from the outside in, and the name of the node.
    pub(super) path: Vec<String>,
    /// The innermost frame around the node.
    pub(super) frame: Option<usize>,
    pub(super) notes: Vec<Note>,
    /// The channels that the node reads and writes, as far as its type shows them: at most two lines.
    pub(super) flow: Vec<String>,
    /// True if the node runs a graph that is not opened.
    pub(super) closed: bool,
    kept: bool,
}

impl DrawnNode {
    pub(super) fn is_terminal(&self) -> bool {
        self.name == START || self.name == END
    }

    pub(super) fn shown(&self) -> &str {
        match &*self.name {
            START => "START",
            END => "END",
            name => name,
        }
    }
}

pub(super) fn remark((key, value): &Note) -> String {
    match *key {
        "defer" => "deferred".to_owned(),
        key => format!("{} {value}", key.trim_start_matches('_')),
    }
}

/// An edge between two nodes, given by their indices.
#[derive(Debug)]
pub(super) struct DrawnEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// True if a function or a command chooses the edge at run time.
    pub(super) conditional: bool,
    pub(super) label: Option<String>,
}

/// A nested graph.
#[derive(Debug)]
pub(super) struct DrawnFrame {
    pub(super) name: String,
    /// The names of the surrounding frames, from the outside in, and the name of this frame.
    pub(super) path: Vec<String>,
    /// The innermost frame around this frame.
    pub(super) parent: Option<usize>,
    /// The options of the node that runs the graph.
    pub(super) notes: Vec<Note>,
}

/// A graph with its nested graphs. A nested frame follows its outer frames in the list.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pub(super) nodes: Vec<DrawnNode>,
    pub(super) edges: Vec<DrawnEdge>,
    pub(super) frames: Vec<DrawnFrame>,
}

impl Picture {
    /// Returns the node without a predecessor, if there is exactly one.
    pub(super) fn first(&self) -> Option<usize> {
        self.only_without(0, |edge| edge.to, |_| true)
    }

    /// Returns the node without a successor, if there is exactly one.
    pub(super) fn last(&self) -> Option<usize> {
        self.only_without(0, |edge| edge.from, |_| true)
    }

    /// Returns the only node that is not the `end` of an edge for which `counts` returns true. Ignores nodes before
    /// `base`. Returns `None` if there are several such nodes.
    fn only_without(
        &self,
        base: usize,
        end: fn(&DrawnEdge) -> usize,
        counts: impl Fn(&DrawnEdge) -> bool,
    ) -> Option<usize> {
        let taken: BTreeSet<usize> = self.edges.iter().filter(|edge| counts(edge)).map(end).collect();
        let mut free = (base..self.nodes.len()).filter(|node| self.nodes[*node].kept && !taken.contains(node));
        let found = free.next();
        if free.next().is_some() { None } else { found }
    }

    /// Returns a frame and its outer frames, from the inside out.
    pub(super) fn around(&self, frame: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(frame, |frame| self.frames[*frame].parent)
    }

    /// Returns the innermost frame around both ends of an edge.
    pub(super) fn frame_of(&self, edge: &DrawnEdge) -> Option<usize> {
        let from: Vec<usize> = self.around(self.nodes[edge.from].frame).collect();
        self.around(self.nodes[edge.to].frame).find(|frame| from.contains(frame))
    }
}

/// A function that receives the path of a node with a nested graph. It returns true to open the nested graph.
pub(super) type Open<'a> = &'a dyn Fn(&[String]) -> bool;

pub(super) fn picture(spec: &GraphSpec, open: Open<'_>) -> Picture {
    let mut picture = Picture::default();
    add_graph(&mut picture, spec, None, open);
    compact(picture)
}

/// Adds a graph inside a frame. Returns the START of the graph, and its END if an edge leads to END.
fn add_graph(picture: &mut Picture, spec: &GraphSpec, frame: Option<usize>, open: Open<'_>) -> (usize, Option<usize>) {
    let lines = lines(spec);
    let start = add_node(picture, START, frame, Vec::new());
    for (index, node) in spec.nodes.iter().enumerate() {
        let drawn = add_node(picture, &node.name, frame, notes(spec, index, node));
        picture.nodes[drawn].flow = flow(node);
    }
    let end = lines.iter().any(|line| line.to == Target::End).then(|| add_node(picture, END, frame, Vec::new()));
    let source = |from| match from {
        Source::Start => start,
        Source::Node(node) => start + 1 + node,
    };
    for GraphEdge { from, to, conditional, label } in lines {
        let to = match (to, end) {
            (Target::Node(node), _) => start + 1 + node,
            (Target::End, Some(end)) => end,
            (Target::End, None) => continue,
        };
        picture.edges.push(DrawnEdge { from: source(from), to, conditional, label });
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
    picture.nodes.push(DrawnNode {
        name: name.to_owned(),
        path,
        frame,
        notes,
        flow: Vec::new(),
        closed: false,
        kept: true,
    });
    picture.nodes.len() - 1
}

fn inside(picture: &Picture, frame: Option<usize>, name: &str) -> Vec<String> {
    let mut path = frame.map_or_else(Vec::new, |frame| picture.frames[frame].path.clone());
    path.push(name.to_owned());
    path
}

/// Replaces a node by the graph that the node runs, if that graph is opened and an edge of it leads to END.
fn expand(picture: &mut Picture, node: usize, spec: &GraphSpec, open: Open<'_>) {
    if !open(&picture.nodes[node].path) {
        picture.nodes[node].closed = true;
        return;
    }
    let before = (picture.nodes.len(), picture.edges.len(), picture.frames.len());
    let (name, parent, notes) =
        (picture.nodes[node].name.clone(), picture.nodes[node].frame, picture.nodes[node].notes.clone());
    let path = inside(picture, parent, &name);
    picture.frames.push(DrawnFrame { name, path, parent, notes });
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

/// Omits the START or END of a nested graph, whose nodes begin at `base`, if another node can replace this terminal.
/// Returns the node to which the edges of the outer graph are connected.
fn trim(
    picture: &mut Picture,
    base: usize,
    terminal: usize,
    near: fn(&DrawnEdge) -> usize,
    far: fn(&DrawnEdge) -> usize,
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

/// Returns the lines of a node's tooltip.
fn flow(node: &NodeSpec) -> Vec<String> {
    let NodeChannels { reads, writes } = node.flow.map(|flow| flow.channels()).unwrap_or_default();
    let lines = [("reads", reads), ("writes", writes)].into_iter().filter_map(|(verb, channels)| {
        let channels = channels.filter(|channels| !channels.is_empty())?;
        Some(format!("{verb} {}", channels.join(", ")))
    });
    lines.collect()
}

fn notes(spec: &GraphSpec, index: usize, node: &NodeSpec) -> Vec<Note> {
    let mut notes = Vec::new();
    if node.defer {
        notes.push(("defer", "True".into())); // LangGraph's spelling
    }
    match (spec.interrupt_before.contains(&index), spec.interrupt_after.contains(&index)) {
        (true, true) => notes.push(("__interrupt", "before,after".into())),
        (true, false) => notes.push(("__interrupt", "before".into())),
        (false, true) => notes.push(("__interrupt", "after".into())),
        (false, false) => {}
    }
    if !node.layers.is_empty() {
        notes.push(("layers", node.layers.join(", ").into()));
    }
    notes
}

struct GraphEdge {
    from: Source,
    to: Target,
    conditional: bool,
    label: Option<String>,
}

#[derive(Default)]
struct MergedEdges {
    always: bool,
    labels: BTreeSet<String>,
}

/// Returns the edges of one graph in LangGraph's order: sorted by the names of their ends, with unconditional edges to
/// END last. A node without outgoing edges gets an edge to END.
fn lines(spec: &GraphSpec) -> Vec<GraphEdge> {
    let connections = connections(spec);
    let sources: BTreeSet<Source> = connections.keys().map(|(from, _)| *from).collect();
    let stuck: BTreeSet<Source> =
        connections.keys().filter_map(|(_, to)| as_source(*to)).filter(|node| !sources.contains(node)).collect();
    let mut lines: Vec<GraphEdge> =
        connections.into_iter().map(|((from, to), way)| line(spec, from, to, way)).collect();
    lines.extend(stuck.into_iter().map(|from| GraphEdge { from, to: Target::End, conditional: false, label: None }));
    lines.sort_by_key(|line| {
        let ends = line.to == Target::End && !line.conditional;
        (ends, spec.source_name(line.from).to_owned(), spec.target_name(line.to).to_owned())
    });
    lines
}

fn line(spec: &GraphSpec, from: Source, to: Target, way: MergedEdges) -> GraphEdge {
    let name = spec.target_name(to);
    let is_labelled = !way.always && way.labels.iter().any(|label| label != name);
    let label = is_labelled.then(|| Vec::from_iter(way.labels).join(", "));
    GraphEdge { from, to, conditional: !way.always, label }
}

/// Merges the edges between each two nodes. Ignores edges with invalid indices.
fn connections(spec: &GraphSpec) -> BTreeMap<(Source, Target), MergedEdges> {
    let mut connections = BTreeMap::new();
    let mut add = |from: Source, to: Target, always: bool, label: Option<&str>| {
        let known = |node: Option<Source>| !matches!(node, Some(Source::Node(node)) if node >= spec.nodes.len());
        if known(Some(from)) && known(as_source(to)) {
            let way: &mut MergedEdges = connections.entry((from, to)).or_default();
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
    connections
}

fn as_source(to: Target) -> Option<Source> {
    match to {
        Target::End => None,
        Target::Node(node) => Some(Source::Node(node)),
    }
}
