//! Failures and their handling: retry, timeout, error handler, cancellation and drain.
//!
//! Look at the options in braces after the nodes, and at the errors in the output: each names the graph and the node.
//! `NodeError::permanent` prevents further attempts. The run waits for the siblings of a failing node. A handler of
//! `on_error` replaces the failed node.
//!
//! Run it: `cargo run --example failures`

use std::time::{Duration, Instant};

use hier::graph::Failure;
use hier::prelude::*;
use hier::{CancellationToken, Result, RunControl};
use tokio::time::sleep;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Report {
    #[reducer(append)]
    log: Vec<String>,
    #[reducer(sum)]
    rounds: u32,
}

fn log(line: impl Into<String>) -> ReportUpdate {
    let line: String = line.into();
    Report::update().log(line)
}

graph! {
    /// Retries, timeouts, and a handler for final failures.
    Calls<Report> = Graph {
        nodes: [
            flaky { retry: Retry { attempts: 4, interval: 20ms, factor: 2.0, cap: 1s, jitter: 0.1 } },
            slow { timeout: 50ms, on_error: apologise },
            silent { idle_timeout: 40ms, on_error: apologise },
            done,
        ],
        edges: [START >> [flaky, slow, silent], flaky >> done >> END, slow >> END, silent >> END],
    }
}

/// Fails twice, then works.
async fn flaky(run: &Run) -> Result<ReportUpdate> {
    if run.attempt() < 3 {
        return Err(NodeError::new("the line is busy"));
    }
    Ok(log(format!("flaky   worked at attempt {}", run.attempt())))
}

async fn slow() -> ReportUpdate {
    sleep(Duration::from_hours(1)).await;
    log("slow    is back after an hour")
}

/// Sends a few heartbeats and then stops.
async fn silent(run: &Run) -> ReportUpdate {
    for _ in 0..3 {
        sleep(Duration::from_millis(25)).await;
        run.heartbeat();
    }
    sleep(Duration::from_hours(1)).await;
    log("silent  is back after an hour")
}

async fn apologise(failure: Failure) -> ReportUpdate {
    log(format!("{:7} {}", failure.node, failure.error))
}

async fn done() -> ReportUpdate {
    log("done    runs after flaky")
}

graph! {
    /// One of three siblings fails without a handler.
    Siblings<Report> = Graph {
        nodes: [good, bad { retry: 5 }, better],
        edges: [START >> [good, bad, better], good >> END, bad >> END, better >> END],
    }
}

async fn good() -> ReportUpdate {
    log("good")
}

/// Fails permanently, because an invalid input stays invalid. The retry is not used.
async fn bad(report: &Report) -> Result<ReportUpdate> {
    let rate: f64 = "3,5".parse().map_err(|error| NodeError::permanent(format!("the rate `3,5`: {error}")))?;
    Ok(log(format!("the rate is {rate} after {} rounds", report.rounds)))
}

async fn better() -> ReportUpdate {
    sleep(Duration::from_millis(30)).await;
    log("better")
}

graph! {
    /// Loops until it is stopped from outside.
    Rounds<Report> = Graph {
        nodes: [round],
        edges: [START >> round >> if (|report: &Report| report.rounds < 1_000_000) { round } else { END }],
    }
}

async fn round() -> ReportUpdate {
    sleep(Duration::from_millis(5)).await;
    Report::update().rounds(1)
}

fn show(began: Instant, result: Result<Outcome<Report>, RunError>) {
    match result {
        Ok(Outcome::Stopped(stopped)) => {
            println!(
                "  stopped ({}) after {} rounds, next would be {:?}",
                stopped.reason, stopped.state.rounds, stopped.next
            );
        }
        Ok(outcome) => outcome.state().log.iter().for_each(|line| println!("  {line}")),
        Err(error) => println!("  error: {error}"),
    }
    println!("  took {} ms\n", began.elapsed().as_millis());
}

#[tokio::main]
async fn main() {
    let input = Report::update;

    println!("retry, timeout, idle timeout, handlers");
    show(Instant::now(), Calls::compile().invoke(input()).await);

    println!("a failure without a handler");
    show(Instant::now(), Siblings::compile().invoke(input()).await);

    println!("cancelled by a token: at once, within a step");
    let token = CancellationToken::new();
    let run = Rounds::compile();
    let run = run.invoke(input()).cancel(token.clone());
    let began = Instant::now();
    let (result, ()) = tokio::join!(run, async {
        sleep(Duration::from_millis(42)).await;
        token.cancel();
    });
    show(began, result);

    println!("drained: running tasks finish, and the state is kept");
    let control = RunControl::new();
    let run = Rounds::compile();
    let run = run.invoke(input()).control(control.clone());
    let began = Instant::now();
    let (result, ()) = tokio::join!(run, async {
        sleep(Duration::from_millis(42)).await;
        control.request_drain("the shop closes");
    });
    show(began, result);

    println!("dropped: a run whose future is dropped stops");
    let began = Instant::now();
    let run = Rounds::compile();
    let run = tokio::time::timeout(Duration::from_millis(42), run.invoke(input()));
    println!("  {}, took {} ms", if run.await.is_err() { "gone" } else { "finished" }, began.elapsed().as_millis());
}
