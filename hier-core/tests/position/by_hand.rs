//! Drives whole runs by hand, without a runtime and from records.

use std::sync::Arc;

use hier_spec::{EdgeSpec, GraphSpec, NodeSpec, Source, Target, Text};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Applied, Last, Position, StoredChannels};
use crate::checkpoint::{NextTasks, codec};
use crate::engine::attempt::route::with_routes;
use crate::engine::program::{
    Destinations, Hooks, NodeCache, Plan, Program, RouteFn, Routing, SendArg, Sends, SpecRef, TaskKey, TaskOutcome,
};
use crate::error::RunError;
use crate::reducer::json::Builtin;
use crate::state::{ChannelWrite, DynState, Schema, StoredValues, Update, Writes};

pub(super) type Graph = Program<DynState, ()>;
/// The choice of a route, from the log: nodes, and targets of Sends.
type Choice = fn(&[Value], usize) -> (Vec<usize>, Vec<usize>);

/// A graph over a log, a plain channel and an expiring one. Its nodes write their names to the log.
fn graph(names: &[&'static str], edges: Vec<EdgeSpec>, deferred: &[&str], choose: Choice) -> Graph {
    let node = |name: &&'static str| NodeSpec { defer: deferred.contains(name), ..NodeSpec::new(name) };
    let count = names.len();
    let spec = GraphSpec {
        name: "by_hand".into(),
        doc: Text::default(),
        nodes: names.iter().map(node).collect::<Vec<_>>().into(),
        edges: edges.into(),
        interrupt_before: Vec::new().into(),
        interrupt_after: Vec::new().into(),
    };
    program(spec, |number| {
        Arc::new(move |state: &DynState, routing: &mut crate::engine::program::Routing| {
            let log = state.get("log").and_then(Value::as_array).cloned().unwrap_or_default();
            let (go, sends) = choose(&log, number + count);
            for node in go {
                routing.go(node % count);
            }
            for (item, node) in sends.into_iter().enumerate() {
                routing.send(node % count, item);
            }
            Ok(())
        })
    })
}

/// A graph over the same channels without code. The tests pass the outcomes of its nodes.
pub(super) fn program(spec: GraphSpec, route: impl Fn(usize) -> RouteFn<DynState>) -> Graph {
    let routes = spec.edges.iter().filter(|edge| matches!(edge, EdgeSpec::Route { .. })).count();
    let schema = Arc::new(Schema::new().reduced("log", Builtin::Append).last("last").ephemeral("hint"));
    Graph {
        plan: Arc::new(Plan::new(&spec)),
        spec: SpecRef::Owned(Arc::new(spec)),
        nodes: Vec::new(),
        routes: (0..routes).map(route).collect(),
        hooks: Hooks::default(),
        channels: schema.channels().cloned().collect(),
        initial: Arc::new(move || schema.initial()),
        cache: NodeCache::default(),
        renamed: Vec::new(),
        inbox: None,
        is_agent: false,
        is_part: false,
        lenient: true,
        trust: hier_spec::trust::GraphTrust::NONE,
        questions: crate::question::QuestionFacts::Unknown,
        asked: Vec::new(),
    }
}

fn plain(from: Source, to: usize) -> EdgeSpec {
    EdgeSpec::Plain { from, to: Target::Node(to) }
}

fn join(from: &[usize], to: usize) -> EdgeSpec {
    EdgeSpec::Join { from: from.to_vec().into(), to: Target::Node(to) }
}

fn route(from: Source) -> EdgeSpec {
    EdgeSpec::Route { from, label: "choose".into(), arms: Vec::new().into() }
}

/// A thread that is driven by hand.
struct Hand<'a> {
    graph: &'a Graph,
    state: DynState,
    position: Position<DynState>,
}

impl<'a> Hand<'a> {
    /// Applies an input and runs START.
    fn new(graph: &'a Graph) -> Self {
        let mut hand = Self { graph, state: (graph.initial)(), position: Position::new(graph, false) };
        let input = hand.writes(json!({ "log": ["in"], "hint": "start" }));
        hand.position.set_input(Some(input));
        hand.position.begin(graph, &mut hand.state, &mut Routing::default()).unwrap();
        hand
    }

    fn writes(&self, update: Value) -> Writes<DynState> {
        self.state.update(update).unwrap().into_writes()
    }

    /// Runs a task as a worker does, on the state before the step.
    fn run(&self, key: TaskKey) -> Applied<DynState> {
        let name = self.graph.plan.name(key.node);
        let own = key.send.map_or_else(|| name.to_owned(), |send| format!("{name}:{send}"));
        let done = TaskOutcome::input(self.writes(json!({ "log": [own] })));
        let routes = &self.graph.plan.exit(Some(key.node)).routes;
        let done = with_routes(self.graph, &self.state, routes, done).unwrap();
        Applied { node: Some(key.node), pushed: key.send.is_some(), done }
    }

    fn names(&self, step: i64) -> Vec<String> {
        self.position.tasks(step).map(|key| self.graph.plan.path(key)).collect()
    }

    /// Runs one superstep: the tasks in reverse order, their outcomes in task order.
    fn step(&mut self, number: i64) -> Result<bool, RunError> {
        let keys: Vec<TaskKey> = self.position.tasks(number).collect();
        let mut done: Vec<(TaskKey, Applied<DynState>)> = keys.iter().rev().map(|key| (*key, self.run(*key))).collect();
        done.reverse();
        let mut done = done.into_iter().map(|(_, done)| done).collect();
        self.position.apply(self.graph, &mut self.state, &mut done)
    }

    /// Stores the thread and reads it, as another machine does.
    fn moved(&self) -> Self {
        let agenda = codec::encode(&self.position.agenda(self.graph).unwrap()).unwrap();
        let agenda: NextTasks = codec::decode(&agenda).unwrap();
        let mut state = (self.graph.initial)();
        let mut live = Vec::new();
        for channel in 0..self.graph.channels.len() {
            let Some(value) = self.state.stored(channel) else { continue };
            let mut bytes = Vec::new();
            value.encode(&mut bytes).unwrap();
            state.load(channel, &bytes).unwrap();
            live.push(channel);
        }
        let mut position = Position::restore(self.graph, &agenda, false).unwrap();
        position.restore_channels(&self.graph.channels, StoredChannels { held: live, ..StoredChannels::default() });
        Self { graph: self.graph, state, position }
    }
}

fn nowhere(_: &[Value], _: usize) -> (Vec<usize>, Vec<usize>) {
    (Vec::new(), Vec::new())
}

#[test]
fn position_drives_a_whole_run() {
    // START >> [a, b], [a, b] >> c, c sends w twice, d is deferred.
    fn choose(log: &[Value], _: usize) -> (Vec<usize>, Vec<usize>) {
        if log.contains(&json!("c")) { (vec![], vec![4, 4]) } else { (vec![], vec![]) }
    }
    let start = Source::Start;
    let edges =
        vec![plain(start, 0), plain(start, 1), join(&[0, 1], 2), route(Source::Node(2)), plain(Source::Node(0), 3)];
    let graph = graph(&["a", "b", "c", "d", "w"], edges, &["d"], choose);
    let mut hand = Hand::new(&graph);
    let mut steps = Vec::new();
    for step in 1.. {
        if hand.position.is_over() {
            break;
        }
        steps.push(hand.position.next(&graph.plan));
        hand.step(step).unwrap();
    }
    assert_eq!(steps, [vec!["a", "b"], vec!["c"], vec!["w", "w", "d"]]);
    assert_eq!(hand.state.get("log"), Some(&json!(["in", "a", "b", "c", "d", "w:0", "w:1"])));
    assert_eq!(hand.state.get("hint"), None, "ephemeral values are cleared after a step");
    assert_eq!(hand.position.last(), Last::Node(3), "the sent task is not the last node");
}

fn sent(node: usize, payload: &SendArg) -> Sends {
    let mut sends = Sends::default();
    sends.push(node, payload.clone());
    sends
}

#[test]
fn command_send_has_its_own_task_name() {
    fn choose(_: &[Value], _: usize) -> (Vec<usize>, Vec<usize>) {
        (vec![], vec![0, 0])
    }
    let graph = graph(&["a", "b"], vec![route(Source::Start)], &[], choose);
    let mut hand = Hand::new(&graph);
    let before = hand.names(1);
    let payload = SendArg::new(7);
    let destinations = || Destinations { sends: sent(1, &payload), ..Destinations::default() };
    hand.position.follow(&graph.plan, vec![destinations()]);
    let after = hand.names(1);
    assert_eq!((before.len(), after.len()), (2, 1));
    assert!(!before.contains(&after[0]), "{after:?} is not in {before:?}");
    let task = |hand: &Hand<'_>, number| hand.position.tasks(1).nth(number).unwrap();
    let first = task(&hand, 0);
    hand.position.follow(&graph.plan, vec![destinations()]);
    assert_eq!(hand.names(1).len(), 2, "the tasks of the first command remain");
    let second = task(&hand, 1);
    let id = |key| graph.plan.task_id(uuid::Uuid::nil(), &[], key);
    assert_ne!(id(first), id(second), "each command sends separate tasks");
    // Once it is stored, a reader numbers its Sends from zero.
    let moved = hand.moved();
    hand.position.renumber_sends();
    assert_eq!(hand.names(1), moved.names(1));
    assert!(hand.position.step(1).arg(0).is_some());
}

/// The node that ran last, or the candidates.
fn ran_last(hand: &Hand<'_>) -> Result<Last, Vec<usize>> {
    match hand.position.last() {
        Last::Several => Err(hand.position.among().to_vec()),
        last => Ok(last),
    }
}

#[test]
fn last_node_is_ambiguous_as_in_langgraph() {
    let (start, node) = (Source::Start, Source::Node);
    let after = |graph: &Graph, steps: i64| {
        let mut hand = Hand::new(graph);
        let mut moved = Hand::new(graph);
        for step in 1..=steps {
            hand.step(step).unwrap();
            moved = moved.moved();
            moved.step(step).unwrap();
        }
        assert_eq!(ran_last(&hand), ran_last(&moved));
        ran_last(&hand)
    };
    let names = ["a", "b", "c"];
    let two = graph(&names, vec![plain(start, 0), plain(start, 1), join(&[0, 1], 2)], &[], nowhere);
    assert_eq!(after(&two, 0), Ok(Last::Start));
    assert_eq!(after(&two, 1), Err(vec![0, 1]));
    assert_eq!(after(&two, 2), Ok(Last::Node(2)), "only the join set it off");
    let both = vec![plain(start, 0), plain(start, 1), plain(node(0), 2), join(&[0, 1], 2)];
    assert_eq!(after(&graph(&names, both, &[], nowhere), 2), Err(vec![2]), "two edges at once");
    // c runs by the edge from a, then again by the join that b has filled, when the signal of the edge expires.
    let turns = vec![plain(start, 0), plain(node(0), 2), plain(node(0), 1), join(&[1], 2)];
    assert_eq!(after(&graph(&names, turns, &[], nowhere), 3), Err(vec![2]));

    // A command is newer than edges.
    let mut hand = Hand::new(&two);
    hand.position.follow(&two.plan, vec![Destinations { go: vec![2], ..Destinations::default() }]);
    assert_eq!(hand.names(1).len(), 3);
    hand.step(1).unwrap();
    assert_eq!(ran_last(&hand), Ok(Last::Node(2)));
    // A dropped node counts as having run.
    let mut hand = Hand::new(&two);
    hand.position.discard(&two, &mut hand.state, &mut []).unwrap();
    assert!(hand.position.is_over());
    assert_eq!(ran_last(&hand), Err(vec![0, 1]));
}

#[test]
fn pending_input_is_applied_in_name_order() {
    let graph = graph(&["Z", "a"], vec![plain(Source::Start, 0), plain(Source::Start, 1)], &[], nowhere);
    let mut hand = Hand::new(&graph);
    let input = hand.writes(json!({ "log": ["again"] }));
    hand.position.set_input(Some(input));
    hand.step(1).unwrap();
    assert_eq!(hand.state.get("log"), Some(&json!(["in", "Z", "again", "a"])), "`Z` < `__start__` < `a`");
    assert_eq!(hand.position.next(&graph.plan), ["Z", "a"]);
    assert_eq!(hand.position.last(), Last::Start);
}

#[test]
fn step_that_conflicts_is_not_applied() {
    let graph = graph(&["a", "b"], vec![plain(Source::Start, 0), plain(Source::Start, 1)], &[], nowhere);
    let mut hand = Hand::new(&graph);
    let mut done: Vec<Applied<DynState>> = Vec::new();
    for key in hand.position.tasks(1) {
        let done_of = TaskOutcome::input(hand.writes(json!({ "log": ["x"], "last": 1 })));
        done.push(Applied { node: Some(key.node), pushed: false, done: done_of });
    }
    let error = hand.position.apply(&graph, &mut hand.state, &mut done).unwrap_err();
    assert!(matches!(error, RunError::Conflict { .. }), "{error}");
    assert_eq!(hand.state.get("log"), Some(&json!(["in"])));
}

#[test]
fn subgraph_returns_all_stored_writes() {
    let graph = graph(&["a", "b"], vec![plain(Source::Start, 0), plain(Source::Node(0), 1)], &[], nowhere);
    let taken: Arc<[bool]> = graph.channels.iter().map(|channel| channel.name == "log").collect();
    for (is_stored, kept) in [(false, vec!["log", "log"]), (true, vec!["last", "log", "log"])] {
        let (mut state, mut position) = ((graph.initial)(), Position::new(&graph, true));
        if is_stored {
            position.track_changes(&graph.channels);
        }
        position.return_only(&taken);
        for (node, name) in ["a", "b"].into_iter().enumerate() {
            let writes = state.update(json!({ "log": [name], "last": name })).unwrap().into_writes();
            let task = Applied { node: Some(node), pushed: false, done: TaskOutcome::input(writes) };
            position.apply(&graph, &mut state, &mut vec![task]).unwrap();
        }
        let fresh = position.ledger.returned.as_ref().map(super::Returns::unstored).unwrap_or_default();
        let mut names: Vec<_> = fresh.writes.iter().map(ChannelWrite::name).collect();
        names.sort_unstable();
        assert_eq!(names, kept);
        let handed: Vec<_> = position.take_returned(&graph.channels);
        let handed: Vec<Value> = handed.iter().map(|write| write.to_json().unwrap()).collect();
        assert_eq!(handed, [json!(["a"]), json!(["b"])]);
    }
}

#[test]
fn joins_with_equal_names_are_distinguished() {
    let (start, names) = (Source::Start, ["a", "a+b", "b+c", "c", "d"]);
    let mut edges: Vec<EdgeSpec> = (0..4).map(|node| plain(start, node)).collect();
    edges.extend([join(&[1, 3], 4), join(&[0, 2], 4), join(&[0, 2], 4)]);
    let graph = graph(&names, edges, &[], nowhere);
    let joins: Vec<&str> = graph.plan.joins.iter().map(|join| &*join.name).collect();
    assert_eq!(joins, ["join:a+b+c:d", "join:a+b+c:d#2", "join:a+b+c:d#3"]);
    let mut hand = Hand::new(&graph);
    let mut done: Vec<Applied<DynState>> =
        hand.position.tasks(1).filter(|key| key.node != 2).map(|key| hand.run(key)).collect();
    hand.position.apply(&graph, &mut hand.state, &mut done).unwrap();
    let mut moved = hand.moved();
    assert_eq!(moved.position.next(&graph.plan), ["d"]);
    moved.step(2).unwrap();
    assert!(moved.position.is_over(), "the others wait for `b+c`");
    assert_eq!(moved.position.agenda(&graph).unwrap().joins.len(), 2);
}

/// Edges, joins, deferred nodes, nodes with a route, and the choices of routes.
type Random = (Vec<(usize, usize)>, Vec<(u8, usize)>, u8, Vec<usize>, u8);

/// A random graph of four nodes.
fn random() -> impl Strategy<Value = Random> {
    (
        proptest::collection::vec((0..5usize, 0..4usize), 1..7),
        proptest::collection::vec((1..16u8, 0..4usize), 0..3),
        0..16u8,
        proptest::collection::vec(0..5usize, 0..2),
        any::<u8>(),
    )
}

proptest! {
    /// A thread that moves between machines takes the same steps as one that stays.
    #[test]
    fn stored_position_is_complete((edges, joins, deferred, routes, moves) in random()) {
        fn choose(log: &[Value], salt: usize) -> (Vec<usize>, Vec<usize>) {
            let hash = log.len() * 31 + salt * 7;
            match hash % 5 {
                0 => (vec![hash / 5], vec![]),
                1 => (vec![], vec![hash / 3, hash / 7]),
                2 => (vec![hash / 2], vec![hash / 11]),
                _ => (vec![], vec![]),
            }
        }
        let names = ["D", "a", "b", "c"];
        let source = |number: usize| if number == 4 { Source::Start } else { Source::Node(number) };
        let mut spec = vec![plain(Source::Start, 0)];
        spec.extend(edges.into_iter().map(|(from, to)| plain(source(from), to)));
        spec.extend(joins.into_iter().map(|(from, to)| {
            let from: Vec<usize> = (0..4).filter(|node| from & (1 << node) != 0).collect();
            join(&from, to)
        }));
        spec.extend(routes.into_iter().map(|from| route(source(from))));
        let deferred: Vec<&str> = (0..4).filter(|node| deferred & (1 << node) != 0).map(|node| names[node]).collect();
        let graph = graph(&names, spec, &deferred, choose);
        let (mut stays, mut moved) = (Hand::new(&graph), Hand::new(&graph));
        for step in 1..10 {
            if moves & (1 << (step % 8)) != 0 {
                moved = moved.moved();
            }
            let names = stays.names(step);
            prop_assert_eq!(&names, &moved.names(step));
            let mut pulled: Vec<&String> = names.iter().filter(|name| name.contains("pull")).collect();
            pulled.dedup();
            prop_assert!(pulled.is_sorted() && pulled.len() == names.iter().filter(|name| name.contains("pull")).count());
            if stays.position.is_over() {
                break;
            }
            stays.step(step).unwrap();
            moved.step(step).unwrap();
            prop_assert_eq!(stays.state.to_value(), moved.state.to_value());
        }
        prop_assert_eq!(stays.position.agenda(&graph).unwrap().joins, moved.position.agenda(&graph).unwrap().joins);
    }
}
