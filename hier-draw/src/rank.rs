//! Assigns nodes to rows and orders the rows, with the crate `layout-rs`.
//!
//! Only two optimizers of that crate are used: for short edges and for few crossings. Its search for cycles follows
//! every path, which takes too long in a graph with many diamonds, and its placement panics for some graphs. This
//! module and [`plane`](super::plane) replace them.

use layout::adt::dag::{DAG, NodeHandle};
use layout::topo::optimizer::{EdgeCrossOptimizer, RankOptimizer};

use super::model::{DrawnEdge, Picture};

/// The number of items above which the optimizers would take too long.
const OPTIMISED: usize = 250;
/// The number of items above which long edges do not get a place in each row that they cross.
const LIMIT: usize = 5000;

/// The rows of a drawing. An item is a node or a point of an edge. The nodes have the first indices.
#[derive(Debug)]
pub(super) struct Grid<'a> {
    /// The items of each row, from left to right.
    pub(super) rows: Vec<Vec<usize>>,
    /// The edges, except those from a node to itself.
    pub(super) chains: Vec<RankedEdge<'a>>,
    pub(super) items: usize,
}

/// An edge with the items through which it passes.
#[derive(Debug)]
pub(super) struct RankedEdge<'a> {
    pub(super) edge: &'a DrawnEdge,
    /// True if the edge leads upwards because it closes a loop.
    pub(super) upwards: bool,
    /// The items of the edge from top to bottom, including the nodes at its ends.
    pub(super) items: Vec<usize>,
    /// The item at which the label is drawn. An upward edge without a label has this item too, so that the edge does
    /// not cover a downward edge.
    pub(super) middle: Option<usize>,
}

pub(super) fn rank(picture: &Picture) -> Grid<'_> {
    let (mut chains, mut items) = chains(picture);
    let mut row_of = row_of(&chains, items);
    let height = |chain: &RankedEdge<'_>| row_of[chain.items[1]].abs_diff(row_of[chain.items[0]]);
    let crossed = chains.iter().map(|chain| height(chain) + usize::from(chain.middle.is_some())).sum::<usize>();
    if items + crossed <= LIMIT {
        for chain in &mut chains {
            items = fill(chain, &mut row_of);
        }
    } else {
        for chain in &mut chains {
            chain.items.splice(1..1, chain.middle);
        }
    }
    let mut rows = vec![Vec::new(); row_of.iter().max().map_or(0, |row| row + 1)];
    for (item, row) in row_of.into_iter().enumerate() {
        rows[row].push(item);
    }
    if items <= OPTIMISED {
        rows = uncrossed(rows, &chains, items);
    }
    Grid { rows, chains, items }
}

/// Returns the edges, each with its upper and its lower node. Also returns the number of nodes and label points.
fn chains(picture: &Picture) -> (Vec<RankedEdge<'_>>, usize) {
    let order = order(picture);
    let mut items = picture.nodes.len();
    let mut chains = Vec::new();
    for edge in picture.edges.iter().filter(|edge| edge.from != edge.to) {
        let upwards = order[edge.from] > order[edge.to];
        let middle = (upwards || edge.label.is_some()).then_some(items);
        items += usize::from(middle.is_some());
        let ends = if upwards { vec![edge.to, edge.from] } else { vec![edge.from, edge.to] };
        chains.push(RankedEdge { edge, upwards, items: ends, middle });
    }
    (chains, items)
}

/// Returns the position of each node in an order in which edges lead forward, except those that close a loop.
fn order(picture: &Picture) -> Vec<usize> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); picture.nodes.len()];
    for edge in picture.edges.iter().rev() {
        next[edge.from].push(edge.to); // taken from the back
    }
    let (mut seen, mut order) = (vec![false; next.len()], vec![0; next.len()]);
    let mut left = next.len();
    for root in 0..next.len() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut path = vec![root];
        while let Some(&node) = path.last() {
            match next[node].pop() {
                Some(to) if !seen[to] => {
                    seen[to] = true;
                    path.push(to);
                }
                Some(_) => {}
                None => {
                    path.pop();
                    left -= 1;
                    order[node] = left;
                }
            }
        }
    }
    order
}

/// Returns the row of each node and of each label point.
fn row_of(chains: &[RankedEdge<'_>], items: usize) -> Vec<usize> {
    let mut dag = dag(items);
    for chain in chains {
        let [top, bottom] = [chain.items[0], chain.items[1]].map(NodeHandle::from);
        match chain.middle.map(NodeHandle::from) {
            Some(middle) => {
                dag.add_edge(top, middle);
                dag.add_edge(middle, bottom);
            }
            None => dag.add_edge(top, bottom),
        }
    }
    if items > 0 {
        dag.recompute_node_ranks();
    }
    if items <= OPTIMISED {
        RankOptimizer::new(&mut dag).optimize();
    }
    let mut row_of = vec![0; items];
    for (row, handles) in dag.ranks().iter().enumerate() {
        for handle in handles {
            row_of[handle.get_index()] = row;
        }
    }
    row_of
}

fn dag(items: usize) -> DAG {
    let mut dag = DAG::new();
    dag.set_validate(false); // walks all paths
    dag.new_nodes(items);
    dag
}

/// Adds a point of the edge to each row between its ends. Returns the new number of items.
fn fill(chain: &mut RankedEdge<'_>, row_of: &mut Vec<usize>) -> usize {
    let (top, bottom) = (chain.items[0], chain.items[1]);
    let mut items = vec![top];
    for row in row_of[top] + 1..row_of[bottom] {
        match chain.middle {
            Some(middle) if row_of[middle] == row => items.push(middle),
            _ => {
                items.push(row_of.len());
                row_of.push(row);
            }
        }
    }
    items.push(bottom);
    chain.items = items;
    row_of.len()
}

/// Orders the items of each row so that few edges cross.
fn uncrossed(rows: Vec<Vec<usize>>, chains: &[RankedEdge<'_>], items: usize) -> Vec<Vec<usize>> {
    let mut dag = dag(items);
    for pair in chains.iter().flat_map(|chain| chain.items.windows(2)) {
        dag.add_edge(NodeHandle::from(pair[0]), NodeHandle::from(pair[1]));
    }
    *dag.ranks_mut() = rows.into_iter().map(|row| row.into_iter().map(NodeHandle::from).collect()).collect();
    if items > 0 {
        EdgeCrossOptimizer::new(&mut dag).optimize();
    }
    dag.ranks().iter().map(|row| row.iter().map(NodeHandle::get_index).collect()).collect()
}
