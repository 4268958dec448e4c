//! Edges, routes and maps: which nodes run, how often, in which order writes are applied, and which state a route sees.

use hier_core::graph::{EdgeEnd, FullState, Graph, GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::state::RemainingSteps;
use tokio::sync::Notify;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trace {
    #[reducer(append)]
    log: Vec<String>,
    x: i64,
    remaining_steps: RemainingSteps,
}

#[allow(clippy::needless_pass_by_value)] // shorter where it is called
fn says(text: impl ToString) -> TraceUpdate {
    Trace::update().log([text.to_string()])
}

async fn log_of<G: Graph<State = Trace, Context = (), Input = FullState, Output = Trace>>() -> Vec<String> {
    let out = G::compile().invoke(Trace::update()).await;
    out.expect("the graph runs").into_state().log
}

mod order {
    use super::*;

    async fn zeta(gate: &Run<Notify>) -> TraceUpdate {
        gate.context().notify_one();
        says("zeta")
    }

    async fn mid() -> TraceUpdate {
        says("mid")
    }

    async fn alpha(gate: &Run<Notify>) -> TraceUpdate {
        gate.context().notified().await;
        says("alpha")
    }

    graph! {
        Siblings<Trace, Notify> = Graph {
            nodes: [zeta, alpha, mid, Upper = mid],
            edges: [START >> [zeta, alpha, mid, Upper] >> END],
        }
    }

    #[tokio::test]
    async fn sibling_writes_are_applied_by_name() {
        // alpha ends last, zeta is declared first; upper case sorts before lower case.
        let out = Siblings::compile().invoke(()).context(Notify::new()).await;
        assert!(matches!(out, Err(RunError::EmptyInput { .. })), "no input is no empty input: {out:?}");
        let out = Siblings::compile().invoke(Trace::update()).context(Notify::new()).await.unwrap();
        assert_eq!(out.state().log, ["mid", "alpha", "mid", "zeta"]);
    }
}

mod maps {
    use super::*;

    async fn src() -> TraceUpdate {
        says("src")
    }

    async fn pull() -> TraceUpdate {
        says("pull")
    }

    async fn w(Sent(item): Sent<u32>) -> TraceUpdate {
        says(item)
    }

    fn dozen(_: &Trace) -> std::ops::Range<u32> {
        0..12
    }

    fn none(_: &Trace) -> Vec<u32> {
        Vec::new()
    }

    graph! { Dozen<Trace> = Graph {
        nodes: [src, pull, w],
        edges: [START >> src >> pull >> END, src >> for item in dozen { w(item) }, w >> END],
    } }

    graph! { Nothing<Trace> = Graph {
        nodes: [src, w],
        edges: [START >> src >> for item in none { w(item) }, w >> END],
    } }

    graph! { Straight<Trace> = Graph {
        nodes: [w],
        edges: [START >> for item in dozen { w(item + 1) }, w >> END],
    } }

    #[tokio::test]
    async fn sends_are_applied_after_the_nodes_and_by_their_numbers() {
        let sent = (0..12).map(|item| item.to_string());
        let expected: Vec<String> = ["src".to_owned(), "pull".to_owned()].into_iter().chain(sent).collect();
        assert_eq!(log_of::<Dozen>().await, expected);
    }

    #[tokio::test]
    async fn map_over_nothing_ends_its_branch() {
        assert_eq!(log_of::<Nothing>().await, ["src"]);
    }

    #[tokio::test]
    async fn start_can_send() {
        let expected: Vec<String> = (1..13).map(|item| item.to_string()).collect();
        assert_eq!(log_of::<Straight>().await, expected);
    }

    async fn b2() -> TraceUpdate {
        says("b2")
    }

    async fn a1() -> TraceUpdate {
        says("a1")
    }

    async fn text(Sent(text): Sent<String>) -> TraceUpdate {
        says(text)
    }

    fn from_b(_: &Trace) -> [String; 1] {
        ["from b".to_owned()]
    }

    fn from_a(_: &Trace) -> [String; 2] {
        ["from a".to_owned(), "also from a".to_owned()]
    }

    graph! { TwoSenders<Trace> = Graph {
        nodes: [b2, a1, text],
        edges: [
            START >> [b2, a1],
            b2 >> for item in from_b { text(item) },
            a1 >> for item in from_a { text(item) },
            text >> END,
        ],
    } }

    #[tokio::test]
    async fn sends_of_several_nodes_go_by_the_names_of_the_senders() {
        assert_eq!(log_of::<TwoSenders>().await, ["a1", "b2", "from a", "also from a", "from b"]);
    }

    async fn either(item: Option<Sent<u32>>, state: &Trace) -> TraceUpdate {
        let item = item.map_or_else(|| "no item".to_owned(), |Sent(item)| format!("item {item}"));
        says(format!("{item}, sees {}", state.log.len()))
    }

    fn two(_: &Trace) -> [u32; 2] {
        [7, 8]
    }

    graph! { Both<Trace> = Graph {
        nodes: [src, either],
        edges: [START >> src >> either >> END, src >> for item in two { either(item) }],
    } }

    #[tokio::test]
    async fn node_runs_once_for_its_edges_and_once_for_each_send() {
        let log = log_of::<Both>().await;
        assert_eq!(log, ["src", "no item, sees 1", "item 7, sees 1", "item 8, sees 1"]);
    }
}

mod routes {
    use super::*;

    async fn one() -> TraceUpdate {
        says("one").x(5)
    }

    async fn other() -> TraceUpdate {
        says("other")
    }

    async fn tell(Sent(text): Sent<String>) -> TraceUpdate {
        says(text)
    }

    fn sees(state: &Trace) -> [String; 1] {
        [format!("{} {:?} {}", state.x, state.log, state.remaining_steps.get())]
    }

    graph! { Alone<Trace> = Graph {
        nodes: [one, tell],
        edges: [START >> one >> for text in sees { tell(text) }, tell >> END],
    } }

    graph! { Beside<Trace> = Graph {
        nodes: [one, other, tell],
        edges: [START >> [one, other], one >> for text in sees { tell(text) }, [other, tell] >> END],
    } }

    #[tokio::test]
    async fn route_sees_its_own_nodes_writes_and_not_those_of_siblings() {
        let config = Config::new().recursion_limit(9);
        let alone = Alone::compile().invoke(Trace::update()).config(config.clone()).await.unwrap();
        assert_eq!(alone.state().log, ["one", r#"5 ["one"] 8"#]);
        let beside = Beside::compile().invoke(Trace::update()).config(config).await.unwrap();
        assert_eq!(beside.state().log, ["one", "other", r#"5 ["one"] 8"#]);
    }

    #[derive(Clone, Copy)]
    enum Way {
        Both,
        Items(u32),
        Nowhere,
    }

    fn way(state: &Trace) -> Way {
        match state.x {
            0 => Way::Both,
            n => u32::try_from(n).map_or(Way::Nowhere, Way::Items),
        }
    }

    fn is_big(state: &Trace) -> bool {
        state.x > 10
    }

    async fn item(Sent(item): Sent<u32>) -> TraceUpdate {
        says(format!("item {item}"))
    }

    graph! { Ways<Trace> = Graph {
        nodes: [left, right, big, item],
        edges: [
            START >> match way {
                Way::Both => [left, right],
                Way::Items(n) if n % 2 == 1 => item(n * 10),
                Way::Items(_) => if is_big { big } else { END },
                Way::Nowhere => END,
            },
            left >> END,
            right >> END,
            big >> END,
            item >> END,
        ],
    } }

    async fn left() -> TraceUpdate {
        says("left")
    }

    async fn right() -> TraceUpdate {
        says("right")
    }

    async fn big() -> TraceUpdate {
        says("big")
    }

    #[tokio::test]
    async fn match_route_follows_its_arm() {
        let cases: [(i64, &[&str]); 5] =
            [(0, &["left", "right"]), (3, &["item 30"]), (12, &["big"]), (4, &[]), (-1, &[])];
        for (x, expected) in cases {
            let out = Ways::compile().invoke(Trace::update().x(x)).await.unwrap();
            assert!(out.is_finished());
            assert_eq!(out.state().log, expected, "x = {x}");
            assert_eq!(out.state().x, x, "the input is applied in any case");
        }
    }

    fn again(state: &Trace) -> bool {
        state.x < 3
    }

    async fn count(state: &Trace) -> TraceUpdate {
        says(state.x).x(state.x + 1)
    }

    graph! { Loop<Trace> = Graph {
        nodes: [count],
        edges: [START >> count >> if again { count } else { END }],
    } }

    #[tokio::test]
    async fn route_may_lead_back() {
        assert_eq!(log_of::<Loop>().await, ["0", "1", "2"]);
    }

    fn to_left(_: &Trace) -> bool {
        true
    }

    graph! { Twice<Trace> = Graph {
        nodes: [one, left, right],
        edges: [
            START >> one >> left >> END,
            one >> if to_left { [left, right] } else { right },
            right >> END,
        ],
    } }

    #[tokio::test]
    async fn node_reached_by_several_edges_runs_once() {
        assert_eq!(log_of::<Twice>().await, ["one", "left", "right"]);
    }

    #[tokio::test]
    async fn builder_and_macro_build_equal_graphs() {
        let mut graph: GraphBuilder<Trace> = GraphBuilder::new("ways");
        graph = graph
            .node("left", |task: Task<Trace>| async move { task.call(left).await })
            .node("right", async |_: Task<Trace>| says("right"))
            .node("item", async |task: Task<Trace>| Ok::<_, NodeError>(says(format!("item {}", task.sent::<u32>()?))))
            .route(START, "way", [("both", vec!["left", "right"]), ("none", vec![])], |state| {
                if state.x == 0 { "both" } else { "none" }
            })
            .each("left", "items", "item", |_| [4_u32, 5])
            .edge("right", END)
            .edge("item", END);
        let graph = graph.compile().unwrap();
        let out = graph.invoke(Trace::update()).await.unwrap();
        assert_eq!(out.state().log, ["left", "right", "item 4", "item 5"]);
        let out = graph.invoke(Trace::update().x(1)).await.unwrap();
        assert!(out.state().log.is_empty());
    }

    #[tokio::test]
    async fn builders_route_to_no_arm_is_an_error() {
        let mut graph: GraphBuilder<Trace> = GraphBuilder::new("ways");
        graph = graph.node("one", async |_: Task<Trace>| says("one")).edge(START, "one").route(
            "one",
            "way",
            [("left", vec![EdgeEnd::End]), ("again", vec![EdgeEnd::from("one")])],
            |_| "lefd",
        );
        let error = graph.compile().unwrap().invoke(Trace::update()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("`one`") && text.contains("`lefd`") && text.contains("did you mean `left`?"), "{text}");
    }
}

mod extractors {
    use super::*;

    #[derive(View)]
    #[view(of = Trace)]
    struct Look<'a> {
        x: &'a i64,
        log: &'a Vec<String>,
    }

    async fn all(Sent(item): Sent<u8>, look: Look<'_>, run: &Run<u32>, state: &Trace) -> TraceUpdate {
        assert!(std::ptr::eq(look.x, &raw const state.x) && std::ptr::eq(look.log, &raw const state.log));
        says(format!("{item} {} {} {}", look.x, run.context(), run.node()))
    }

    fn items(_: &Trace) -> [u8; 2] {
        [1, 2]
    }

    graph! { Four<Trace, u32> = Graph {
        nodes: [all],
        edges: [START >> for item in items { all(item) }, all >> END],
    } }

    #[tokio::test]
    async fn node_takes_up_to_four_arguments_in_any_order() {
        let out = Four::compile().invoke(Trace::update().x(3)).context(40).await.unwrap();
        assert_eq!(out.state().log, ["1 3 40 all", "2 3 40 all"]);
    }
}
