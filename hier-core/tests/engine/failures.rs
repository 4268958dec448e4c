//! Failures, their origins, and the siblings of a failed task. Retries, timeouts and handlers are in `guards.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::graph::{GraphBuilder, NodeDef, Task};
use hier_core::prelude::*;
use hier_core::runs::TaskPhase;
use hier_core::{Event, NodeErrorKind, Result};
use tokio::sync::Notify;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trace {
    #[reducer(append)]
    log: Vec<String>,
    #[reducer(sum)]
    total: i8,
    #[reducer(with = picky)]
    picky: u32,
    #[reducer(with = panicky)]
    panicky: u32,
}

fn picky(old: &mut u32, new: u32) -> Result<(), String> {
    if new > 99 {
        return Err(format!("{new} is too much"));
    }
    *old = new;
    Ok(())
}

fn panicky(old: &mut u32, new: u32) {
    assert!(new < 99, "{new} panics");
    *old = new;
}

#[allow(clippy::needless_pass_by_value)] // shorter where it is called
fn says(text: impl ToString) -> TraceUpdate {
    Trace::update().log([text.to_string()])
}

/// A graph in which every node leads from START to END.
fn parallel<const N: usize>(nodes: [(&str, NodeDef<Trace>); N]) -> GraphBuilder<Trace> {
    let mut graph = GraphBuilder::new("parallel");
    for (name, node) in nodes {
        graph = graph.node(name, node).edge(START, name).edge(name, END);
    }
    graph
}

async fn error_of(graph: GraphBuilder<Trace>) -> RunError {
    let graph = graph.compile().expect("the graph is right");
    graph.invoke(Trace::update()).await.expect_err("the run fails")
}

/// A node that returns this each time.
fn gives(update: TraceUpdate) -> NodeDef<Trace> {
    NodeDef::task(move |_| std::future::ready(update.clone()))
}

/// A node that fails with these words.
fn fails(text: &'static str) -> NodeDef<Trace> {
    NodeDef::task(move |_| async move { Err::<(), _>(NodeError::new(text)) })
}

mod siblings {
    use super::*;

    #[derive(Default)]
    struct Desk {
        failed: Notify,
        ended: AtomicUsize,
    }

    async fn a(run: &Run<Arc<Desk>>) -> Result<()> {
        run.context().failed.notified().await;
        Err(NodeError::new("a is late"))
    }

    async fn b(run: &Run<Arc<Desk>>) -> Result<()> {
        run.context().failed.notify_one();
        Err(NodeError::new("b is first"))
    }

    async fn c(run: &Run<Arc<Desk>>) -> TraceUpdate {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        run.context().ended.fetch_add(1, Ordering::SeqCst);
        says("c")
    }

    async fn d(run: &Run<Arc<Desk>>) {
        run.context().ended.fetch_add(100, Ordering::SeqCst);
    }

    graph! { Failing<Trace, Arc<Desk>> = Graph {
        nodes: [a, b, c, d],
        edges: [START >> [a, b, c] >> d >> END],
    } }

    #[tokio::test]
    async fn siblings_are_waited_for_and_the_first_error_in_task_order_is_raised() {
        let desk = Arc::new(Desk::default());
        let error = Failing::compile().invoke(Trace::update()).context(desk.clone()).await.unwrap_err();
        let RunError::Node { graph, node, error } = &error else { panic!("{error:?}") };
        assert_eq!((graph.as_str(), node.as_str(), error.to_string().as_str()), ("failing", "a", "a is late"));
        assert_eq!(desk.ended.load(Ordering::SeqCst), 1, "c has ended, and d, which is behind all three, never began");
    }

    #[tokio::test]
    async fn updates_of_siblings_are_delivered_before_the_error() {
        let modes = [StreamMode::Updates, StreamMode::Values, StreamMode::Tasks];
        let mut events = Failing::compile().stream(Trace::update()).context(Arc::<Desk>::default()).modes(modes);
        let (mut updates, mut ends) = (Vec::new(), Vec::new());
        let error = loop {
            match events.next().await {
                Some(Ok(Event::Updates(update))) => updates.push(update.node),
                Some(Ok(Event::Task(task))) => {
                    if let TaskPhase::Finished { error, .. } = task.phase {
                        ends.push((task.node, error));
                    }
                }
                Some(Err(error)) => break error,
                other => panic!("no values of a step that failed: {other:?}"),
            }
        };
        ends.sort();
        let error_in = |node: &str, error: Option<&str>| (node.to_owned(), error.map(str::to_owned));
        assert_eq!(ends, [error_in("a", Some("a is late")), error_in("b", Some("b is first")), error_in("c", None)]);
        assert_eq!(updates, ["c"]);
        assert!(matches!(error, RunError::Node { node, .. } if node == "a"));
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn sends_come_first_in_task_order() {
        let mut graph = parallel([("a", fails("a")), ("item", gives(Trace::update()))]);
        graph = graph.node("z", fails("z")).each(START, "items", "z", |_| [1_u8]).edge("z", END);
        assert!(matches!(error_of(graph).await, RunError::Node { node, .. } if node == "z"));
    }
}

mod panics {
    use super::*;

    fn panics() -> NodeDef<Trace> {
        NodeDef::task(|_| async { panic_now() })
    }

    const LINE: u32 = line!() + 2;
    fn panic_now() {
        panic!("boom {}", 7);
    }

    fn assert_panic(error: &RunError, node: &str, text: &str) {
        let RunError::Node { node: blamed, error, .. } = error else { panic!("{error:?}") };
        assert_eq!(blamed, node);
        assert!(matches!(error.kind(), NodeErrorKind::Panic(received) if received.contains(text)), "{error:?}");
        assert!(!error.is_transient());
    }

    #[tokio::test]
    async fn panic_in_a_node_is_its_error() {
        assert_panic(&error_of(parallel([("n", panics())])).await, "n", "boom 7");
        assert_panic(&error_of(parallel([("a", gives(says("a"))), ("n", panics())])).await, "n", "boom 7");
        let at_once = NodeDef::task(|_| -> std::future::Ready<()> { panic!("before the first poll") });
        assert_panic(&error_of(parallel([("n", at_once)])).await, "n", "before the first poll");
        let other = NodeDef::task(|_| async {
            if true {
                std::panic::panic_any(7_u8)
            }
        });
        assert_panic(&error_of(parallel([("n", other)])).await, "n", "no message");
    }

    /// The error ends with the location of the `panic!` in the node's code.
    #[tokio::test]
    async fn panic_names_its_source_location() {
        let place = format!("panicked: boom 7 (at {}:{LINE}:", file!());
        let alone = error_of(parallel([("n", panics())])).await.to_string();
        assert!(alone.contains(&place), "{alone}");
        let sibling = error_of(parallel([("a", gives(says("a"))), ("n", panics())])).await.to_string();
        assert!(sibling.contains(&place), "{sibling}");
        let guarded = error_of(parallel([("n", panics().retry(2))])).await.to_string();
        assert!(guarded.contains(&place), "{guarded}");
        let reducer = error_of(parallel([("n", gives(Trace::update().panicky(99)))])).await.to_string();
        assert!(reducer.contains(&format!("99 panics (at {}:", file!())), "{reducer}");
    }

    /// A forwarded panic, such as that of a tokio task, does not get the place of another panic.
    #[tokio::test]
    async fn resumed_panic_has_no_location() {
        fn resumed() {
            assert!(std::panic::catch_unwind(panic_now).is_err());
            std::panic::resume_unwind(Box::new("from elsewhere"));
        }
        let resumed = NodeDef::task(|_| async { resumed() });
        let error = error_of(parallel([("n", resumed)])).await.to_string();
        assert!(error.ends_with("panicked: from elsewhere"), "{error}");
    }

    #[tokio::test]
    async fn panic_after_an_await_is_reported_equally() {
        let late = || NodeDef::task(|_| async { (tokio::task::yield_now().await, panic_now()).1 });
        assert_panic(&error_of(parallel([("n", late())])).await, "n", "boom 7");
        assert_panic(&error_of(parallel([("a", gives(says("a"))), ("n", late())])).await, "n", "boom 7");
    }

    fn routed(siblings: usize) -> GraphBuilder<Trace> {
        let mut graph = parallel([("n", gives(says("n")))]);
        for sibling in 0..siblings {
            let name = format!("s{sibling}");
            graph = graph.node(&name, gives(says("s"))).edge(START, &name).edge(&name, END);
        }
        graph = graph.route("n", "way", [("n", vec!["n"]), ("none", vec![])], |_| -> &str { panic!("lost") });
        graph
    }

    #[tokio::test]
    async fn panic_in_a_route_is_the_error_of_its_node() {
        for siblings in 0..3 {
            assert_panic(&error_of(routed(siblings)).await, "n", "in its route: lost");
        }
        let mut graph = parallel([("n", gives(says("n")))]);
        graph = graph.each(START, "items", "n", |_| -> Vec<u8> { panic!("no items") });
        assert_panic(&error_of(graph).await, "__start__", "in its route: no items");
    }

    #[tokio::test]
    async fn graph_can_run_again_after_a_panic() {
        let runs = AtomicUsize::new(0);
        let mut graph: GraphBuilder<Trace, AtomicUsize> = GraphBuilder::new("again");
        graph = graph.node("n", async |task: Task<Trace, AtomicUsize>| {
            assert!(task.run().context().fetch_add(1, Ordering::SeqCst) > 0, "the first run panics");
        });
        let graph = graph_of(graph);
        assert!(graph.invoke(Trace::update()).context(runs).await.is_err());
        assert!(graph.invoke(Trace::update()).context(AtomicUsize::new(1)).await.is_ok());
    }

    fn graph_of(mut graph: GraphBuilder<Trace, AtomicUsize>) -> hier_core::graph::CompiledGraph<Trace, AtomicUsize> {
        graph = graph.edge(START, "n").edge("n", END);
        graph.compile().unwrap()
    }
}

mod reducers {
    use super::*;

    fn assert_reduce(error: &RunError, channel: &str, node: &str, text: &str) {
        let RunError::Reduce { graph, channel: received, node: blamed, message } = error else { panic!("{error:?}") };
        assert_eq!((graph.as_str(), received.as_str(), blamed.as_str()), ("parallel", channel, node));
        assert!(message.contains(text), "{message}");
        let whole = error.to_string();
        assert!(whole.contains(&format!("`{channel}`")) && whole.contains(&format!("`{node}`")), "{whole}");
    }

    #[tokio::test]
    async fn reducers_error_names_channel_and_node() {
        let graph = parallel([("n", gives(Trace::update().picky(100)))]);
        assert_reduce(&error_of(graph).await, "picky", "n", "100 is too much");
        let graph = parallel([("a", gives(Trace::update().picky(1))), ("n", gives(Trace::update().picky(100)))]);
        assert_reduce(&error_of(graph).await, "picky", "n", "100 is too much");
        let graph = parallel([("a", gives(says("a"))), ("n", gives(Trace::update().panicky(99)))]);
        assert_reduce(&error_of(graph).await, "panicky", "n", "99 panics");
    }

    #[tokio::test]
    async fn overflowing_sum_is_an_error_of_the_last_writer() {
        let graph = parallel([("b", gives(Trace::update().total(100))), ("a", gives(Trace::update().total(28)))]);
        assert_reduce(&error_of(graph).await, "total", "b", "`sum` overflowed");
        let graph = parallel([("b", gives(Trace::update().total(100))), ("a", gives(Trace::update().total(27)))]);
        let out = graph.compile().unwrap().invoke(Trace::update()).await.unwrap();
        assert_eq!(out.state().total, 127);
    }

    #[tokio::test]
    async fn reducer_can_refuse_an_input() {
        let graph = parallel([("n", gives(says("n")))]).compile().unwrap();
        let error = graph.invoke(Trace::update().picky(100)).await.unwrap_err();
        assert_reduce(&error, "picky", "__start__", "100 is too much");
    }

    #[tokio::test]
    async fn reducer_error_before_a_route_names_the_channel() {
        // With a sibling, the route sees a copy, into which its node's writes are merged first.
        let mut graph = parallel([("a", gives(says("a"))), ("n", gives(Trace::update().picky(100)))]);
        graph = graph.route("n", "way", [("a", vec!["a"]), ("none", vec![])], |_| "none");
        let text = error_of(graph).await.to_string();
        assert!(text.contains("`n`") && text.contains("`picky`") && text.contains("100 is too much"), "{text}");
    }
}

mod robust {
    use super::*;

    #[derive(State, Debug, Default, Serialize, Deserialize)]
    struct Mean {
        #[reducer(append)]
        log: Vec<String>,
        mean: bool,
    }

    impl Clone for Mean {
        fn clone(&self) -> Self {
            assert!(!self.mean, "cannot be cloned");
            Self { log: self.log.clone(), mean: self.mean }
        }
    }

    async fn waits() -> MeanUpdate {
        tokio::task::yield_now().await;
        Mean::update().log(["waits".to_owned()])
    }

    fn nowhere(_: &Mean) -> bool {
        false
    }

    graph! { Copies<Mean> = Graph {
        nodes: [waits, also = waits],
        edges: [START >> [waits, also], waits >> if nowhere { also } else { END }, also >> END],
    } }

    #[tokio::test]
    async fn panicking_clone_ends_the_run() {
        // With a sibling, a route needs a copy of the state.
        let error = Copies::compile().invoke(Mean::update().mean(true)).await.unwrap_err();
        assert!(error.to_string().contains("cannot be cloned"), "{error}");
    }

    /// Polls once.
    fn poll_once<F: IntoFuture>(future: F) -> std::task::Poll<F::Output> {
        std::pin::pin!(future.into_future()).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn run_without_a_runtime_names_the_missing_runtime() {
        let ready = parallel([("a", gives(says("a"))), ("b", gives(says("b")))]).compile().unwrap();
        let std::task::Poll::Ready(Ok(out)) = poll_once(ready.invoke(Trace::update())) else {
            panic!("nothing waits here")
        };
        assert_eq!(out.state().log, ["a", "b"]);

        let waiting = || NodeDef::task(|_| async { std::future::pending::<()>().await });
        let waiting = parallel([("a", waiting()), ("b", waiting())]).compile().unwrap();
        let ended = poll_once(waiting.invoke(Trace::update()));
        assert!(matches!(ended, std::task::Poll::Ready(Err(RunError::NoRuntime { .. }))), "{ended:?}");

        let mut events = waiting.stream(Trace::update()).modes([StreamMode::Values]);
        let next = poll_once(events.next());
        assert!(matches!(next, std::task::Poll::Ready(Some(Err(RunError::NoRuntime { .. })))), "{next:?}");
    }

    #[test]
    fn timers_without_a_runtime_are_an_error() {
        let retried = parallel([("a", fails("no").retry(2))]).compile().unwrap();
        let ended = poll_once(retried.invoke(Trace::update()));
        assert!(matches!(ended, std::task::Poll::Ready(Err(_))), "{ended:?}");
        let timed = parallel([("a", fails("no").timeout(std::time::Duration::from_secs(1)))]).compile().unwrap();
        let ended = poll_once(timed.invoke(Trace::update()));
        assert!(matches!(ended, std::task::Poll::Ready(Err(_))), "{ended:?}");
    }
}

mod errors {
    use super::*;

    async fn parses() -> Result<TraceUpdate> {
        let n: u32 = "seven".parse()?;
        Ok(says(n))
    }

    graph! { Parses<Trace> = Graph { nodes: [parses], edges: [START >> parses >> END] } }
    graph! { Around<Trace> = Graph { nodes: [Parses], edges: [START >> Parses >> END] } }

    #[tokio::test]
    async fn error_keeps_its_source_through_every_graph() {
        let error = Around::compile().invoke(Trace::update()).await.unwrap_err();
        let RunError::Node { graph, node, error: inner } = error.root() else { panic!("{error:?}") };
        assert_eq!((graph.as_str(), node.as_str()), ("parses", "parses"));
        assert!(inner.is_transient(), "an unknown error may be retried");
        assert!(inner.source().and_then(|source| source.downcast_ref::<std::num::ParseIntError>()).is_some());
        let text = error.to_string();
        let expected = "node `Parses` of graph `around` failed: node `parses` of graph `parses` failed: \
                        invalid digit found in string";
        assert_eq!(text, expected);
    }
}
