//! Positions the nodes and edges of a drawing.

use super::model::{DrawnEdge, Picture};
use super::rank::{Grid, RankedEdge, rank};

pub(super) const NODE_FONT: f64 = 14.;
pub(super) const EDGE_FONT: f64 = 12.;
/// The distance between lines of text, in font sizes.
pub(super) const LINE: f64 = 1.25;
/// The width of an edge from a node to itself.
const BOW: f64 = 30.;
/// The space between the items of a row, and between rows. Nested frames add to it.
const GAP: Point = Point { x: 30., y: 52. };
const FRAME_GAP: f64 = 40.;
/// The number of passes that align the rows.
const SWEEPS: usize = 24;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Area {
    pub(super) from: Point,
    pub(super) to: Point,
}

impl Area {
    pub(super) fn around(middle: Point, size: Point) -> Self {
        let (x, y) = (size.x / 2., size.y / 2.);
        Self { from: Point { x: middle.x - x, y: middle.y - y }, to: Point { x: middle.x + x, y: middle.y + y } }
    }

    pub(super) fn middle(self) -> Point {
        Point { x: f64::midpoint(self.from.x, self.to.x), y: f64::midpoint(self.from.y, self.to.y) }
    }
}

#[derive(Debug)]
pub(super) struct Curve {
    pub(super) start: Point,
    /// The curves of the line. Each curve has two control points and an end point.
    pub(super) parts: Vec<[Point; 3]>,
    pub(super) dashed: bool,
    /// True if the curve runs from the target to the source.
    pub(super) backwards: bool,
}

#[derive(Debug, Default)]
pub(super) struct Plane {
    /// The areas of the nodes, in the order of [`Picture::nodes`].
    pub(super) nodes: Vec<Area>,
    pub(super) curves: Vec<Curve>,
    /// The labels of edges. The point is the center of the label.
    pub(super) labels: Vec<(Point, String)>,
}

/// Positions a drawing whose nodes have these labels.
pub(super) fn place(picture: &Picture, labels: &[String]) -> Plane {
    let grid = rank(picture);
    let nodes: Vec<Point> = labels.iter().map(|label| node_size(label)).collect();
    let (widths, heights) = sizes(picture, &grid, &nodes);
    let xs = columns(&grid, &widths);
    let gap = GAP.y + FRAME_GAP * depth(picture);
    let mut places = vec![(Point::default(), 0.); grid.items];
    let mut top = 0.;
    for row in &grid.rows {
        let height = row.iter().map(|item| heights[*item]).fold(0., f64::max);
        for item in row {
            places[*item] = (Point { x: xs[*item], y: top + height / 2. }, height);
        }
        top += height + gap;
    }
    let nodes = nodes.into_iter().zip(&places).map(|(size, (at, _))| Area::around(*at, size)).collect();
    let mut plane = Plane { nodes, ..Plane::default() };
    for chain in &grid.chains {
        add_chain(&mut plane, chain, &places);
    }
    for edge in picture.edges.iter().filter(|edge| edge.from == edge.to) {
        add_bow(&mut plane, edge);
    }
    plane
}

/// The maximum depth of nested frames, minus one.
#[allow(clippy::cast_precision_loss)] // of the depth of frames
fn depth(picture: &Picture) -> f64 {
    picture.frames.iter().map(|frame| frame.path.len() - 1).max().unwrap_or(0) as f64
}

/// Returns the width and height of each item in its row.
fn sizes(picture: &Picture, grid: &Grid<'_>, nodes: &[Point]) -> (Vec<f64>, Vec<f64>) {
    let (mut widths, mut heights) = (vec![0.; grid.items], vec![0.; grid.items]);
    for (node, size) in nodes.iter().enumerate() {
        (widths[node], heights[node]) = (size.x, size.y);
    }
    for edge in picture.edges.iter().filter(|edge| edge.from == edge.to) {
        widths[edge.from] += 2. * bow_width(edge); // also on the left, so that the node stays in the middle
    }
    for chain in &grid.chains {
        if let (Some(middle), Some(label)) = (chain.middle, &chain.edge.label) {
            let size = text_size(&wrapped(label), EDGE_FONT);
            (widths[middle], heights[middle]) = (size.x, size.y);
        }
    }
    (widths, heights)
}

/// Returns the center of each item in its row, as close to its neighbors in other rows as possible.
fn columns(grid: &Grid<'_>, widths: &[f64]) -> Vec<f64> {
    let (mut above, mut below) = (vec![Vec::new(); grid.items], vec![Vec::new(); grid.items]);
    for pair in grid.chains.iter().flat_map(|chain| chain.items.windows(2)) {
        below[pair[0]].push(pair[1]);
        above[pair[1]].push(pair[0]);
    }
    let mut xs = vec![0.; grid.items];
    for row in &grid.rows {
        settle(row, widths, &mut xs, |_, _| 0.);
    }
    let near = |next: &[Vec<usize>], item: usize, xs: &[f64]| {
        mean(next[item].iter().map(|other| xs[*other])).unwrap_or(xs[item])
    };
    for _ in 0..SWEEPS {
        for row in &grid.rows {
            settle(row, widths, &mut xs, |item, xs| near(&above, item, xs));
        }
        for row in grid.rows.iter().rev() {
            settle(row, widths, &mut xs, |item, xs| near(&below, item, xs));
        }
    }
    xs
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0., 0.), |(sum, count), value| (sum + value, count + 1.));
    (count > 0.).then(|| sum / count)
}

/// Moves the items of a row as close to their desired positions as possible, without changing their order or
/// overlapping.
///
/// Relative to the space that the items before it need, the position of each item is at least that of the previous one.
/// Items that want to be further left than their predecessor share a position with it: the mean of their desired
/// positions.
fn settle(row: &[usize], widths: &[f64], xs: &mut [f64], wish: impl Fn(usize, &[f64]) -> f64) {
    let mut groups: Vec<(f64, f64, usize)> = Vec::new(); // the sum of the wishes, their number as a float, and as it is
    let (mut taken, mut last) = (0., None);
    let mut before = Vec::with_capacity(row.len());
    for item in row {
        if let Some(last) = last.replace(*item) {
            let last: usize = last;
            taken += f64::midpoint(widths[last], widths[*item]) + GAP.x;
        }
        before.push(taken);
        let mut group = (wish(*item, xs) - taken, 1., 1);
        while let Some((sum, count, size)) = groups.pop_if(|(sum, count, _)| *sum / *count > group.0 / group.1) {
            group = (sum + group.0, count + group.1, size + group.2);
        }
        groups.push(group);
    }
    let places = groups.into_iter().flat_map(|(sum, count, size)| std::iter::repeat_n(sum / count, size));
    for ((item, before), place) in row.iter().zip(before).zip(places) {
        xs[*item] = place + before;
    }
}

fn node_size(label: &str) -> Point {
    let text = text_size(label, NODE_FONT);
    Point { x: (text.x + 24.).max(48.), y: text.y + 16. }
}

/// Estimates the size of a text.
#[allow(clippy::cast_precision_loss)] // of the size of a text
pub(super) fn text_size(text: &str, font: f64) -> Point {
    let letters = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    Point { x: letters as f64 * font * 0.6, y: text.lines().count().max(1) as f64 * font * LINE }
}

fn wrapped(label: &str) -> String {
    folded(label, 28)
}

/// Breaks a text into lines of at most `width` letters. Truncates long texts.
pub(super) fn folded(text: &str, width: usize) -> String {
    const MOST: usize = 4;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        lines.push(String::new());
        for word in line.split_whitespace() {
            let letters: Vec<char> = word.chars().collect();
            for part in letters.chunks(width) {
                match lines.last_mut() {
                    Some(line) if line.is_empty() => line.extend(part),
                    Some(line) if line.chars().count() + part.len() < width => {
                        line.push(' ');
                        line.extend(part);
                    }
                    _ => lines.push(part.iter().collect()),
                }
            }
        }
    }
    if lines.len() > MOST {
        lines.truncate(MOST);
        lines.last_mut().into_iter().for_each(|line| line.push('…'));
    }
    lines.join("\n")
}

/// Draws an edge from the upper to the lower node. `places` contains the position of each item and the height of its
/// row.
fn add_chain(plane: &mut Plane, chain: &RankedEdge<'_>, places: &[(Point, f64)]) {
    let (Some(first), Some(last)) = (chain.items.first(), chain.items.last()) else { return };
    let (top, bottom) = (plane.nodes[*first], plane.nodes[*last]);
    let next = |item: usize| places[chain.items[item]].0.x;
    let start = Point { x: port(top, next(1)), y: top.to.y };
    let end = Point { x: port(bottom, next(chain.items.len() - 2)), y: bottom.from.y };
    let passed = chain.items[1..chain.items.len() - 1].iter().map(|item| places[*item]);
    let rows = passed.flat_map(|(at, height)| [-0.5, 0.5].map(|side| Point { x: at.x, y: at.y + side * height }));
    let stops: Vec<Point> = rows.chain([end]).collect();
    let mut from = start;
    let mut parts = Vec::with_capacity(stops.len());
    for at in stops {
        let y = f64::midpoint(from.y, at.y); // so each stop is passed straight downwards
        parts.push([Point { x: from.x, y }, Point { x: at.x, y }, at]);
        from = at;
    }
    plane.curves.push(Curve { start, parts, dashed: chain.edge.conditional, backwards: chain.upwards });
    if let (Some(middle), Some(label)) = (chain.middle, &chain.edge.label) {
        plane.labels.push((places[middle].0, wrapped(label)));
    }
}

/// Returns the x coordinate at which an edge touches a node. `side` is the x coordinate from which the edge comes.
fn port(node: Area, side: f64) -> f64 {
    let (middle, free) = (node.middle().x, (node.to.x - node.from.x) / 4.);
    middle + (side - middle).clamp(-free, free)
}

/// Draws an edge from a node to itself, at its right side.
fn add_bow(plane: &mut Plane, edge: &DrawnEdge) {
    let node = plane.nodes[edge.from];
    let (top, bottom) = (Point { x: node.to.x, y: node.from.y + 8. }, Point { x: node.to.x, y: node.to.y - 8. });
    let out = |at: Point, by: f64| Point { x: at.x + BOW, y: at.y + by };
    let parts = vec![[out(top, -6.), out(bottom, 6.), bottom]];
    plane.curves.push(Curve { start: top, parts, dashed: edge.conditional, backwards: false });
    if let Some(label) = &edge.label {
        let at = Point { x: node.to.x + f64::midpoint(BOW, bow_width(edge)), y: node.middle().y };
        plane.labels.push((at, wrapped(label)));
    }
}

fn bow_width(edge: &DrawnEdge) -> f64 {
    BOW + edge.label.as_ref().map_or(0., |label| text_size(&wrapped(label), EDGE_FONT).x)
}
