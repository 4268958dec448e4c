//! Workers in separate processes: measures the gain from more workers, and their memory for finished threads.

use std::net::SocketAddr;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use hier_core::graph::DynInput;
use hier_restate::{RemoteGraph, loopback, register};
use serde_json::json;
use tokio::net::TcpStream;

use crate::front::front;
use crate::site::{Site, resident};
use crate::{Failed, graphs, many, median};

/// The duration of a task, the number of tasks of the step, and the number that a worker executes at once.
pub(crate) const TASK: Duration = Duration::from_millis(200);
const TASKS: u64 = 200;
const AT_ONCE: usize = 10;

/// The numbers of ended threads at the first and at the last measurement of memory.
const FIRST: u64 = 1_500;
const LAST: u64 = 15_000;

/// This program as a worker.
pub(crate) struct Worker {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Worker {
    pub(crate) async fn start(at_once: usize) -> Result<Self, Failed> {
        let address = loopback().await?.1;
        let arguments = ["worker", &address.to_string(), &at_once.to_string()];
        let process = Command::new(std::env::current_exe()?).args(arguments).spawn()?;
        let worker = Self { process, address };
        for _ in 0..1_000 {
            if TcpStream::connect(address).await.is_ok() {
                return Ok(worker);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("a worker does not listen".into())
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The role of this program as a worker.
pub(crate) async fn serve(address: &str, at_once: &str) -> Result<(), Failed> {
    Ok(graphs::worker().at_once(at_once.parse()?).serve(address).await?)
}

async fn workers(site: &Site, count: usize) -> Result<Vec<Worker>, Failed> {
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(Worker::start(AT_ONCE).await?);
    }
    let behind: Vec<_> = workers.iter().map(|worker| worker.address).collect();
    register(&site.admin, &format!("http://{}", front(&behind).await?)).await?;
    Ok(workers)
}

/// One wide step on 1, 2 and 4 workers.
pub(crate) async fn speedup(site: &Site, tasks: &RemoteGraph) -> Result<(), Failed> {
    println!(
        "\n| {TASKS} tasks of {} ms, {AT_ONCE} at once in a worker | s | of one worker, linear is 1 |",
        TASK.as_millis()
    );
    println!("|---|---|---|");
    let mut alone = 0.0;
    for count in [1, 2, 4] {
        let _workers = workers(site, count).await?;
        let mut took = Vec::new();
        for time in 0..4 {
            let begun = Instant::now();
            let input = DynInput::New(json!({ "at": 0, "goal": TASKS }));
            let end = tasks.invoke(input).thread(format!("scale-{count}-{time}")).await?;
            if !end.is_finished() {
                return Err("the step does not end".into());
            }
            took.push(begun.elapsed().as_secs_f64());
        }
        // The first finds cold connections.
        let took = median(&mut took[1..]);
        if count == 1 {
            alone = took;
        }
        println!("| {count} | {took:.2} | {:.2} |", alone / took / count as f64);
    }
    Ok(())
}

/// The memory of a worker after some threads have ended and after ten times as many.
pub(crate) async fn memory(site: &Site, narrow: &RemoteGraph) -> Result<(), Failed> {
    let workers = workers(site, 1).await?;
    let [worker] = &workers[..] else { return Err("there is one worker".into()) };
    println!();
    let mut ended = 0;
    while ended < LAST {
        // As many at once as the cache has room for, and no more.
        many(narrow, &format!("memory-{ended}"), 500, 2).await?;
        ended += 500;
        if ended == FIRST || ended == LAST {
            println!("after {ended} finished threads a worker has {} MiB", resident(worker.id())? >> 20);
        }
    }
    Ok(())
}
