//! Concurrency of the tasks of a step.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::graph::Graph;
use hier_core::prelude::*;
use tokio::time::{Instant, sleep};

use support::{Trace, TraceUpdate, says};

/// The numbers of running tasks: at most and in all.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
    total: AtomicUsize,
}

type Desk = Arc<Gauge>;

impl Gauge {
    fn enter(&self) {
        self.total.fetch_add(1, Ordering::SeqCst);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    /// Keeps the thread until `count` tasks are here at the same time.
    fn meet(&self, count: usize) {
        let arrived = self.total.fetch_add(1, Ordering::SeqCst);
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        while self.total.load(Ordering::SeqCst) < count {
            assert!(std::time::Instant::now() < deadline, "task {arrived} was left alone on its thread");
            std::thread::yield_now();
        }
    }
}

fn items(_: &Trace) -> std::ops::Range<u32> {
    0..20
}

mod limits {
    use super::*;

    async fn item(Sent(n): Sent<u32>, run: &Run<Desk>) -> TraceUpdate {
        run.context().enter();
        sleep(Duration::from_millis(10)).await;
        run.context().leave();
        says(n)
    }

    /// Ends without waiting if its number is even.
    async fn mixed(Sent(n): Sent<u32>, run: &Run<Desk>) -> TraceUpdate {
        run.context().enter();
        if n % 2 == 1 {
            tokio::task::yield_now().await;
        }
        run.context().leave();
        says(n)
    }

    graph! { Items<Trace, Desk> = Graph {
        nodes: [item],
        edges: [START >> for n in items { item(n) }, item >> END],
    } }
    graph! { Mixed<Trace, Desk> = Graph {
        nodes: [mixed],
        edges: [START >> for n in items { mixed(n) }, mixed >> END],
    } }

    fn numbers() -> Vec<String> {
        (0..20).map(|n| n.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn concurrency_limit_is_reached_and_not_exceeded() {
        for (limit, most, waves) in [(1, 1, 20), (3, 3, 7), (19, 19, 2), (20, 20, 1), (99, 20, 1)] {
            let (desk, begin) = (Desk::default(), Instant::now());
            let config = Config::new().max_concurrency(limit);
            let out = Items::compile().invoke(Trace::update()).config(config).context(desk.clone()).await.unwrap();
            assert_eq!(out.state().log, numbers());
            assert_eq!(desk.most.load(Ordering::SeqCst), most, "limit {limit}");
            assert_eq!(begin.elapsed().as_millis() / 10, waves, "limit {limit}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn limit_holds_on_many_threads() {
        for limit in 1..6 {
            for _ in 0..20 {
                let desk = Desk::default();
                let config = Config::new().max_concurrency(limit);
                let out = Mixed::compile().invoke(Trace::update()).config(config).context(desk.clone()).await.unwrap();
                assert_eq!(out.state().log, numbers());
                assert!(desk.most.load(Ordering::SeqCst) <= limit, "limit {limit}");
                assert_eq!(desk.total.load(Ordering::SeqCst), 20);
            }
        }
    }

    #[tokio::test]
    async fn zero_concurrency_is_refused() {
        let config = Config::new().max_concurrency(0);
        let ended = Items::compile().invoke(Trace::update()).config(config).context(Desk::default()).await;
        assert!(matches!(ended, Err(RunError::Config(text)) if text.contains("`max_concurrency`")));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_overlap() {
        let begin = Instant::now();
        let _ = Items::compile().invoke(Trace::update()).context(Desk::default()).await.unwrap();
        assert_eq!(begin.elapsed().as_millis() / 10, 1, "twenty waits of 10 ms take as long as one");
    }
}

mod cores {
    use super::*;

    /// Keeps its thread until its sibling has come.
    async fn meets(run: &Run<Desk>) -> TraceUpdate {
        run.context().meet(2);
        says(run.node())
    }

    async fn waits_and_meets(run: &Run<Desk>) -> TraceUpdate {
        tokio::task::yield_now().await;
        run.context().meet(2);
        says(run.node())
    }

    async fn comes_late(run: &Run<Desk>) -> TraceUpdate {
        sleep(Duration::from_millis(1)).await;
        run.context().meet(2);
        says(run.node())
    }

    async fn trivial() {}

    graph! { AtOnce<Trace, Desk> = Graph { nodes: [a = meets, b = meets], edges: [START >> [a, b] >> END] } }
    graph! { Behind<Trace, Desk> = Graph {
        nodes: [a = meets, b = trivial, c = trivial, d = meets],
        edges: [START >> [a, b, c, d] >> END],
    } }
    graph! { AfterAWait<Trace, Desk> = Graph {
        nodes: [a = waits_and_meets, b = waits_and_meets],
        edges: [START >> [a, b] >> END],
    } }
    graph! { WaiterFirst<Trace, Desk> = Graph {
        nodes: [a = waits_and_meets, b = meets],
        edges: [START >> [a, b] >> END],
    } }
    graph! { LateFirst<Trace, Desk> = Graph {
        nodes: [a = comes_late, b = meets],
        edges: [START >> [a, b] >> END],
    } }
    graph! { BusyFirst<Trace, Desk> = Graph {
        nodes: [a = meets, b = comes_late],
        edges: [START >> [a, b] >> END],
    } }
    graph! { Inner<Trace, Desk> = Graph { nodes: [trivial, meets], edges: [START >> trivial >> meets >> END] } }
    graph! { InSubgraphs<Trace, Desk> = Graph { nodes: [a = Inner, b = Inner], edges: [START >> [a, b] >> END] } }

    /// Runs the graph from the thread of the test and from a worker.
    async fn both_ways<G>() -> usize
    where
        G: Graph<State = Trace, Context = Desk, Input = hier_core::graph::FullState, Output = Trace>,
    {
        let graph = G::compile();
        let outside = graph.invoke(Trace::update()).context(Desk::default()).await.unwrap();
        let stream = graph.stream(Trace::update()).context(Desk::default()).modes([StreamMode::Values]);
        let inside = stream.outcome().await.unwrap();
        assert_eq!(outside.state().log, inside.state().log);
        inside.state().log.len()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_busy_tasks_run_on_two_threads() {
        assert_eq!(both_ways::<AtOnce>().await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn busy_task_does_not_delay_later_tasks() {
        assert_eq!(both_ways::<Behind>().await, 2);
        assert_eq!(both_ways::<BusyFirst>().await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tasks_that_waited_run_on_two_threads() {
        assert_eq!(both_ways::<AfterAWait>().await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn busy_task_does_not_delay_a_waiting_task() {
        assert_eq!(both_ways::<WaiterFirst>().await, 2);
        assert_eq!(both_ways::<LateFirst>().await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn subgraphs_are_tasks_too() {
        assert_eq!(both_ways::<InSubgraphs>().await, 2);
    }
}

mod fairness {
    use super::*;

    fn on(state: &Trace) -> bool {
        state.log.is_empty()
    }

    async fn never_waits() {}

    async fn stops(run: &Run<Desk>) -> TraceUpdate {
        // Nothing here waits, and yet another task on this thread has set the flag.
        if run.context().now.load(Ordering::SeqCst) > 0 { says("seen") } else { Trace::update() }
    }

    graph! { Spins<Trace, Desk> = Graph {
        nodes: [never_waits, stops],
        edges: [START >> never_waits >> stops >> if on { never_waits } else { END }],
    } }

    #[tokio::test]
    async fn busy_run_yields_to_other_runs() {
        let desk = Desk::default();
        let other = desk.clone();
        let other = tokio::spawn(async move { other.enter() });
        let config = Config::new().recursion_limit(1_000_000);
        let out = Spins::compile().invoke(Trace::update()).config(config).context(desk).await.unwrap();
        assert_eq!(out.state().log, ["seen"]);
        other.await.unwrap();
    }
}

mod deep {
    use super::*;

    async fn leaf(Sent(n): Sent<u32>) -> TraceUpdate {
        for _ in 0..n % 5 {
            tokio::task::yield_now().await;
        }
        says(n)
    }

    fn many(_: &Trace) -> std::ops::Range<u32> {
        0..10_000
    }

    graph! { Wide<Trace> = Graph {
        nodes: [leaf],
        edges: [START >> for n in many { leaf(n) }, leaf >> END],
    } }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn ten_thousand_tasks_keep_their_order() {
        let out = Wide::compile().invoke(Trace::update()).await.unwrap();
        assert!(out.state().log.iter().enumerate().all(|(n, text)| *text == n.to_string()));
        assert_eq!(out.state().log.len(), 10_000);
    }
}
