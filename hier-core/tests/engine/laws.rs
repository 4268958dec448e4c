//! Laws: of reducers; and that a run does not depend on the order in which tasks end, on that in which nodes and edges
//! are declared, on options that have no effect, or on listeners.

use std::collections::{BTreeMap, BTreeSet};

use hier_core::Event;
use hier_core::graph::{CompiledGraph, GraphBuilder, NodeDef, Task};
use hier_core::prelude::*;
use hier_core::reducer::{Identified, builtin};
use hier_core::state::{Values, Writes};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::runtime::{Builder, Runtime};

mod reducers {
    use super::*;

    /// The value after these writes, one by one.
    fn fold<T, R>(start: T, writes: impl IntoIterator<Item = T>, reducer: impl Fn(&mut T, T) -> R) -> T {
        writes.into_iter().fold(start, |mut value, write| {
            reducer(&mut value, write);
            value
        })
    }

    fn set(items: &[u8]) -> BTreeSet<u8> {
        items.iter().copied().collect()
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Item {
        id: u8,
        text: u8,
    }

    impl Identified for Item {
        type Id = u8;

        fn id(&self) -> &u8 {
            &self.id
        }
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        vec((0_u8..6, any::<u8>()).prop_map(|(id, text)| Item { id, text }), 0..8)
    }

    proptest! {
        #[test]
        fn append_and_extend_are_independent_of_batching(batches in vec(vec(any::<u8>(), 0..5), 0..6)) {
            let whole = batches.concat();
            prop_assert_eq!(fold(vec![9], batches.clone(), builtin::append), [&[9], &whole[..]].concat());
            let sets = batches.iter().map(|batch| set(batch));
            prop_assert_eq!(fold(BTreeSet::new(), sets, builtin::extend), set(&whole));
            let pairs = |batch: &Vec<u8>| -> BTreeMap<u8, usize> {
                batch.iter().enumerate().map(|(n, key)| (*key, n)).collect()
            };
            let maps = batches.iter().map(pairs);
            let mut expected = BTreeMap::new();
            maps.clone().for_each(|map| expected.extend(map));
            prop_assert_eq!(fold(BTreeMap::new(), maps, builtin::extend), expected);
        }

        #[test]
        fn append_is_associative(a in vec(any::<u8>(), 0..9), b in vec(any::<u8>(), 0..9), c in vec(any::<u8>(), 0..9)) {
            let left = fold(fold(a.clone(), [b.clone()], builtin::append), [c.clone()], builtin::append);
            let right = fold(a, [fold(b, [c], builtin::append)], builtin::append);
            prop_assert_eq!(left, right);
        }

        #[test]
        fn numeric_and_boolean_reducers_are_commutative(
            (numbers, shuffled) in vec(-1000_i64..1000, 0..9).prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            truths in vec(any::<bool>(), 0..9),
        ) {
            let sum = fold(0, numbers.clone(), |a, b| builtin::sum(a, b).unwrap());
            prop_assert_eq!(sum, fold(0, shuffled.clone(), |a, b| builtin::sum(a, b).unwrap()));
            prop_assert_eq!(sum, numbers.iter().sum::<i64>());
            let small = |all: &[i64]| all.iter().map(|n| n % 7).collect::<Vec<_>>();
            let product = |all: &[i64]| fold(1, small(all), |a, b| builtin::product(a, b).unwrap());
            prop_assert_eq!(product(&numbers), product(&shuffled));
            let most = fold(-5, numbers.clone(), builtin::max);
            prop_assert_eq!(most, fold(-5, shuffled.clone(), builtin::max));
            prop_assert_eq!(most, numbers.iter().copied().max().unwrap_or(-5).max(-5));
            let least = fold(5, numbers.clone(), builtin::min);
            prop_assert_eq!(least, fold(5, shuffled, builtin::min));
            prop_assert_eq!(least, numbers.iter().copied().min().unwrap_or(5).min(5));
            prop_assert_eq!(fold(false, truths.clone(), builtin::any), truths.contains(&true));
            prop_assert_eq!(fold(true, truths.clone(), builtin::all), !truths.contains(&false));
            prop_assert_eq!(fold(None, truths.iter().copied().map(Some), builtin::last), truths.last().copied());
        }

        #[test]
        fn sum_is_exact_or_an_error(a in any::<i8>(), b in any::<i8>()) {
            let mut sum = a;
            match builtin::sum(&mut sum, b) {
                Ok(()) => prop_assert_eq!(i16::from(sum), i16::from(a) + i16::from(b)),
                Err(_) => prop_assert!(a.checked_add(b).is_none() && sum == a, "a refused merge changes nothing"),
            }
        }

        #[test]
        fn by_id_keeps_places_and_the_last_text(batches in vec(items(), 0..5)) {
            let merged = fold(Vec::new(), batches.clone(), builtin::by_id);
            let whole = batches.concat();
            prop_assert_eq!(&merged, &fold(Vec::new(), [whole.clone()], builtin::by_id), "batching changes nothing");
            prop_assert_eq!(&merged, &fold(merged.clone(), [merged.clone()], builtin::by_id), "once more changes nothing");
            let mut order = Vec::new();
            for item in &whole {
                if !order.contains(&item.id) {
                    order.push(item.id);
                }
            }
            prop_assert_eq!(merged.iter().map(|item| item.id).collect::<Vec<_>>(), order);
            for item in &merged {
                let last = whole.iter().rev().find(|other| other.id == item.id);
                prop_assert_eq!(Some(item), last);
            }
        }
    }
}

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Board {
    #[reducer(append)]
    log: Vec<String>,
    #[reducer(sum)]
    total: i64,
    #[reducer(max)]
    top: i64,
    #[reducer(extend)]
    set: BTreeSet<usize>,
    #[reducer(last)]
    last: String,
    #[channel(topic)]
    news: Vec<usize>,
}

/// A graph of nodes 0, 1, …: edges lead from lower to higher numbers, so that it ends.
#[derive(Clone, Debug)]
struct Shape {
    nodes: usize,
    entries: Vec<usize>,
    edges: Vec<(usize, usize)>,
    joins: Vec<(Vec<usize>, usize)>,
    deferred: Vec<usize>,
    /// Nodes with a route that depends on the state, and its two targets.
    routes: Vec<(usize, usize, usize)>,
    /// Nodes that send items to the node that takes them.
    senders: Vec<usize>,
}

/// Options of building and running a graph that must not change the result.
#[derive(Clone, Debug)]
struct Manner {
    registration: Vec<usize>,
    yields: Vec<u8>,
    limit: Option<usize>,
    /// Declares the edges in reverse order.
    reversed: bool,
    /// Gives the nodes an option, so that they are not just called.
    guarded: bool,
    /// Streams the run.
    streamed: bool,
}

fn shapes() -> impl Strategy<Value = Shape> {
    (2_usize..8).prop_flat_map(|nodes| {
        let forward = (0..nodes, 0..nodes).prop_map(|(a, b)| (a.min(b), a.max(b)));
        let edge = forward.prop_filter("an edge leads forward", |(from, to)| from < to);
        let join = (vec(0..nodes, 1..4), 0..nodes).prop_filter_map("a join leads forward", |(mut from, to)| {
            from.sort_unstable();
            from.dedup();
            from.last().is_some_and(|last| *last < to).then_some((from, to))
        });
        let route = (edge.clone(), 0..nodes).prop_map(|((from, to), other)| (from, to, other.max(from + 1)));
        let route = route.prop_filter("a route leads forward", move |(_, _, other)| *other < nodes);
        (
            (Just(nodes), vec(0..nodes, 1..4), vec(edge, 0..10)),
            (vec(join, 0..3), vec(0..nodes, 0..2), vec(route, 0..3), vec(0..nodes, 0..3)),
        )
            .prop_map(|((nodes, entries, edges), (joins, deferred, routes, senders))| Shape {
                nodes,
                entries,
                edges,
                joins,
                deferred,
                routes,
                senders,
            })
    })
}

fn manners(nodes: usize) -> impl Strategy<Value = Manner> {
    let registration = Just((0..=nodes).collect::<Vec<_>>()).prop_shuffle();
    (registration, vec(0_u8..6, nodes + 1), proptest::option::of(1_usize..4), any::<[bool; 3]>()).prop_map(
        |(registration, yields, limit, [reversed, guarded, streamed])| Manner {
            registration,
            yields,
            limit,
            reversed,
            guarded,
            streamed,
        },
    )
}

fn name(node: usize) -> String {
    format!("n{node}")
}

const TAKER: &str = "taker";

fn wrote(state: &Board, who: &str, number: usize) -> BoardUpdate {
    let text = format!("{who}@{}{:?}", state.log.len(), state.news);
    let weight = i64::try_from(number).unwrap_or(0) + 1;
    let update = Board::update().log([text]).total(weight).top(weight * state.total % 11).last(who.to_owned());
    update.set(BTreeSet::from([number])).news([number])
}

fn build(shape: &Shape, manner: &Manner) -> CompiledGraph<Board> {
    let mut graph: GraphBuilder<Board> = GraphBuilder::new("random");
    graph = graph.lenient();
    for number in &manner.registration {
        let (number, yields) = (*number, manner.yields[*number]);
        let who = if number == shape.nodes { TAKER.to_owned() } else { name(number) };
        let node = NodeDef::task(move |task: Task<Board>| async move {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            let item = if task.was_sent() { task.sent::<usize>()? } else { 0 };
            Ok::<_, NodeError>(wrote(task.state(), task.run().node(), number + item))
        });
        graph = graph.node(who, if manner.guarded { node.retry(1) } else { node });
    }
    for node in &shape.entries {
        graph = graph.edge(START, name(*node));
    }
    let mut edges = shape.edges.clone();
    if manner.reversed {
        edges.reverse();
    }
    for (from, to) in &edges {
        graph = graph.edge(name(*from), name(*to));
    }
    for (from, to) in &shape.joins {
        let from: Vec<String> = from.iter().map(|node| name(*node)).collect();
        graph = graph.join(from.iter().map(String::as_str), name(*to));
    }
    for node in &shape.deferred {
        graph = graph.defer(&name(*node));
    }
    for (number, (from, to, other)) in shape.routes.iter().enumerate() {
        let arms = [("even", vec![name(*to)]), ("odd", vec![name(*other)])];
        let choose = |state: &Board| if state.total % 2 == 0 { "even" } else { "odd" };
        graph = graph.route(name(*from), format!("route{number}"), arms, choose);
    }
    for (number, from) in shape.senders.iter().enumerate() {
        graph = graph.each(name(*from), format!("items{number}"), TAKER, |state| {
            let count = usize::try_from(state.total % 4).unwrap_or(0);
            (0..count).collect::<Vec<_>>()
        });
    }
    graph.compile().expect("a lenient builder takes every shape")
}

fn config(manner: &Manner) -> Config {
    let config = Config::new().recursion_limit(100);
    manner.limit.into_iter().fold(config, Config::max_concurrency)
}

async fn run(shape: &Shape, manner: &Manner) -> Board {
    let graph = build(shape, manner);
    let ended = if manner.streamed {
        graph.stream(Board::update()).config(config(manner)).modes([StreamMode::Tasks]).outcome().await
    } else {
        graph.invoke(Board::update()).config(config(manner)).await
    };
    ended.expect("the run ends").into_state()
}

fn runtimes() -> [Runtime; 2] {
    let one = Builder::new_current_thread().build().expect("a runtime");
    let many = Builder::new_multi_thread().worker_threads(3).build().expect("a runtime");
    [one, many]
}

#[test]
fn result_is_independent_of_timing_order_and_listeners() {
    let runtimes = runtimes();
    let cases = shapes().prop_flat_map(|shape| {
        let nodes = shape.nodes;
        (Just(shape), manners(nodes), manners(nodes))
    });
    proptest!(ProptestConfig::with_cases(200), |((shape, one, other) in cases)| {
        let expected = runtimes[0].block_on(run(&shape, &one));
        for runtime in &runtimes {
            prop_assert_eq!(&runtime.block_on(run(&shape, &other)), &expected);
            prop_assert_eq!(&runtime.block_on(run(&shape, &one)), &expected, "the same again");
        }
    });
}

/// The writes of one step, by the place that their task has in the order of writes.
type Step = BTreeMap<(bool, String, usize), Writes<Board>>;

#[test]
fn updates_of_a_stream_lead_to_its_values() {
    let [_, runtime] = runtimes();
    let cases = shapes().prop_flat_map(|shape| {
        let nodes = shape.nodes;
        (Just(Shape { senders: Vec::new(), ..shape }), manners(nodes))
    });
    proptest!(ProptestConfig::with_cases(100), |((shape, manner) in cases)| {
        let replayed = runtime.block_on(replay(&shape, &manner));
        prop_assert!(replayed.is_ok(), "{}", replayed.unwrap_err());
    });
}

async fn replay(shape: &Shape, manner: &Manner) -> Result<(), String> {
    let modes = [StreamMode::Values, StreamMode::Updates];
    let mut events = build(shape, manner).stream(Board::update()).config(config(manner)).modes(modes);
    let (mut state, mut step) = (Board::default(), Step::new());
    while let Some(event) = events.next().await {
        match event.map_err(|error| error.to_string())? {
            Event::Updates(update) => {
                let place = (false, update.node, step.len());
                step.insert(place, update.update.into_writes());
            }
            Event::Values(values) => {
                // A topic holds what one step has written.
                state.news.clear();
                let writes = std::mem::take(&mut step).into_values().flatten();
                for write in writes {
                    state.reduce(write).map_err(|error| error.to_string())?;
                }
                if state != *values {
                    return Err(format!("replayed {state:?}, streamed {values:?}"));
                }
            }
            other => return Err(format!("{other:?}")),
        }
    }
    let ended = events.outcome().await.map_err(|error| error.to_string())?.into_state();
    if ended == state { Ok(()) } else { Err(format!("replayed {state:?}, ended with {ended:?}")) }
}
