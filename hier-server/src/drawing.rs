//! Graphs in the form that clients draw: nodes and edges, with open or closed subgraphs.

use std::borrow::Cow;

use hier_core::spec::{END, EdgeSpec, GraphSpec, START, Source, Target};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of levels of subgraphs that are drawn open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SubgraphDepth {
    #[default]
    Closed,
    Levels(usize),
}

impl SubgraphDepth {
    /// Parses `true`, `false` or a number of levels.
    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "false" | "0" | "" => Some(Self::Closed),
            "true" => Some(Self::Levels(usize::MAX)),
            number => number.parse().ok().map(Self::Levels),
        }
    }

    fn deeper(self) -> Self {
        match self {
            Self::Levels(levels) if levels > 1 => Self::Levels(levels.saturating_sub(1)),
            _ => Self::Closed,
        }
    }
}

impl<'de> Deserialize<'de> for SubgraphDepth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom(format!("`{text}` is neither a boolean nor a number"));
        Self::parse(&text).ok_or_else(wrong)
    }
}

impl Serialize for SubgraphDepth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Closed => serializer.serialize_bool(false),
            Self::Levels(usize::MAX) => serializer.serialize_bool(true),
            Self::Levels(levels) => levels.serialize(serializer),
        }
    }
}

impl JsonSchema for SubgraphDepth {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Xray".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "integer", "minimum": 0 }] })
    }
}

/// A graph in the form that clients draw.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Drawing {
    nodes: Vec<DrawingNode>,
    edges: Vec<DrawingEdge>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DrawingNode {
    id: String,
    /// Absent for the end.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// Absent for the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<DrawingName>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DrawingName {
    name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DrawingEdge {
    source: String,
    target: String,
    /// The name of the choice for which the graph follows this edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// True if the graph follows this edge only for some choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    conditional: Option<bool>,
}

/// Lists the nodes and edges of a graph.
pub(crate) fn drawing(spec: &GraphSpec, depth: SubgraphDepth) -> Drawing {
    let mut drawn = Drawing::default();
    drawn.nodes.push(runnable(START));
    let (first, last) = draw_inside(spec, "", depth, &mut drawn);
    drawn.nodes.push(DrawingNode { id: END.to_owned(), kind: None, data: None });
    for target in first {
        edge(&mut drawn.edges, START, &target.name, target.label.as_deref());
    }
    for source in last {
        edge(&mut drawn.edges, &source.name, END, source.label.as_deref());
    }
    // Edges from the start come first, as in LangGraph.
    drawn.edges.sort_by_key(|edge| edge.source != START);
    drawn
}

/// An end of an edge that leads into a graph or out of it: the node inside the graph, and the label.
#[derive(Clone)]
struct LooseEnd {
    name: String,
    label: Option<String>,
}

/// Draws the inside of a graph. Returns the ends of the edges that enter and leave it.
fn draw_inside(
    spec: &GraphSpec,
    prefix: &str,
    depth: SubgraphDepth,
    drawn: &mut Drawing,
) -> (Vec<LooseEnd>, Vec<LooseEnd>) {
    let mut doors: Vec<(Vec<LooseEnd>, Vec<LooseEnd>)> = Vec::new();
    for node in spec.nodes.iter() {
        let name = format!("{prefix}{}", node.name);
        let nested = node.nested.as_ref().filter(|_| depth != SubgraphDepth::Closed);
        doors.push(if let Some(nested) = nested {
            draw_inside(nested.spec(), &format!("{name}:"), depth.deeper(), drawn)
        } else {
            drawn.nodes.push(runnable(&name));
            let loose = vec![LooseEnd { name, label: None }];
            (loose.clone(), loose)
        });
    }
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (from, to, label) in edges(spec) {
        let labelled = |loose: &LooseEnd| LooseEnd {
            name: loose.name.clone(),
            label: label.clone().or_else(|| loose.label.clone()),
        };
        match (from, to) {
            (Source::Start, Target::Node(node)) => first.extend(doors[node].0.iter().map(labelled)),
            (Source::Node(node), Target::End) => last.extend(doors[node].1.iter().map(labelled)),
            (Source::Node(from), Target::Node(to)) => {
                for source in &doors[from].1 {
                    for target in &doors[to].0 {
                        edge(&mut drawn.edges, &source.name, &target.name, label.as_deref());
                    }
                }
            }
            (Source::Start, Target::End) => {}
        }
    }
    (first, last)
}

/// Lists the edges of a graph, including the edges of commands. An edge that depends on a choice has a label.
fn edges(spec: &GraphSpec) -> Vec<(Source, Target, Option<String>)> {
    let mut list: Vec<(Source, Target, Option<String>)> = Vec::new();
    for edge in spec.edges.iter() {
        match edge {
            EdgeSpec::Plain { from, to } => list.push((*from, *to, None)),
            EdgeSpec::Join { from, to } => list.extend(from.iter().map(|from| (Source::Node(*from), *to, None))),
            EdgeSpec::Route { from, arms, .. } => {
                for arm in arms.iter() {
                    list.extend(arm.to.iter().map(|to| (*from, to.target(), Some(arm.label.to_string()))));
                }
            }
        }
    }
    for (index, node) in spec.nodes.iter().enumerate() {
        if let hier_core::spec::Goto::Only(targets) = &node.goto {
            list.extend(targets.iter().map(|target| (Source::Node(index), *target, Some(String::new()))));
        }
    }
    let mut seen = std::collections::HashSet::new();
    list.retain(|(from, to, _)| seen.insert((*from, *to)));
    list
}

fn runnable(name: &str) -> DrawingNode {
    DrawingNode { id: name.to_owned(), kind: Some("runnable"), data: Some(DrawingName { name: name.to_owned() }) }
}

fn edge(edges: &mut Vec<DrawingEdge>, source: &str, target: &str, label: Option<&str>) {
    let data = label.filter(|label| !label.is_empty()).map(str::to_owned);
    let conditional = label.map(|_| true);
    edges.push(DrawingEdge { source: source.to_owned(), target: target.to_owned(), data, conditional });
}
