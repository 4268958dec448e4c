//! Retries, timeouts, and handlers of final failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::graph::{Failure, Graph, Retry};
use hier_core::prelude::*;
use hier_core::{Event, NodeErrorKind, Result, TimeoutKind};
use tokio::time::{Instant, sleep};

use crate::support::{Trace, TraceUpdate, says};

async fn node(run: &Run<Desk>) -> TraceUpdate {
    says(run.node())
}

const SECOND: Duration = Duration::from_secs(1);

/// When each attempt began, in the seconds since the first.
#[derive(Clone)]
struct Desk(Arc<std::sync::Mutex<Vec<Instant>>>, Arc<AtomicUsize>);

impl Desk {
    fn new() -> Self {
        Self(Arc::default(), Arc::default())
    }

    fn note(&self) {
        self.0.lock().unwrap().push(Instant::now());
    }

    fn times(&self) -> Vec<f64> {
        let times = self.0.lock().unwrap();
        times.iter().map(|time| (*time - times[0]).as_secs_f64()).collect()
    }

    fn dropped(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }
}

/// Counts that it was dropped.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Timers under tokio's paused clock are exact to its millisecond.
fn assert_times(times: &[f64], expected: &[f64]) {
    let close = |(time, expected): (&f64, &f64)| (time - expected).abs() < 0.01;
    assert!(times.len() == expected.len() && times.iter().zip(expected).all(close), "{times:?}, not {expected:?}");
}

mod retries {
    use super::*;

    #[test]
    fn retry_pause_includes_jitter() {
        let retry = Retry { interval: SECOND, factor: 2.0, jitter: 0.5, ..Retry::default() };
        let pauses: Vec<Duration> = (0..100).map(|_| retry.pause(3)).collect();
        assert!(pauses.iter().all(|pause| (4 * SECOND..=6 * SECOND).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "they are random");
        let endless = Retry { interval: Duration::MAX, cap: Duration::MAX, jitter: f64::MAX, ..Retry::default() };
        assert_eq!(endless.pause(u32::MAX), Duration::MAX);
    }

    #[test]
    fn retry_pause_is_bounded_with_extreme_options() {
        let at_once = Retry { interval: Duration::ZERO, jitter: f64::INFINITY, ..Retry::default() };
        for failures in [1, 2, 1_025, u32::MAX] {
            assert_eq!(at_once.pause(failures), Duration::ZERO, "after {failures} failures");
        }
        for jitter in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.0] {
            assert_eq!(Retry { jitter, ..Retry::default() }.pause(2), SECOND, "{jitter}");
        }
        for factor in [f64::INFINITY, f64::NAN, -2.0] {
            let retry = Retry { factor, jitter: 0.0, ..Retry::default() };
            assert_eq!(retry.pause(2), retry.cap, "{factor}");
        }
    }

    async fn fails(run: &Run<Desk>) -> Result<()> {
        run.context().note();
        assert_eq!(usize::try_from(run.attempt()).unwrap(), run.context().times().len());
        Err(NodeError::new(format!("attempt {}", run.attempt())))
    }

    async fn third_time(run: &Run<Desk>) -> Result<TraceUpdate> {
        run.context().note();
        if run.attempt() < 3 { Err(NodeError::new("not yet")) } else { Ok(says(run.attempt())) }
    }

    async fn permanent(run: &Run<Desk>) -> Result<()> {
        run.context().note();
        Err(NodeError::permanent("never"))
    }

    async fn panics(run: &Run<Desk>) -> Result<()> {
        run.context().note();
        panic!("boom");
    }

    graph! { Policy<Trace, Desk> = Graph {
        nodes: [fails { retry: Retry { attempts: 6, interval: 1s, factor: 3.0, cap: 10s, jitter: 0.0 } }],
        edges: [START >> fails >> END],
    } }
    graph! { Jitter<Trace, Desk> = Graph {
        nodes: [fails { retry: Retry { attempts: 4, interval: 8s, factor: 1.0, jitter: 0.5 } }],
        edges: [START >> fails >> END],
    } }
    graph! { Third<Trace, Desk> = Graph { nodes: [third_time { retry: 3 }], edges: [START >> third_time >> END] } }
    graph! { TooFew<Trace, Desk> = Graph { nodes: [third_time { retry: 2 }], edges: [START >> third_time >> END] } }
    graph! { Once<Trace, Desk> = Graph { nodes: [fails { retry: 1 }], edges: [START >> fails >> END] } }
    graph! { Permanent<Trace, Desk> = Graph { nodes: [permanent { retry: 9 }], edges: [START >> permanent >> END] } }
    graph! { Panics<Trace, Desk> = Graph { nodes: [panics { retry: 9 }], edges: [START >> panics >> END] } }
    graph! { Beside<Trace, Desk> = Graph {
        nodes: [third_time { retry: 3 }, node],
        edges: [START >> [third_time, node] >> END],
    } }

    async fn times<G>() -> (Vec<f64>, Result<Vec<String>, RunError>)
    where
        G: Graph<State = Trace, Context = Desk, Input = hier_core::graph::FullState, Output = Trace>,
    {
        let desk = Desk::new();
        let ended = G::compile().invoke(Trace::update()).context(desk.clone()).await;
        (desk.times(), ended.map(|out| out.into_state().log))
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_up_to_the_cap_and_the_last_error_is_raised() {
        let (times, ended) = times::<Policy>().await;
        assert_times(&times, &[0.0, 1.0, 4.0, 13.0, 23.0, 33.0]);
        assert!(ended.unwrap_err().to_string().ends_with("attempt 6"));
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_adds_a_part_of_the_wait() {
        let (times, _) = times::<Jitter>().await;
        for pair in times.windows(2) {
            let wait = pair[1] - pair[0];
            assert!((8.0..=12.01).contains(&wait), "{wait}");
        }
        assert_eq!(times.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn retry_count_is_the_number_of_attempts() {
        let (times_of_three, ended) = times::<Third>().await;
        assert_eq!((times_of_three.len(), ended.unwrap()), (3, vec!["3".to_owned()]));
        let (times_of_two, ended) = times::<TooFew>().await;
        assert!(times_of_two.len() == 2 && ended.is_err());
        assert_eq!(times::<Once>().await.0.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_errors_and_panics_are_not_retried() {
        assert_eq!(times::<Permanent>().await.0.len(), 1);
        assert_eq!(times::<Panics>().await.0.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn siblings_are_not_run_again() {
        let (times, ended) = times::<Beside>().await;
        assert_eq!((times.len(), ended.unwrap()), (3, vec!["node".to_owned(), "3".to_owned()]));
    }
}

mod timeouts {
    use super::*;

    async fn hangs(run: &Run<Desk>) {
        run.context().note();
        let _guard = Guard(run.context().1.clone());
        loop {
            sleep(SECOND).await;
            run.heartbeat();
        }
    }

    async fn beats(run: &Run<Desk>) {
        for beat in 0..10 {
            sleep(SECOND).await;
            if beat % 2 == 0 { run.heartbeat() } else { run.emit(beat) }
        }
    }

    async fn idles(run: &Run<Desk>) {
        run.heartbeat();
        sleep(SECOND).await;
        run.heartbeat();
        std::future::pending::<()>().await;
    }

    graph! { Run5<Trace, Desk> = Graph { nodes: [hangs { timeout: 5s }], edges: [START >> hangs >> END] } }
    graph! { Retried<Trace, Desk> = Graph {
        nodes: [hangs { timeout: 2s, retry: Retry { attempts: 3, interval: 1s, factor: 1.0, jitter: 0.0 } }],
        edges: [START >> hangs >> END],
    } }
    graph! { Beats<Trace, Desk> = Graph { nodes: [beats { idle_timeout: 1500ms }], edges: [START >> beats >> END] } }
    graph! { Idles<Trace, Desk> = Graph { nodes: [idles { idle_timeout: 3s }], edges: [START >> idles >> END] } }
    async fn naps() {
        sleep(SECOND).await;
    }

    graph! { Naps<Trace, Desk> = Graph {
        nodes: [first = naps, second = naps, beats],
        edges: [START >> first >> second >> beats >> END],
    } }
    graph! { AroundNaps<Trace, Desk> = Graph { nodes: [Naps { idle_timeout: 1500ms }], edges: [START >> Naps >> END] } }
    graph! { InnerIdles<Trace, Desk> = Graph { nodes: [naps, idles], edges: [START >> naps >> idles >> END] } }
    graph! { AroundIdles<Trace, Desk> = Graph {
        nodes: [InnerIdles { idle_timeout: 3s }],
        edges: [START >> InnerIdles >> END],
    } }
    graph! { Patient<Trace, Desk> = Graph {
        nodes: [naps { idle_timeout: Duration::MAX, timeout: Duration::MAX }],
        edges: [START >> naps >> END],
    } }
    graph! { Both<Trace, Desk> = Graph {
        nodes: [hangs { idle_timeout: 3s, timeout: 1m }, node],
        edges: [START >> [hangs, node] >> END],
    } }

    /// Returns the time, kind and limit of a graph's timeout.
    async fn expires<G>(desk: &Desk) -> (f64, TimeoutKind, Duration)
    where
        G: Graph<State = Trace, Context = Desk, Input = hier_core::graph::FullState, Output = Trace>,
    {
        let begin = Instant::now();
        let error = G::compile().invoke(Trace::update()).context(desk.clone()).await.unwrap_err();
        let RunError::Node { error, .. } = error else { panic!("{error:?}") };
        let NodeErrorKind::Timeout { kind, limit } = error.kind() else { panic!("{error:?}") };
        assert!(error.is_transient());
        (begin.elapsed().as_secs_f64(), *kind, *limit)
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_bounds_an_attempt_despite_heartbeats() {
        let desk = Desk::new();
        let (time, kind, limit) = expires::<Run5>(&desk).await;
        assert_times(&[time], &[5.0]);
        assert_eq!((kind, limit), (TimeoutKind::Run, 5 * SECOND));
        assert_eq!(desk.dropped(), 1, "the attempt is dropped");
        let (time, kind, _) = expires::<Both>(&desk).await;
        assert_times(&[time], &[60.0]);
        assert_eq!(kind, TimeoutKind::Run);
    }

    #[tokio::test(start_paused = true)]
    async fn each_attempt_has_the_whole_timeout() {
        let desk = Desk::new();
        let (time, ..) = expires::<Retried>(&desk).await;
        assert_times(&[time], &[8.0]);
        assert_times(&desk.times(), &[0.0, 3.0, 6.0]);
        assert_eq!(desk.dropped(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_extend_the_idle_timeout() {
        let begin = Instant::now();
        let out = Beats::compile().invoke(Trace::update()).context(Desk::new()).await.unwrap();
        assert!(out.is_finished());
        assert_times(&[begin.elapsed().as_secs_f64()], &[10.0]);
        let (time, kind, limit) = expires::<Idles>(&Desk::new()).await;
        assert_times(&[time], &[4.0]);
        assert_eq!((kind, limit), (TimeoutKind::Idle, 3 * SECOND));
    }

    /// The error says what, where, which limit, and where that is set.
    #[tokio::test(start_paused = true)]
    async fn timeout_error_names_its_option() {
        let run = Run5::compile().invoke(Trace::update()).context(Desk::new()).await.unwrap_err();
        assert_eq!(
            run.to_string(),
            "node `hangs` of graph `run5` failed: took longer than 5s, the limit that the node's option `timeout` sets"
        );
        let idle = Idles::compile().invoke(Trace::update()).context(Desk::new()).await.unwrap_err();
        assert_eq!(
            idle.to_string(),
            "node `idles` of graph `idles` failed: made no progress for 3s, the limit that the node's option `idle_timeout` sets: \
             call `run.heartbeat()` during long work, or raise the limit"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_of_any_length_is_accepted() {
        let out = Patient::compile().invoke(Trace::update()).context(Desk::new()).await.unwrap();
        assert!(out.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn activity_in_a_subgraph_extends_the_idle_timeout() {
        let begin = Instant::now();
        let out = AroundNaps::compile().invoke(Trace::update()).context(Desk::new()).await.unwrap();
        assert!(out.is_finished());
        assert_times(&[begin.elapsed().as_secs_f64()], &[12.0]);
        let (time, kind, _) = expires::<AroundIdles>(&Desk::new()).await;
        assert_times(&[time], &[5.0]);
        assert_eq!(kind, TimeoutKind::Idle);
    }
}

mod handlers {
    use super::*;

    async fn fails(run: &Run<Desk>) -> Result<TraceUpdate> {
        run.context().note();
        Err(NodeError::new("broken"))
    }

    async fn tells(failure: Failure, state: &Trace, run: &Run<Desk>) -> TraceUpdate {
        says(format!("{} {} {} {}", failure.node, failure.error, state.log.len(), run.node()))
    }

    async fn jumps(failure: Failure) -> Command<Trace> {
        Command::update(says(failure.error)).goto(Jumps::b)
    }

    async fn fails_too(failure: Failure) -> Result<()> {
        Err(NodeError::new(format!("the handler of `{}` failed", failure.node)))
    }

    async fn item(Sent(n): Sent<u8>) -> Result<()> {
        Err(NodeError::new(n.to_string()))
    }

    async fn item_failed(Sent(n): Sent<u8>, failure: Failure) -> TraceUpdate {
        says(format!("item {n} {}", failure.error))
    }

    fn items(_: &Trace) -> [u8; 2] {
        [4, 5]
    }

    graph! { Tells<Trace, Desk> = Graph {
        nodes: [node, a = fails { retry: 2, on_error: tells }, sibling = node, b = node],
        edges: [START >> node >> [a, sibling], a >> b >> END, sibling >> END],
    } }
    graph! { Jumps<Trace, Desk> = Graph {
        nodes: [a = fails { on_error: jumps, goto: [b] }, b = node, c = node],
        edges: [START >> a >> c >> END, b >> END],
    } }
    graph! { FailsToo<Trace, Desk> = Graph {
        nodes: [a = fails { on_error: fails_too }],
        edges: [START >> a >> END],
    } }
    graph! { Items<Trace, Desk> = Graph {
        nodes: [item { on_error: item_failed }],
        edges: [START >> for n in items { item(n) }, item >> END],
    } }

    async fn log<G>(desk: &Desk) -> Result<Vec<String>, RunError>
    where
        G: Graph<State = Trace, Context = Desk, Input = hier_core::graph::FullState, Output = Trace>,
    {
        let out = G::compile().invoke(Trace::update()).context(desk.clone()).await?;
        Ok(out.into_state().log)
    }

    #[tokio::test(start_paused = true)]
    async fn handler_takes_over_after_the_last_attempt_and_its_edges_are_not_followed() {
        let desk = Desk::new();
        let log = log::<Tells>(&desk).await.unwrap();
        assert_eq!(log, ["node", "a broken 1 a", "sibling"], "without a goto the branch ends");
        assert_eq!(desk.times().len(), 2);
    }

    #[tokio::test]
    async fn handler_can_choose_the_next_node() {
        assert_eq!(log::<Jumps>(&Desk::new()).await.unwrap(), ["broken", "b"]);
    }

    #[tokio::test]
    async fn handler_that_fails_fails_the_run() {
        let error = log::<FailsToo>(&Desk::new()).await.unwrap_err();
        assert!(matches!(&error, RunError::Node { node, .. } if node == "a"));
        assert!(error.to_string().ends_with("the handler of `a` failed"), "{error}");
    }

    #[tokio::test]
    async fn handler_receives_the_payload_of_its_node() {
        assert_eq!(log::<Items>(&Desk::new()).await.unwrap(), ["item 4 4", "item 5 5"]);
    }

    #[tokio::test]
    async fn update_of_a_handler_has_its_own_name() {
        let mut events = Jumps::compile().stream(Trace::update()).context(Desk::new()).modes([StreamMode::Updates]);
        let mut nodes = Vec::new();
        while let Some(Ok(Event::Updates(update))) = events.next().await {
            nodes.push(update.node);
        }
        assert_eq!(nodes, ["__error_handler__a", "b"]);
    }
}
