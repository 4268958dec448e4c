//! Joins fire once, when all have come; deferred nodes wait until nothing else is left to run.

use hier_core::Event;
use hier_core::graph::{FullState, Graph, GraphBuilder, Task};
use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trace {
    #[reducer(append)]
    log: Vec<String>,
    n: u32,
}

/// A node that logs its name, whatever it is called in the graph.
async fn node(run: &Run) -> TraceUpdate {
    tokio::task::yield_now().await;
    Trace::update().log([run.node().to_owned()])
}

async fn log<G: Graph<State = Trace, Context = (), Input = FullState, Output = Trace>>() -> String {
    let out = G::compile().invoke(Trace::update()).await;
    out.expect("the graph runs").into_state().log.join(" ")
}

/// The steps of a run: the nodes that ran in each, in the order of their writes.
async fn steps<G: Graph<State = Trace, Context = (), Input = FullState, Output = Trace>>() -> Vec<String> {
    let mut events = G::compile().stream(Trace::update()).modes([StreamMode::Values]);
    let (mut steps, mut seen) = (Vec::new(), 0);
    while let Some(event) = events.next().await {
        let Event::Values(state) = event.expect("the graph runs") else { continue };
        steps.push(state.log[seen..].join(" "));
        seen = state.log.len();
    }
    steps
}

mod joins {
    use super::*;

    graph! { PlainEven<Trace> = Graph {
        nodes: [a = node, b = node, c = node, d = node],
        edges: [START >> a >> [b, c], b >> d, c >> d, d >> END],
    } }
    graph! { PlainUneven<Trace> = Graph {
        nodes: [a = node, b = node, b2 = node, c = node, d = node],
        edges: [START >> a >> [b, c], b >> b2 >> d, c >> d, d >> END],
    } }
    graph! { Joined<Trace> = Graph {
        nodes: [a = node, b = node, b2 = node, c = node, d = node],
        edges: [START >> a >> [b, c], b >> b2, [b2, c] >> d >> END],
    } }
    graph! { InAChain<Trace> = Graph {
        nodes: [a = node, b = node, c = node, d = node],
        edges: [START >> a >> [b, c] >> d >> END],
    } }

    #[tokio::test]
    async fn plain_edges_trigger_each_time_and_a_join_once() {
        assert_eq!(log::<PlainEven>().await, "a b c d");
        assert_eq!(log::<PlainUneven>().await, "a b c b2 d d");
        assert_eq!(log::<Joined>().await, "a b c b2 d");
        assert_eq!(log::<InAChain>().await, "a b c d");
    }

    #[tokio::test]
    async fn join_of_a_hundred_fires_once() {
        let mut graph: GraphBuilder<Trace> = GraphBuilder::new("wide");
        let names: Vec<String> = (0..100).map(|n| format!("n{n:02}")).collect();
        for name in &names {
            graph = graph.node(name, async |task: Task<Trace>| task.call(node).await).edge(START, name);
        }
        graph = graph.node("z", async |task: Task<Trace>| task.call(node).await);
        graph = graph.join(names.iter().map(String::as_str), "z").edge("z", END);
        let out = graph.compile().unwrap().invoke(Trace::update()).await.unwrap();
        assert_eq!(out.state().log, [&names[..], &["z".to_owned()]].concat());
    }

    #[tokio::test]
    async fn join_that_is_not_full_never_fires() {
        let mut graph: GraphBuilder<Trace> = GraphBuilder::new("half");
        for name in ["a", "b", "c"] {
            graph = graph.node(name, async |task: Task<Trace>| task.call(node).await);
        }
        graph = graph.lenient().edge(START, "a").join(["a", "b"], "c");
        let out = graph.compile().unwrap().invoke(Trace::update()).await.unwrap();
        assert_eq!(out.state().log, ["a"]);
    }

    async fn count(state: &Trace) -> TraceUpdate {
        Trace::update().log([format!("count{}", state.n)]).n(state.n + 1)
    }

    fn twice(state: &Trace) -> bool {
        state.n < 2
    }

    // `slow` has signalled once and `quick` twice when the join fires for the first time.
    graph! { Again<Trace> = Graph {
        nodes: [count, quick = node, slow = node, slower = node, last = node],
        edges: [
            START >> count >> [quick, slow],
            quick >> if twice { quick } else { END },
            slow >> slower,
            [quick, slower] >> last >> if twice { count } else { END },
        ],
    } }
    graph! { Round<Trace> = Graph {
        nodes: [count, a = node, b = node, z = node],
        edges: [START >> count >> [a, b] >> z >> if twice { count } else { END }],
    } }

    #[tokio::test]
    async fn join_resets_after_it_fired() {
        assert_eq!(log::<Round>().await, "count0 a b z count1 a b z");
    }

    #[tokio::test]
    async fn repeated_signals_of_one_source_count_once() {
        // `quick` runs in every step until n is 2; the join fires once for each time that both have come.
        let steps = steps::<Again>().await;
        assert_eq!(
            steps,
            ["count0", "quick slow", "quick slower", "last quick", "count1 quick", "quick slow", "slower", "last"]
        );
    }

    graph! { EitherWay<Trace> = Graph {
        nodes: [a = node, b = node, c = node, z = node],
        edges: [START >> [a, b, c], [a, b] >> z, c >> z >> END],
    } }

    #[tokio::test]
    async fn join_and_an_edge_in_one_step_run_the_node_once() {
        assert_eq!(steps::<EitherWay>().await, ["a b c", "z"]);
    }

    graph! { TwoJoins<Trace> = Graph {
        nodes: [a = node, b = node, c = node, d = node, y = node, z = node],
        edges: [START >> [a, b, c], c >> d, [a, b] >> y >> END, [a, d] >> z >> END],
    } }

    #[tokio::test]
    async fn joins_that_share_a_source_fill_independently() {
        assert_eq!(steps::<TwoJoins>().await, ["a b c", "d y", "z"]);
    }
}

mod defer {
    use super::*;

    graph! { Uneven<Trace> = Graph {
        nodes: [a = node, b = node, b2 = node, c = node, d = node { defer }],
        edges: [START >> a >> [b, c], b >> b2 >> d, c >> d, d >> END],
    } }

    #[tokio::test]
    async fn deferred_node_runs_once_at_the_end() {
        assert_eq!(log::<Uneven>().await, "a b c b2 d");
    }

    graph! { Several<Trace> = Graph {
        nodes: [a = node, b = node, c = node, late = node { defer }, later = node { defer }, latest = node { defer }],
        edges: [START >> [a, late], a >> b >> c >> later, late >> latest >> END, later >> END],
    } }

    #[tokio::test]
    async fn deferred_nodes_are_released_together_and_wait_for_the_next_quiet_point() {
        assert_eq!(steps::<Several>().await, ["a", "b", "c", "late later", "latest"]);
    }

    async fn count(state: &Trace) -> TraceUpdate {
        Trace::update().log([format!("count{}", state.n)]).n(state.n + 1)
    }

    fn twice(state: &Trace) -> bool {
        state.n < 2
    }

    graph! { Again<Trace> = Graph {
        nodes: [count, a = node, end = node { defer }],
        edges: [START >> count >> [a, end], a >> END, end >> if twice { count } else { END }],
    } }

    #[tokio::test]
    async fn deferred_node_can_run_again_in_a_loop() {
        assert_eq!(log::<Again>().await, "count0 a end count1 a end");
    }

    graph! { DeferredJoin<Trace> = Graph {
        nodes: [a = node, b = node, c = node, c2 = node, z = node { defer }],
        edges: [START >> [a, b, c], c >> c2 >> END, [a, b] >> z >> END],
    } }

    #[tokio::test]
    async fn deferred_join_waits_for_other_nodes() {
        assert_eq!(steps::<DeferredJoin>().await, ["a b c", "c2", "z"]);
    }

    async fn item(Sent(n): Sent<u32>) -> TraceUpdate {
        Trace::update().log([format!("item{n}")])
    }

    fn items(_: &Trace) -> [u32; 2] {
        [1, 2]
    }

    graph! { WithSends<Trace> = Graph {
        nodes: [a = node, item, after = node, d = node { defer }],
        edges: [START >> a >> d >> END, a >> for n in items { item(n) }, item >> after >> END],
    } }
    graph! { SentToDeferred<Trace> = Graph {
        nodes: [a = node, b = node, c = node, item { defer }],
        edges: [START >> a >> b >> c >> END, a >> for n in items { item(n) }, item >> END],
    } }

    #[tokio::test]
    async fn pending_sends_do_not_delay_a_deferred_node() {
        // As in LangGraph, a deferred node is released in the same step as pending Sends.
        assert_eq!(steps::<WithSends>().await, ["a", "d item1 item2", "after"]);
    }

    #[tokio::test]
    async fn send_to_a_deferred_node_is_not_delayed() {
        assert_eq!(steps::<SentToDeferred>().await, ["a", "b item1 item2", "c"]);
    }
}

/// Edges that lead past a join, or to it twice.
mod ways_around {
    use super::*;

    async fn jumps(run: &Run) -> Command<Trace> {
        Command::update(Trace::update().log([run.node().to_owned()])).goto("z")
    }

    graph! { Past<Trace> = Graph {
        nodes: [a = jumps { goto: [z] }, b = node, b2 = node, b3 = node, z = node { defer }],
        edges: [START >> [a, b], b >> b2 >> b3, [a, b3] >> z >> END],
    } }

    /// A command that jumps over a join to its deferred target: that runs once, at the end.
    #[tokio::test]
    async fn deferred_target_of_a_jump_over_a_join_runs_once_at_the_end() {
        assert_eq!(log::<Past>().await, "a b b2 b3 z");
    }

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Lists {
        left: Vec<u32>,
        right: Vec<u32>,
        #[reducer(append)]
        log: Vec<String>,
    }

    fn left(lists: &Lists) -> Vec<u32> {
        lists.left.clone()
    }

    fn right(lists: &Lists) -> Vec<u32> {
        lists.right.clone()
    }

    async fn one(Sent(item): Sent<u32>, run: &Run) -> ListsUpdate {
        Lists::update().log([format!("{}{item}", run.node())])
    }

    async fn joined() -> ListsUpdate {
        Lists::update().log(["joined"])
    }

    graph! { Maps<Lists> = Graph {
        nodes: [l = one, r = one, joined],
        edges: [
            START >> for item in left { l(item) },
            START >> for item in right { r(item) },
            l >> joined,
            r >> joined,
            joined >> END,
        ],
    } }

    /// Two maps in one step, one possibly over an empty list: the node after both runs once.
    #[tokio::test]
    async fn node_after_two_maps_runs_once() {
        for (left, right, ran) in
            [(vec![], vec![1, 2], "r1 r2 joined"), (vec![7], vec![], "l7 joined"), (vec![7], vec![1], "l7 r1 joined")]
        {
            let input = Lists::update().left(left).right(right);
            let out = Maps::compile().invoke(input).await.expect("the graph runs");
            assert_eq!(out.state().log.join(" "), ran);
        }
    }
}
