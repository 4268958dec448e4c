//! Each rule of a graph's shape: a graph that breaks it, and the closest graph that does not.

mod flow;
mod messages;

use hier_spec::{
    ArmSpec, ArmTarget, EdgeSpec, Finding, Goto, GraphSpec, NodeSpec, ShapeRule, Source, SpecSite, Target, Text, check,
};

/// A graph whose nodes are `a`, `b`, …
struct Graph(GraphSpec);

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
/// END, where a target is expected.
const END: usize = usize::MAX;
/// START, where a source is expected.
const START: usize = usize::MAX;

fn source(node: usize) -> Source {
    if node == START { Source::Start } else { Source::Node(node) }
}

fn target(node: usize) -> Target {
    if node == END { Target::End } else { Target::Node(node) }
}

fn graph(nodes: usize) -> Graph {
    let names = (0..nodes).map(|node| match u8::try_from(node) {
        Ok(node) if node < 26 => char::from(b'a' + node).to_string(),
        _ => format!("n{node}"),
    });
    let nodes: Vec<NodeSpec> = names.map(|name| NodeSpec { name: name.into(), ..NodeSpec::new("") }).collect();
    Graph(GraphSpec {
        name: "graph".into(),
        doc: "".into(),
        nodes: nodes.into(),
        edges: Vec::new().into(),
        interrupt_before: Vec::new().into(),
        interrupt_after: Vec::new().into(),
    })
}

impl Graph {
    fn add(mut self, edge: EdgeSpec) -> Self {
        self.0.edges.to_mut().push(edge);
        self
    }

    /// Plain edges, one after the other.
    fn chain(self, nodes: &[usize]) -> Self {
        nodes
            .windows(2)
            .fold(self, |graph, pair| graph.add(EdgeSpec::Plain { from: source(pair[0]), to: target(pair[1]) }))
    }

    fn join(self, from: &[usize], to: usize) -> Self {
        self.add(EdgeSpec::Join { from: from.to_vec().into(), to: target(to) })
    }

    /// A route whose arms are called `0`, `1`, …
    fn route(self, from: usize, label: &'static str, arms: &[&[usize]]) -> Self {
        let arms = arms.iter().enumerate().map(|(number, to)| ArmSpec {
            label: number.to_string().into(),
            to: to.iter().map(|to| ArmTarget::Go(target(*to))).collect(),
        });
        self.add(EdgeSpec::Route { from: source(from), label: label.into(), arms: arms.collect() })
    }

    fn each(self, from: usize, to: usize) -> Self {
        let arms = vec![ArmSpec { label: "items".into(), to: vec![ArmTarget::Send(to)].into() }];
        self.add(EdgeSpec::Route { from: source(from), label: "items".into(), arms: arms.into() })
    }

    fn node(mut self, node: usize, change: impl FnOnce(&mut NodeSpec)) -> Self {
        change(&mut self.0.nodes.to_mut()[node]);
        self
    }

    fn writes(self, node: usize, channels: &[&'static str]) -> Self {
        self.node(node, |spec| spec.writes = channels.iter().map(|channel| Text::Borrowed(*channel)).collect())
    }

    fn findings(&self) -> Vec<Finding> {
        check(&self.0)
    }

    fn rules(&self) -> Vec<ShapeRule> {
        self.findings().into_iter().map(|finding| finding.rule).collect()
    }

    /// The only finding.
    fn only(&self, rule: ShapeRule, sites: &[SpecSite], message: &str) {
        let findings = self.findings();
        let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
        assert_eq!((finding.rule, finding.sites.as_slice()), (rule, sites), "{}", finding.message);
        assert!(finding.message.contains(message), "{}", finding.message);
    }

    fn fine(&self) {
        assert_eq!(self.findings(), []);
    }
}

#[test]
fn cycle_of_plain_edges_is_refused() {
    // START >> a >> [a, END]
    let graph = graph(1).chain(&[START, A, A]).chain(&[A, END]);
    graph.only(
        ShapeRule::NoRest,
        &[SpecSite::Edge(1)],
        "`a >> a` is always followed, so a run that reaches `a` never ends",
    );
    // START >> a >> b >> a, b >> if done { END } else { a }
    let slip = self::graph(2).chain(&[START, A, B, A]).route(B, "done", &[&[END], &[A]]);
    slip.only(ShapeRule::NoRest, &[SpecSite::Edge(2)], "remove it, or make it an arm of `done`");
    // Without the edge that was left standing.
    self::graph(2).chain(&[START, A, B]).route(B, "done", &[&[END], &[A]]).fine();
}

#[test]
fn route_without_an_exit_is_refused() {
    let graph = graph(2).chain(&[START, A]).route(A, "r", &[&[A], &[END, A]]);
    assert_eq!(graph.rules(), [ShapeRule::Unreachable, ShapeRule::NoRest]);
    let graph = self::graph(1).chain(&[START, A]).route(A, "r", &[&[A], &[END, A]]);
    graph.only(ShapeRule::NoRest, &[SpecSite::Edge(1)], "each arm of `r` continues a loop");
    self::graph(1).chain(&[START, A]).route(A, "r", &[&[A], &[END]]).fine();
}

#[test]
fn sends_and_joins_can_end_a_cycle() {
    // No item, no task.
    graph(2).chain(&[START, A]).each(A, B).chain(&[B, END]).each(B, A).fine();
    // The join waits for both, of which one runs once.
    graph(3).chain(&[START, A]).chain(&[START, B]).join(&[A, B], C).chain(&[C, A]).chain(&[C, END]).fine();
}

#[test]
fn cycle_without_end_is_reported_once() {
    assert_eq!(graph(2).chain(&[START, A, B, A]).rules(), [ShapeRule::NoEnd]);
}

#[test]
fn two_cycles_are_two_mistakes() {
    let graph = graph(2).chain(&[START, A, A]).chain(&[START, B, B]).chain(&[A, END]).chain(&[B, END]);
    assert_eq!(graph.rules(), [ShapeRule::NoRest, ShapeRule::NoRest]);
}

#[test]
fn duplicate_join_is_refused() {
    // In another order of its sources, too: both always fire together.
    let graph = graph(3).chain(&[START, A]).chain(&[START, B]).join(&[A, B], C).join(&[B, A], C).chain(&[C, END]);
    graph.only(ShapeRule::DoubledEdge, &[SpecSite::Edge(3), SpecSite::Edge(2)], "`[b, a]` into `c` is given twice");
    let other = self::graph(4).chain(&[START, A]).chain(&[START, B]).join(&[A, B], C).join(&[A, B], D);
    other.chain(&[C, END]).chain(&[D, END]).fine();
}

#[test]
fn invalid_graphs_are_refused() {
    graph(1).chain(&[START, A, END]).node(A, |node| node.name = "__a".into()).only(
        ShapeRule::ReservedName,
        &[SpecSite::Node(A)],
        "remove the `__` at its start",
    );
    let named = |name: &'static str| {
        let mut graph = graph(1).chain(&[START, A, END]);
        graph.0.name = name.into();
        graph
    };
    named("a|b").only(ShapeRule::ReservedName, &[SpecSite::Name], "the graph name `a|b` is reserved");
    named("two words").fine();
    let twice = graph(2).chain(&[START, A, END]).chain(&[START, B, END]).node(B, |node| node.name = "a".into());
    twice.only(ShapeRule::DoubledNode, &[SpecSite::Node(B), SpecSite::Node(A)], "the node `a` is given twice");
    let empty = graph(1).chain(&[START, A, END]).join(&[], A);
    assert_eq!(empty.rules(), [ShapeRule::EmptyJoin]);
    let routes = graph(2).chain(&[START, A]).route(A, "r", &[&[B], &[END]]).chain(&[B, END]);
    routes.fine();
    routes.route(A, "r", &[&[END], &[B]]).only(
        ShapeRule::DoubledRoute,
        &[SpecSite::Edge(3), SpecSite::Edge(1)],
        "two routes of `a` have the name `r`",
    );
    let arm = |label: &'static str, to| ArmSpec { label: label.into(), to: vec![ArmTarget::Go(to)].into() };
    let arms = vec![arm("x", Target::Node(B)), arm("x", Target::End)];
    let doubled = graph(2).chain(&[START, A]).chain(&[B, END]);
    let doubled = doubled.add(EdgeSpec::Route { from: Source::Node(A), label: "r".into(), arms: arms.into() });
    doubled.only(ShapeRule::DoubledRoute, &[SpecSite::Arm(2, 1), SpecSite::Arm(2, 0)], "two arms `x`");
}

#[test]
fn duplicates_in_lists_are_refused() {
    let goto = |to: Vec<Target>| {
        graph(2).chain(&[START, A, END]).chain(&[B, END]).node(A, |node| {
            node.goto = Goto::Only(to.into());
        })
    };
    goto(vec![Target::Node(B), Target::End]).fine();
    let doubled = goto(vec![Target::Node(B), Target::Node(B)]);
    doubled.only(ShapeRule::DoubledEdge, &[SpecSite::Goto(A, 1), SpecSite::Goto(A, 0)], "twice in the `goto` of `a`");
    let mut stops = graph(1).chain(&[START, A, END]);
    stops.0.interrupt_before = vec![A, A].into();
    stops.0.interrupt_after = vec![A].into();
    stops.only(ShapeRule::DoubledEdge, &[SpecSite::Before(1), SpecSite::Before(0)], "twice in `interrupt_before`");
    let writes = graph(1).chain(&[START, A, END]).writes(A, &["x", "x"]);
    writes.only(
        ShapeRule::DoubledEdge,
        &[SpecSite::Write(A, 1), SpecSite::Write(A, 0)],
        "the channel `x` is given twice in the `writes` of `a`",
    );
}

#[test]
fn join_fed_by_its_target_is_dead() {
    // START >> match r { A => a, B => b }, [a, b] >> b
    let graph = graph(2).route(START, "r", &[&[A], &[B]]).join(&[A, B], B).chain(&[A, END]).chain(&[B, END]);
    graph.only(
        ShapeRule::DeadJoin,
        &[SpecSite::JoinSource(1, 1), SpecSite::JoinSource(1, 0), SpecSite::Edge(0)],
        "and a run takes only one",
    );
    // Through another dead join.
    let graph = self::graph(4).route(START, "r", &[&[A], &[B]]).join(&[A, B], C).join(&[A, C], D);
    let graph = graph.chain(&[A, END]).chain(&[B, END]).chain(&[C, B]).chain(&[D, END]);
    assert_eq!(graph.rules(), [ShapeRule::DeadJoin]);
    // A second way to one of them, and the join can fire.
    self::graph(3)
        .route(START, "r", &[&[A], &[B]])
        .chain(&[A, B])
        .join(&[A, B], C)
        .chain(&[B, END])
        .chain(&[C, END])
        .fine();
}

#[test]
fn arms_of_a_route_that_is_passed_once_exclude_each_other() {
    // a >> match r { B => b, C => c }, [b, c] >> d
    let arms = |graph: Graph| graph.route(A, "r", &[&[B], &[C]]).join(&[B, C], D).chain(&[D, END]);
    let sites = [SpecSite::JoinSource(2, 1), SpecSite::JoinSource(2, 0), SpecSite::Edge(1)];
    arms(graph(4).chain(&[START, A])).only(
        ShapeRule::DeadJoin,
        &sites,
        "`b` and `c` follow different arms of `r`, and a run takes only one",
    );
    // Each item, and each turn of a loop, takes an arm of its own.
    arms(graph(4).each(START, A)).fine();
    arms(graph(4).chain(&[START, A])).chain(&[B, A]).fine();
}

#[test]
fn plain_edge_overrides_a_parallel_route() {
    // START >> a, START >> b, START >> match r { X => a, Y => END }
    let graph = graph(2).chain(&[START, A, END]).chain(&[START, B, END]).route(START, "r", &[&[A], &[END]]);
    let graph = graph.writes(A, &["x"]).writes(B, &["x"]);
    graph.only(ShapeRule::TwoWriters, &[SpecSite::Write(B, 0), SpecSite::Write(A, 0)], "always run in the same step");
    // `a` can also run alone, but `b` cannot.
    let goes = self::graph(3).chain(&[START, A, END]).chain(&[START, B, C, END]).writes(A, &["x"]).writes(B, &["x"]);
    goes.node(C, |node| node.goto = Goto::Only(vec![Target::Node(A)].into())).only(
        ShapeRule::TwoWriters,
        &[SpecSite::Write(B, 0), SpecSite::Write(A, 0)],
        "`b` never runs without `a` in the same step (`START >> [a, b]`) and both write `x`",
    );
}

#[test]
fn writers_that_may_run_apart_are_accepted() {
    // Two routes may always choose differently.
    let apart = graph(4).chain(&[START, A]).chain(&[START, B]).route(A, "r", &[&[C], &[END]]);
    let apart = apart.route(B, "s", &[&[D], &[END]]).chain(&[C, END]).chain(&[D, END]);
    apart.writes(C, &["x"]).writes(D, &["x"]).fine();
    // An arm that starts both fails, but it may never be chosen.
    let arms = graph(2).route(START, "r", &[&[A, B], &[A], &[B]]).chain(&[A, END]).chain(&[B, END]);
    arms.writes(A, &["x"]).writes(B, &["x"]).fine();
    // The join brings both chains to one step.
    let joined = |graph: Graph| graph.chain(&[C, END]).chain(&[D, END]).writes(C, &["x"]).writes(D, &["x"]);
    let graph = graph(4).chain(&[START, A]).chain(&[START, B]).join(&[A, B], C).chain(&[B, D]);
    joined(graph).only(
        ShapeRule::TwoWriters,
        &[SpecSite::Write(D, 0), SpecSite::Write(C, 0)],
        "`START >> [a, b] >> [c, d]`",
    );
    let later = self::graph(4).chain(&[START, A]).chain(&[START, B]).join(&[A, B], C).chain(&[C, D]);
    later.chain(&[D, END]).writes(C, &["x"]).writes(D, &["x"]).fine();
}

#[test]
fn a_loop_through_a_join_never_ends() {
    // START >> [a, b], [a, b] >> c >> [a, b], c >> END
    let graph = |more: fn(Graph) -> Graph| {
        let graph = graph(3).chain(&[START, A]).chain(&[START, B]).join(&[A, B], C).chain(&[C, END]);
        more(graph)
    };
    graph(|graph| graph.chain(&[C, A]).chain(&[C, B])).only(
        ShapeRule::NoRest,
        &[SpecSite::Edge(2)],
        "no run ever ends after `START >> [a, b]`, because this join into `c` fires again and again whatever the routes \
         choose (`c >> [a, b] >> c`): select an edge of this loop with a route",
    );
    // A route that can leave out one of them ends it.
    graph(|graph| graph.chain(&[C, A]).route(C, "again", &[&[B], &[END]])).fine();
    graph(|graph| graph.chain(&[C, A]).each(C, B)).fine();
    graph(|graph| graph.chain(&[C, A]).node(C, |node| node.goto = Goto::Only(vec![Target::Node(B)].into()))).fine();
}

#[test]
fn an_arm_that_leads_into_an_endless_loop_is_a_mistake() {
    // START >> a >> match r { X => END, Y => [b, c] }, [b, c] >> d >> [b, c], d >> END
    let loop_of = |graph: Graph| graph.join(&[B, C], D).chain(&[D, B]).chain(&[D, C]).chain(&[D, END]);
    let trap = loop_of(graph(4).chain(&[START, A]).route(A, "r", &[&[END], &[B, C]]));
    trap.only(
        ShapeRule::NoRest,
        &[SpecSite::Edge(2)],
        "a run can never end after `START >> a >> [b, c]`, because this join into `d` fires again",
    );
    // The arm starts one of the two sources only, and the join waits.
    let waits = graph(4).chain(&[START, A]).route(A, "r", &[&[END], &[B], &[C]]);
    assert_eq!(loop_of(waits).rules(), [ShapeRule::DeadJoin]);
}

#[test]
fn a_run_that_ends_while_a_join_waits_is_accepted() {
    // START >> match r { X => a, Y => [a, b] }, [a, b] >> c >> END
    let graph = graph(3).route(START, "r", &[&[A], &[A, B]]).join(&[A, B], C).chain(&[C, END]);
    graph.fine();
}

#[test]
fn a_join_whose_sources_exclude_each_other_is_dead() {
    // Each turn of the loop starts `b` or `c`, and each of them ends the run.
    let graph = graph(4).chain(&[START, A]).route(A, "r", &[&[B], &[C], &[A]]).join(&[B, C], D).chain(&[D, END]);
    graph.only(
        ShapeRule::DeadJoin,
        &[SpecSite::JoinSource(2, 1)],
        "no run runs all its sources (after `START >> a >> b` it waits for `c` forever): write an edge",
    );
    let both = self::graph(4).chain(&[START, A]).route(A, "r", &[&[A, B], &[C]]).join(&[B, C], D).chain(&[D, END]);
    both.fine();
}

#[test]
fn beyond_the_bound_the_other_rules_hold() {
    // Each of 30 branches ends or continues at any time: far too many positions.
    let wide = |graph: Graph| {
        let mut graph = graph;
        for node in 0..30 {
            graph = graph.chain(&[START, node]).route(node, "r", &[&[node], &[END]]);
        }
        let all: Vec<usize> = (0..30).collect();
        graph.join(&all, 30)
    };
    // The endless part is behind the join.
    let unknown = wide(graph(34)).chain(&[30, 31]).chain(&[30, 32]).join(&[31, 32], 33).chain(&[33, 31]);
    unknown.chain(&[33, 32]).chain(&[33, END]).fine();
    wide(graph(31)).chain(&[30, 30]).chain(&[30, END]).only(ShapeRule::NoRest, &[SpecSite::Edge(61)], "never ends");
}

#[test]
fn large_graphs_are_checked_quickly() {
    let begun = std::time::Instant::now();
    // Ten routes in a row, then a fan-out to 600 and a join: the check was cubic here.
    let mut wide = graph(612);
    for node in 0..10 {
        wide = if node == 0 { wide.chain(&[START, 0]) } else { wide };
        wide = wide.route(node, "r", &[&[node + 1], &[END]]);
    }
    let fan: Vec<usize> = (11..611).collect();
    for node in &fan {
        wide = wide.chain(&[10, *node]);
    }
    wide = wide.join(&fan, 611).chain(&[611, END]);
    wide.fine();
    // Two chains side by side, in which each step has two writers.
    let mut deep = graph(1000);
    for first in [0, 500] {
        let chain: Vec<usize> = [START].into_iter().chain(first..first + 500).chain([END]).collect();
        deep = deep.chain(&chain);
    }
    for node in 0..1000 {
        deep = deep.writes(node, &["x"]);
    }
    assert_eq!(deep.rules().len(), 500);
    // Milliseconds on an idle machine, minutes before.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
