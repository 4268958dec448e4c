//! The end of a run is the end of everything in it: by a token, by dropping the future or the stream, by a drain.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::graph::{Failure, Graph};
use hier_core::prelude::*;
use hier_core::{CancellationToken, RunControl, StopReason};
use tokio::sync::Notify;

use support::{Trace, TraceUpdate, says};

async fn node(run: &Run<Desk>) -> TraceUpdate {
    says(run.node())
}

/// The living tasks, and the test's signals to them.
#[derive(Default)]
struct Room {
    alive: AtomicUsize,
    changed: Notify,
    gates: [AtomicBool; 2],
}

type Desk = Arc<Room>;

/// One task that is alive.
struct Guest(Desk);

impl Guest {
    fn new(desk: &Desk) -> Self {
        desk.alive.fetch_add(1, Ordering::SeqCst);
        desk.changed.notify_one();
        Self(desk.clone())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

impl Room {
    fn count(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    /// Waits until this many are alive. Fails the test after a minute.
    async fn until(&self, count: usize) {
        let reached = async {
            while self.count() != count {
                self.changed.notified().await;
            }
        };
        let minute = Duration::from_mins(1);
        tokio::time::timeout(minute, reached).await.unwrap_or_else(|_| panic!("{} alive, not {count}", self.count()));
    }
}

async fn stays(run: &Run<Desk>) {
    let _guest = Guest::new(run.context());
    std::future::pending::<()>().await;
}

/// Waits first, so that it is a task of the runtime by then.
async fn stays_later(run: &Run<Desk>) {
    tokio::task::yield_now().await;
    stays(run).await;
}

async fn item(Sent(_): Sent<u8>, run: &Run<Desk>) {
    stays(run).await;
}

fn items(_: &Trace) -> [u8; 3] {
    [1, 2, 3]
}

graph! { Leaf<Trace, Desk> = Graph {
    nodes: [first = node, x = stays, y = stays_later],
    edges: [START >> first >> [x, y] >> END],
} }
graph! { Middle<Trace, Desk> = Graph { nodes: [Leaf, z = stays], edges: [START >> [Leaf, z] >> END] } }
// Eight tasks that never end: four in subgraphs (one of them alone in its step), three that were sent, one more.
graph! { Tree<Trace, Desk> = Graph {
    nodes: [Middle, Alone, b = stays, item],
    edges: [START >> [Middle, Alone, b] >> END, START >> for n in items { item(n) }, item >> END],
} }
graph! { Alone<Trace, Desk> = Graph { nodes: [stays_later], edges: [START >> stays_later >> END] } }

const TASKS: usize = 8;

mod by_token {
    use super::*;

    async fn cancelled() {
        let (desk, token) = (Desk::default(), CancellationToken::new());
        let config = Config::new().cancel(token.clone());
        let run = tokio::spawn({
            let desk = desk.clone();
            async move { (Tree::compile().invoke(Trace::update()).config(config).context(desk.clone()).await, desk.count()) }
        });
        desk.until(TASKS).await;
        token.cancel();
        let (ended, alive) = run.await.unwrap();
        assert!(matches!(&ended, Err(RunError::Cancelled { graph }) if graph == "tree"), "{ended:?}");
        assert_eq!(alive, 0, "no task outlives its run");
    }

    #[tokio::test]
    async fn token_cancels_the_whole_tree() {
        cancelled().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn token_cancels_the_whole_tree_on_many_threads() {
        for _ in 0..20 {
            cancelled().await;
        }
    }

    #[tokio::test]
    async fn run_cancelled_before_its_start_runs_nothing() {
        let (desk, token) = (Desk::default(), CancellationToken::new());
        token.cancel();
        let config = Config::new().cancel(token);
        let ended = Tree::compile().invoke(Trace::update()).config(config).context(desk.clone()).await;
        assert!(matches!(ended, Err(RunError::Cancelled { .. })));
        assert_eq!(Arc::strong_count(&desk), 1);
    }

    #[tokio::test]
    async fn stream_ends_with_the_cancellation() {
        let (desk, token) = (Desk::default(), CancellationToken::new());
        let config = Config::new().cancel(token.clone());
        let mut events = Tree::compile()
            .stream(Trace::update())
            .config(config)
            .context(desk.clone())
            .modes([StreamMode::Values])
            .start();
        desk.until(TASKS).await;
        token.cancel();
        assert!(matches!(events.next().await, Some(Err(RunError::Cancelled { .. }))));
        assert!(events.next().await.is_none());
        desk.until(0).await;
    }

    async fn computes(run: &Run<Desk>) -> TraceUpdate {
        let _guest = Guest::new(run.context());
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        while !run.is_cancelled() {
            assert!(std::time::Instant::now() < deadline, "never saw the cancellation");
            std::thread::yield_now();
        }
        says("noticed")
    }

    async fn awaits(run: &Run<Desk>) {
        let _guest = Guest::new(run.context());
        if let Some(cancelled) = run.cancelled() {
            cancelled.await;
        }
    }

    graph! { Computes<Trace, Desk> = Graph { nodes: [computes, awaits], edges: [START >> [computes, awaits] >> END] } }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn computing_node_can_check_for_cancellation() {
        let (desk, token) = (Desk::default(), CancellationToken::new());
        let config = Config::new().cancel(token.clone());
        let run = tokio::spawn({
            let desk = desk.clone();
            async move { Computes::compile().invoke(Trace::update()).config(config).context(desk).await }
        });
        desk.until(2).await;
        token.cancel();
        // It is a race whether the run ends or is cancelled. In both cases everything ends.
        let _ = run.await.unwrap();
        desk.until(0).await;
    }

    /// The first of two waits once and is a task of the runtime from then on, which continues with the second. That keeps its
    /// thread until its gate is opened.
    async fn waits_then_blocks(Sent(n): Sent<u8>, run: &Run<Desk>) {
        if n == 1 {
            return tokio::task::yield_now().await;
        }
        let _guest = Guest::new(run.context());
        while !run.context().gates[0].load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    fn two(_: &Trace) -> [u8; 2] {
        [1, 2]
    }

    graph! { Queue<Trace, Desk> = Graph {
        nodes: [waits_then_blocks],
        edges: [START >> for n in two { waits_then_blocks(n) }, waits_then_blocks >> END],
    } }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn cancelled_run_returns_after_its_last_task_ended() {
        let (desk, token) = (Desk::default(), CancellationToken::new());
        let config = Config::new().cancel(token.clone()).max_concurrency(1);
        let run = tokio::spawn({
            let desk = desk.clone();
            async move {
                (Queue::compile().invoke(Trace::update()).config(config).context(desk.clone()).await, desk.count())
            }
        });
        desk.until(1).await;
        token.cancel();
        let early = tokio::time::timeout(Duration::from_millis(100), async {
            while !run.is_finished() {
                tokio::task::yield_now().await;
            }
        });
        let early = early.await.is_ok();
        desk.gates[0].store(true, Ordering::SeqCst);
        assert!(!early, "the run has returned and its task runs on");
        let (ended, alive) = run.await.unwrap();
        assert!(matches!(ended, Err(RunError::Cancelled { .. })), "{ended:?}");
        assert_eq!(alive, 0);
    }
}

mod by_timeout {
    use super::*;

    async fn gives_up(failure: Failure) -> TraceUpdate {
        says(failure.node)
    }

    graph! { Impatient<Trace, Desk> = Graph {
        nodes: [Tree { timeout: 20ms, on_error: gives_up }],
        edges: [START >> Tree >> END],
    } }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn timed_out_subgraph_has_ended_when_the_run_returns() {
        let desk = Desk::default();
        let out = Impatient::compile().invoke(Trace::update()).context(desk.clone()).await.unwrap();
        assert_eq!((out.state().log.as_slice(), desk.count()), (&["Tree".to_owned()][..], 0));
    }
}

mod by_dropping {
    use super::*;

    async fn dropped() {
        let desk = Desk::default();
        let run = tokio::spawn({
            let desk = desk.clone();
            async move { Tree::compile().invoke(Trace::update()).context(desk).await }
        });
        desk.until(TASKS).await;
        run.abort();
        desk.until(0).await;
    }

    #[tokio::test]
    async fn dropping_the_future_cancels_the_whole_tree() {
        dropped().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn dropping_the_future_cancels_the_whole_tree_on_many_threads() {
        for _ in 0..20 {
            dropped().await;
        }
    }

    #[tokio::test]
    async fn dropping_the_stream_cancels_the_whole_tree() {
        let desk = Desk::default();
        let mut events = Tree::compile().stream(says("in")).context(desk.clone()).modes([StreamMode::Values]);
        assert!(events.next().await.is_some());
        desk.until(TASKS).await;
        drop(events);
        desk.until(0).await;
    }

    #[tokio::test]
    async fn queued_tasks_of_a_cancelled_run_never_start() {
        let desk = Desk::default();
        let config = Config::new().max_concurrency(2);
        let run = Tree::compile();
        let run = tokio::spawn({
            let desk = desk.clone();
            async move { run.invoke(Trace::update()).config(config).context(desk).await }
        });
        desk.until(2).await;
        run.abort();
        desk.until(0).await;
        assert!(run.await.unwrap_err().is_cancelled());
        assert_eq!(Arc::strong_count(&desk), 1, "everything of the run is gone");
    }

    /// Blocks its thread until its gate is opened, then never ends.
    async fn gated(run: &Run<Desk>, gate: usize) {
        let _guest = Guest::new(run.context());
        while !run.context().gates[gate].load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        std::future::pending::<()>().await;
    }

    async fn gate0(run: &Run<Desk>) {
        gated(run, 0).await;
    }

    async fn gate1(run: &Run<Desk>) {
        gated(run, 1).await;
    }

    graph! { Gated<Trace, Desk> = Graph { nodes: [a = gate0, b = gate1], edges: [START >> [a, b] >> END] } }

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn task_moved_to_another_thread_is_cancelled() {
        for _ in 0..10 {
            let desk = Desk::default();
            let run = tokio::spawn({
                let desk = desk.clone();
                async move { Gated::compile().invoke(Trace::update()).context(desk).await }
            });
            desk.until(2).await;
            run.abort();
            // The run's own thread comes back first and finds itself cancelled, while the other is still being kept.
            desk.gates[0].store(true, Ordering::SeqCst);
            assert!(run.await.unwrap_err().is_cancelled());
            desk.until(1).await;
            desk.gates[1].store(true, Ordering::SeqCst);
            desk.until(0).await;
        }
    }
}

mod by_drain {
    use super::*;

    async fn node(run: &Run<RunControl>) -> TraceUpdate {
        says(run.node())
    }

    async fn drains(run: &Run<RunControl>) -> TraceUpdate {
        run.context().request_drain("time for bed");
        says(run.node())
    }

    graph! { Drains<Trace, RunControl> = Graph {
        nodes: [drains, left = node, right = node],
        edges: [START >> drains >> [left, right] >> END],
    } }
    graph! { DrainsLast<Trace, RunControl> = Graph { nodes: [node, drains], edges: [START >> node >> drains >> END] } }
    graph! { DrainsInside<Trace, RunControl> = Graph {
        nodes: [Drains, after = node],
        edges: [START >> Drains >> after >> END],
    } }

    async fn ended<G>(control: RunControl) -> Outcome<Trace>
    where
        G: Graph<State = Trace, Context = RunControl, Input = hier_core::graph::FullState, Output = Trace>,
    {
        let config = Config::new().control(control.clone());
        G::compile().invoke(Trace::update()).config(config).context(control).await.unwrap()
    }

    fn assert_stopped(outcome: &Outcome<Trace>, log: &[&str], next: &[&str]) {
        let Outcome::Stopped(stopped) = outcome else { panic!("{outcome:?}") };
        assert_eq!(stopped.reason, StopReason::Drained("time for bed".to_owned()));
        assert_eq!((stopped.state.log.as_slice(), stopped.next.as_slice()), (&owned(log)[..], &owned(next)[..]));
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[tokio::test]
    async fn drain_stops_before_the_next_step() {
        assert_stopped(&ended::<Drains>(RunControl::new()).await, &["drains"], &["left", "right"]);
    }

    #[tokio::test]
    async fn drain_with_nothing_left_to_do_finishes() {
        let outcome = ended::<DrainsLast>(RunControl::new()).await;
        assert!(outcome.is_finished() && outcome.state().log == ["node", "drains"], "{outcome:?}");
    }

    #[tokio::test]
    async fn drain_before_the_start_applies_the_input_only() {
        let control = RunControl::new();
        control.request_drain("time for bed");
        assert_stopped(&ended::<DrainsLast>(control).await, &[], &["node"]);
    }

    #[tokio::test]
    async fn subgraph_is_part_of_its_parents_step() {
        let outcome = ended::<DrainsInside>(RunControl::new()).await;
        assert_stopped(&outcome, &["drains", "left", "right"], &["after"]);
    }
}
