//! Measures the cost of open streams, and checks that a long one is complete.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::http::Connection;

/// The memory that this process has now, in KiB.
fn memory() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
}

async fn new_thread(connection: &mut Connection) -> Result<String, Box<dyn Error>> {
    let made: Value = serde_json::from_slice(&connection.post("/threads", "{}").await?)?;
    Ok(made["thread_id"].as_str().unwrap_or_default().to_owned())
}

/// Opens this many streams, each of a separate thread, then starts a run on each thread and waits for its events.
pub(crate) async fn open(address: SocketAddr, count: usize) -> Result<(), Box<dyn Error>> {
    let before = memory()?;
    let mut maker = Connection::open(address).await?;
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let thread = new_thread(&mut maker).await?;
        let mut stream = Connection::open(address).await?;
        stream.stream("GET", &format!("/threads/{thread}/stream?stream_modes=run_modes"), "", "").await?;
        streams.push((thread, stream));
    }
    // The first heartbeats are behind it then.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let after = memory()?;
    println!(
        "{count} open streams: {} MiB, of them {} KiB each for both ends of the stream",
        after / 1024,
        (after - before) / u64::try_from(count)?.max(1)
    );
    let began = Instant::now();
    let mut received = JoinSet::new();
    for (thread, mut stream) in streams {
        let body = r#"{"assistant_id":"one","input":{"n":1}}"#;
        maker.post(&format!("/threads/{thread}/runs"), body).await?;
        received.spawn(async move {
            while let Some(chunk) = stream.chunk().await? {
                if String::from_utf8_lossy(&chunk).contains("run_done") {
                    return Ok(());
                }
            }
            Err(io::Error::other("a stream ended before its run"))
        });
    }
    while let Some(done) = received.join_next().await {
        done??;
    }
    println!(
        "a run on each, read from its stream: {:.1} s in all, {} MiB then",
        began.elapsed().as_secs_f64(),
        memory()? / 1024
    );
    Ok(())
}

/// Counts the events of a run, and fails if one is missing, or comes twice, or out of order.
async fn counted(mut stream: Connection, events: usize) -> io::Result<()> {
    let mut next = 0;
    let mut rest = String::new();
    while let Some(chunk) = stream.chunk().await? {
        rest.push_str(&String::from_utf8_lossy(&chunk));
        while let Some(end) = rest.find("\n\n") {
            let frame: String = rest.drain(..end + 2).collect();
            if !frame.starts_with("event: custom") {
                continue;
            }
            if !frame.contains(&format!("data: {{\"number\":{next}}}\n")) {
                return Err(io::Error::other(format!("event {next} was expected, and this came: {frame}")));
            }
            next += 1;
        }
    }
    if next == events { Ok(()) } else { Err(io::Error::other(format!("{next} events came of {events}"))) }
}

/// Follows a run that sends this many events.
pub(crate) async fn follow(address: SocketAddr, events: usize) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::open(address).await?;
    let thread = Uuid::now_v7();
    let body = json!({
        "assistant_id": "one", "input": { "n": 1, "events": events }, "stream_mode": ["custom"], "stream_resumable": true,
        "if_not_exists": "create",
    });
    let began = Instant::now();
    let run: Value =
        serde_json::from_slice(&connection.post(&format!("/threads/{thread}/runs"), &body.to_string()).await?)?;
    let path = format!("/threads/{thread}/runs/{}/stream", run["run_id"].as_str().unwrap_or_default());
    let from_the_start = "last-event-id: -1\r\n";
    let mut following = JoinSet::new();
    for _ in 0..4 {
        let mut stream = Connection::open(address).await?;
        stream.stream("GET", &path, from_the_start, "").await?;
        following.spawn(counted(stream, events));
    }
    while let Some(done) = following.join_next().await {
        done??;
    }
    println!(
        "{events} events, followed by 4 clients while they come: {:.1} s, none is missing",
        began.elapsed().as_secs_f64()
    );
    let began = Instant::now();
    connection.stream("GET", &path, from_the_start, "").await?;
    counted(connection, events).await?;
    println!("the same once they are stored: {:.1} s, none is missing", began.elapsed().as_secs_f64());
    Ok(())
}
