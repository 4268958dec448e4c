//! Measures runs per second, and the duration of each.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;

use crate::http::Connection;

/// The number of runs on a thread before its connection uses another one.
const RUNS: usize = 100;
/// Before it counts.
const WARMS_UP: Duration = Duration::from_secs(1);

/// Asks for runs on all connections at once for so long.
pub(crate) async fn measure(address: SocketAddr, durable: bool, connections: usize, lasts: Duration) -> io::Result<()> {
    let counts = Instant::now() + WARMS_UP;
    let mut asking = JoinSet::new();
    for _ in 0..connections {
        asking.spawn(ask(address, durable, counts, counts + lasts));
    }
    let mut took = Vec::new();
    while let Some(done) = asking.join_next().await {
        took.extend(done??);
    }
    took.sort_unstable();
    let millis = |share: f64| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
        let place = (took.len() as f64 * share) as usize;
        took.get(place).map_or(0.0, Duration::as_secs_f64) * 1e3
    };
    #[allow(clippy::cast_precision_loss)]
    let rate = took.len() as f64 / lasts.as_secs_f64();
    let what = if durable { "/threads/{id}/runs/wait" } else { "/runs/wait" };
    println!(
        "{what}, {connections} connections: {rate:.0} runs/s, p50 {:.1} ms, p95 {:.1} ms, p99 {:.1} ms",
        millis(0.5),
        millis(0.95),
        millis(0.99)
    );
    Ok(())
}

async fn ask(address: SocketAddr, durable: bool, counts: Instant, ends: Instant) -> io::Result<Vec<Duration>> {
    let mut connection = Connection::open(address).await?;
    let (mut took, mut number) = (Vec::new(), 0);
    let mut path = "/runs/wait".to_owned();
    let body = if durable {
        r#"{"assistant_id":"one","input":{"n":1},"if_not_exists":"create"}"#
    } else {
        r#"{"assistant_id":"one","input":{"n":1}}"#
    };
    while Instant::now() < ends {
        if durable && number % RUNS == 0 {
            path = format!("/threads/{}/runs/wait", Uuid::now_v7());
        }
        number += 1;
        let began = Instant::now();
        let answer = connection.post(&path, body).await?;
        if !answer.ends_with(br#""n":2}"#) {
            return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
        }
        if began >= counts {
            took.push(began.elapsed());
        }
    }
    Ok(took)
}
