//! The findings about single edges and nodes, and the paths in messages.

use super::*;

#[test]
fn graph_without_an_entry_is_refused() {
    let no_entry = |graph: Graph, message: &str| graph.only(ShapeRule::NoEntry, &[SpecSite::Graph], message);
    no_entry(graph(1).chain(&[A, END]), "no edge leaves START: add `START >> a`");
    no_entry(graph(0), "add `START >> a_node`");
    no_entry(graph(2).join(&[A], B), "add `START >> a`");
    graph(1).route(START, "r", &[&[A], &[END]]).chain(&[A, END]).fine();
}

#[test]
fn node_without_a_path_is_refused() {
    let graph = graph(2).chain(&[START, A, END]);
    graph.only(
        ShapeRule::Unreachable,
        &[SpecSite::Node(B)],
        "`b` can never run, because no path leads to it from START",
    );
    let goes = self::graph(2).chain(&[START, A, END]).chain(&[B, END]);
    goes.node(A, |node| node.goto = Goto::Any).fine();
    let graph = self::graph(2).chain(&[START, A, END]).chain(&[START, B]);
    graph.only(ShapeRule::NoEnd, &[SpecSite::Node(B)], "END cannot be reached from `b`: add `b >> END`");
}

#[test]
fn each_dead_end_and_loop_is_reported_once() {
    let ends = |graph: Graph, expected: &[usize]| {
        let found = graph.findings();
        assert!(found.iter().all(|finding| finding.rule == ShapeRule::NoEnd), "{found:?}");
        let sites: Vec<_> = found.iter().flat_map(|finding| finding.sites.iter().copied()).collect();
        assert_eq!(sites, expected.iter().map(|node| SpecSite::Node(*node)).collect::<Vec<_>>());
    };
    ends(graph(3).chain(&[START, A, B, C]), &[C]);
    ends(graph(3).chain(&[START, A, B, C, B]), &[C]);
    ends(graph(3).route(START, "r", &[&[A], &[B], &[END]]).chain(&[A, C, A]), &[A, B]);
    ends(graph(3).chain(&[START, C, B, A]).chain(&[C, END]), &[A]);
}

#[test]
fn loop_that_no_run_reaches_is_unreachable_only() {
    let graph = graph(2).chain(&[START, A, END]).chain(&[B, B]).chain(&[B, END]);
    assert_eq!(graph.rules(), [ShapeRule::Unreachable]);
}

#[test]
fn only_a_route_of_the_same_node_can_take_the_edge() {
    let graph = graph(2).chain(&[START, B]).route(B, "r", &[&[A], &[END]]).chain(&[A, A]).chain(&[A, END]);
    graph.only(
        ShapeRule::NoRest,
        &[SpecSite::Edge(2)],
        "or select it with a route, `a >> if again { a } else { END }`",
    );
}

#[test]
fn join_of_a_lost_source_is_dead() {
    // `c` is not reported as unreachable, because the join is the cause.
    let graph = graph(3).chain(&[START, A, END]).join(&[A, B], C).chain(&[B, END]).chain(&[C, END]);
    assert_eq!(graph.rules(), [ShapeRule::DeadJoin, ShapeRule::Unreachable]);
    let [dead, lost] = &graph.findings()[..] else { panic!("two findings") };
    assert_eq!(dead.sites, [SpecSite::JoinSource(2, 1), SpecSite::Node(B)]);
    assert!(dead.message.contains("because its source `b` can never run"), "{}", dead.message);
    assert_eq!(lost.sites, [SpecSite::Node(B)]);
}

#[test]
fn arms_to_one_place_are_refused() {
    let same = |from, arms: &[&[usize]], message: &str| {
        let graph = graph(2).chain(&[START, A, END]).route(from, "r", arms).chain(&[B, END]);
        graph.only(ShapeRule::SameArms, &[SpecSite::Edge(2)], message);
    };
    same(A, &[&[B], &[B]], "all arms of `r` lead to the same place: write `a >> b`");
    same(A, &[&[B, END], &[END, B]], "write `a >> [b, END]`");
    same(START, &[&[B], &[B]], "write `START >> b`");
    graph(1).chain(&[START, A]).route(A, "r", &[&[END]]).fine();
}

#[test]
fn duplicate_edges_and_targets_are_refused() {
    let doubled = |graph: Graph, sites: [SpecSite; 2], message: &str| {
        graph.only(ShapeRule::DoubledEdge, &sites, message);
    };
    let ab = || graph(2).chain(&[START, A, END]).chain(&[START, B, END]);
    doubled(ab().chain(&[A, END]), [SpecSite::Edge(4), SpecSite::Edge(1)], "the edge from `a` to `END` is given twice");
    doubled(
        ab().chain(&[START, A]),
        [SpecSite::Edge(4), SpecSite::Edge(0)],
        "the edge from `START` to `a` is given twice",
    );
    let arms = ab().route(A, "r", &[&[B], &[END, END]]);
    doubled(
        arms,
        [SpecSite::ArmTarget(4, 1, 1), SpecSite::ArmTarget(4, 1, 0)],
        "`END` is given twice in this arm: remove one",
    );
    let joined = graph(2).chain(&[START, A]).join(&[A, A], B).chain(&[B, END]);
    doubled(joined, [SpecSite::JoinSource(1, 1), SpecSite::JoinSource(1, 0)], "`a` is given twice in this join");
    let mut stops = graph(1).chain(&[START, A, END]);
    stops.0.interrupt_after = vec![A, A].into();
    doubled(stops, [SpecSite::After(1), SpecSite::After(0)], "the node `a` is given twice in `interrupt_after`");
    let ends = graph(2).chain(&[START, A]).chain(&[START, B]).join(&[A, B], END).join(&[B, A], END);
    doubled(ends, [SpecSite::Edge(3), SpecSite::Edge(2)], "the join of `[b, a]` into `END` is given twice");
}

#[test]
fn items_for_one_state_are_refused() {
    let graph = |per_thread| {
        let graph = graph(2).chain(&[START, A, END]).each(A, B).chain(&[B, END]);
        graph.node(B, |node| node.per_thread = per_thread)
    };
    graph(true).only(
        ShapeRule::SharedCalls,
        &[SpecSite::ArmTarget(2, 0, 0), SpecSite::Node(B)],
        "would share the state that `b` keeps for the whole thread: write `checkpoints: per_call`",
    );
    graph(false).fine();
    self::graph(1).chain(&[START, A, END]).node(A, |node| node.per_thread = true).fine();
}

#[test]
fn essential_rules_are_those_without_which_nothing_runs() {
    use ShapeRule as Rule;
    for rule in [Rule::ReservedName, Rule::DoubledNode, Rule::DoubledRoute, Rule::EmptyJoin] {
        assert!(rule.is_essential() && !rule.is_about_paths(), "{rule:?}");
    }
    assert!(Rule::NoEntry.is_essential() && Rule::NoEntry.is_about_paths());
    assert!(!Rule::DoubledEdge.is_essential() && !Rule::DoubledEdge.is_about_paths());
    let paths = [Rule::SameArms, Rule::DeadJoin, Rule::Unreachable, Rule::NoEnd, Rule::NoRest, Rule::TwoWriters];
    for rule in paths.into_iter().chain([Rule::SharedCalls]) {
        assert!(!rule.is_essential() && rule.is_about_paths(), "{rule:?}");
    }
}

#[test]
fn names_of_a_graph_are_found() {
    let graph = graph(2).0;
    assert_eq!((graph.source_name(Source::Start), graph.source_name(Source::Node(B))), ("__start__", "b"));
    assert_eq!((graph.target_name(Target::End), graph.target_name(Target::Node(B))), ("__end__", "b"));
    assert_eq!((graph.node("b"), graph.node("c")), (Some(B), None));
    assert_eq!(graph.unknown_node("bx"), "there is no node `bx`; did you mean `b`?");
}

/// The message about a loop that never ends, and that a run reaches after this many steps.
fn trap_after(steps: usize) -> String {
    let [last, left, right, joined] = [steps - 2, steps - 1, steps, steps + 1];
    let first: Vec<usize> = std::iter::once(START).chain(0..=last).collect();
    let graph = graph(steps + 2).chain(&first).route(last, "r", &[&[END], &[left, right]]).join(&[left, right], joined);
    let findings = graph.chain(&[joined, left]).chain(&[joined, right]).chain(&[joined, END]).findings();
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    finding.message.clone()
}

#[test]
fn long_paths_are_shortened_in_the_middle() {
    assert!(trap_after(24).contains(">> k >> l >> m >> n >>"), "{}", trap_after(24));
    let long = trap_after(26);
    assert!(
        long.contains("after `START >> a >> b >> c >> d >> e >> f >> g >> h >> i >> j >> k >> l >> … >> o >>"),
        "{long}"
    );
    assert!(long.contains(">> x >> y >> [z, n26]`"), "{long}");
}

#[test]
fn writers_beyond_the_bound_are_compared_by_their_triggers() {
    let mut graph = graph(34);
    for node in 0..30 {
        graph = graph.chain(&[START, node]).route(node, "r", &[&[node], &[END]]);
    }
    let all: Vec<usize> = (0..30).collect();
    let graph = graph.join(&all, 30).chain(&[30, 31, END]).chain(&[30, 32, END]).chain(&[31, 33, END]);
    let graph = graph.writes(31, &["x"]).writes(32, &["x"]).writes(33, &["x"]);
    graph.only(
        ShapeRule::TwoWriters,
        &[SpecSite::Write(32, 0), SpecSite::Write(31, 0)],
        "`n31` and `n32` always run in the same step and both write `x`, which has no reducer",
    );
}
