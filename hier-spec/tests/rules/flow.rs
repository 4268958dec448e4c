//! The rules of data flow one by one, and the nodes of one superstep beyond the bound of the exploration.

use std::collections::BTreeSet;

use hier_spec::flow::{ChannelSet, Conflict, NodeFlow, SameStep, conflict, same_step, unfilled, unwritten, written};
use hier_spec::positions::{Position, StepModel};

use super::*;

fn set(channels: &[usize]) -> ChannelSet {
    channels.iter().copied().fold(ChannelSet::EMPTY, ChannelSet::with)
}

/// A node that always writes these channels.
fn writer(channels: &[usize]) -> NodeFlow {
    NodeFlow { always: set(channels), writes: set(channels), ..NodeFlow::NOTHING }
}

#[test]
fn channels_that_nobody_writes_are_found() {
    let all = written(&[writer(&[0]), writer(&[2])]);
    assert_eq!(all, Some(set(&[0, 2])));
    assert_eq!(written(&[]), Some(ChannelSet::EMPTY));
    assert_eq!(written(&[writer(&[0]), NodeFlow::UNTYPED]), None, "it may write any channel");
    for rule in [unwritten, unfilled] {
        assert_eq!(rule(set(&[0, 1, 2, 3]), all, Some(set(&[3]))), Some(1));
        assert_eq!(rule(set(&[0, 2, 3]), all, Some(set(&[3]))), None);
        assert_eq!(rule(set(&[5]), all, Some(set(&[3]))), Some(5));
        assert_eq!((rule(set(&[1]), None, Some(set(&[3]))), rule(set(&[1]), all, None)), (None, None));
    }
}

#[test]
fn a_node_that_runs_as_either_of_two_claims_what_both_do() {
    let (first, second) = (writer(&[0, 1]), NodeFlow { reads: set(&[5]), ..writer(&[1, 2]) });
    let both = first.or(second);
    assert_eq!((both.reads, both.always, both.writes), (set(&[5]), set(&[1]), set(&[0, 1, 2])));
    assert!(both.is_typed && !both.reads_all);
    for other in [first.or(NodeFlow::UNTYPED), NodeFlow::UNTYPED.or(first)] {
        assert!(!other.is_typed && other.reads_all && other.always == ChannelSet::EMPTY);
    }
}

/// A graph whose nodes run in a chain of `first` nodes, then all others in one step.
fn fan(first: usize, nodes: usize) -> SameStep {
    let chain: Vec<usize> = std::iter::once(START).chain(0..first).collect();
    let graph = (first..nodes).fold(graph(nodes).chain(&chain), |graph, node| graph.chain(&[first - 1, node, END]));
    same_step(&graph.0)
}

#[test]
fn writers_of_one_step_conflict() {
    // A row of bits per node has one word for 64 nodes.
    for nodes in [5, 64, 65, 130] {
        let (table, last) = (fan(2, nodes), nodes - 1);
        assert!(table.is_exact && table.contains(2, last) && !table.contains(1, last) && !table.contains(last, last));
        let mut flows = vec![NodeFlow::NOTHING; nodes];
        (flows[1], flows[3], flows[last]) = (writer(&[0]), writer(&[0, 7]), writer(&[7, 9, 0]));
        let found = |plain: &[usize], node| conflict(&flows, table.rows(), set(plain), node);
        let of_both = |channel| Some(Conflict { other: 3, channel });
        assert_eq!(found(&[0, 7, 9], last), of_both(0), "{nodes}");
        assert_eq!((found(&[7, 9], last), found(&[9], last), found(&[], last)), (of_both(7), None, None));
        // The later node of a pair has the conflict, and a node has none with itself or with one of another step.
        assert_eq!((found(&[0, 7], 3), found(&[0, 7], 1), found(&[0, 7], 0)), (None, None, None));
        assert_eq!(conflict(&flows, &[], set(&[0, 7]), last), None, "no two nodes run in one step");
    }
    assert_eq!(same_step(&graph(2).chain(&[START, A, B, END]).0).rows(), []);
}

/// Nodes 31 and up follow node 30, before which far too many positions are possible.
fn beyond_the_bound(nodes: usize, more: impl FnOnce(Graph) -> Graph) -> SameStep {
    let mut graph = graph(nodes);
    for node in 0..30 {
        graph = graph.chain(&[START, node]).route(node, "r", &[&[node], &[END]]);
    }
    let all: Vec<usize> = (0..30).collect();
    let table = same_step(&more(graph.join(&all, 30)).0);
    assert!(!table.is_exact);
    table
}

#[test]
fn beyond_the_bound_nodes_with_equal_triggers_run_together() {
    let table = beyond_the_bound(39, |graph| {
        // Two chains side by side, a node behind both, and two arms of a route.
        let graph = graph.chain(&[30, 31, 33, END]).chain(&[30, 32, 34, END]).chain(&[31, 35]).chain(&[32, 35, END]);
        graph.route(31, "s", &[&[36, 37], &[38]])
    });
    for (a, b) in [(31, 32), (33, 34), (33, 35), (36, 37)] {
        assert!(table.contains(a, b) && table.contains(b, a), "{a} {b}");
    }
    for (a, b) in [(31, 33), (30, 31), (36, 38), (33, 36), (0, 30)] {
        assert!(!table.contains(a, b), "{a} {b}");
    }
}

#[test]
fn beyond_the_bound_routes_and_sends_beside_an_edge_change_nothing() {
    let table = beyond_the_bound(39, |graph| {
        let graph = (31..=37).fold(graph, |graph, node| graph.chain(&[30, node, END]));
        let graph = graph.route(30, "also", &[&[32], &[END]]).each(30, 33).each(30, 36).each(31, 37).each(30, 38);
        [34, 35, 36].into_iter().fold(graph, |graph, node| graph.node(node, |spec| spec.defer = true))
    });
    // 32 is also an arm of 30, and 33 also receives items of 30.
    assert!(table.contains(31, 32) && table.contains(31, 33) && table.contains(34, 35));
    // A deferred node waits, but not for items. Items from elsewhere come at other times.
    for (a, b) in [(31, 34), (34, 36), (31, 36), (31, 37), (31, 38)] {
        assert!(!table.contains(a, b), "{a} {b}");
    }
}

#[test]
fn beyond_the_bound_commands_that_go_anywhere_decide_nothing() {
    let graph = graph(3).chain(&[START, A, END]).chain(&[START, B, END]).chain(&[A, C]);
    assert!(same_step(&graph.0).contains(A, B));
    let table = same_step(&graph.node(C, |node| node.goto = Goto::Any).0);
    assert!(!table.is_exact && table.rows().is_empty());
}

/// A command of `a` chooses among `b`, `c` and `d`.
fn choosing() -> Graph {
    let targets = [B, C, D].map(Target::Node).to_vec();
    graph(5).chain(&[START, A]).node(A, |node| node.goto = Goto::Only(targets.into()))
}

#[test]
fn a_command_goes_to_one_target_unless_a_join_needs_two() {
    let ends = |graph: Graph| same_step(&[B, C, D, 4].iter().fold(graph, |graph, node| graph.chain(&[*node, END])).0);
    let pairs = |table: SameStep| [(B, C), (B, D), (C, D)].map(|(a, b)| table.contains(a, b));
    assert_eq!(pairs(ends(choosing())), [false; 3]);
    assert_eq!(pairs(ends(choosing().join(&[B, C], 4))), [true, false, false]);
    assert_eq!(pairs(ends(choosing().join(&[D, C], 4))), [false, false, true]);
    // Without the command at once, a loop runs both.
    assert_eq!(pairs(ends(choosing().join(&[B, C], 4).chain(&[B, A]))), [false; 3]);
}

#[test]
fn one_item_takes_one_arm() {
    let table = same_step(&graph(4).each(START, A).route(A, "r", &[&[B], &[C]]).chain(&[B, END]).chain(&[C, END]).0);
    assert!(table.is_exact && !table.contains(B, C));
}

/// The nodes that run at the positions after a step: sent once, and several times.
fn items(positions: Option<Vec<Position>>) -> BTreeSet<(Vec<usize>, Vec<usize>)> {
    positions.into_iter().flatten().map(|at| (at.sent, at.several)).collect()
}

#[test]
fn a_send_starts_no_task_or_one_or_several() {
    // A set of nodes has a word for each 64 nodes.
    for first in [0, 70] {
        let [left, right, taker, even, odd] = [0, 1, 2, 3, 4].map(|node| first + node);
        let chain: Vec<usize> = std::iter::once(START).chain(0..first).collect();
        let start = if first == 0 { START } else { first - 1 };
        let senders = graph(first + 5)
            .chain(&chain)
            .chain(&[start, left])
            .chain(&[start, right])
            .each(left, taker)
            .each(right, taker);
        let graph = senders.route(taker, "r", &[&[even], &[odd]]);
        let model = StepModel::new(&graph.0, |_| true).expect("a model");
        let mut at = model.first_positions().expect("positions");
        for _ in 0..first {
            at = model.next_positions(&at[0]).expect("positions");
        }
        assert_eq!((at.len(), &at[0].ready), (1, &vec![left, right]));
        let next = model.next_positions(&at[0]);
        let three = [(vec![], vec![]), (vec![taker], vec![]), (vec![taker], vec![taker])];
        assert_eq!(items(next.clone()), BTreeSet::from(three));
        let ready = |several: bool| {
            let at = next.iter().flatten().find(|at| at.sent == [taker] && at.several.is_empty() != several);
            let next = model.next_positions(at.expect("a position")).expect("positions");
            next.into_iter().map(|at| at.ready).collect::<BTreeSet<_>>()
        };
        assert_eq!(ready(false), BTreeSet::from([vec![even], vec![odd]]), "one task takes one arm");
        assert_eq!(
            ready(true),
            BTreeSet::from([vec![even], vec![odd], vec![even, odd]]),
            "several tasks may take different ones"
        );
    }
}
