//! The targets of calls, and the concurrency of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::checkpoint::codec;
use hier_core::graph::DynInput;
use hier_core::prelude::*;
use hier_restate::{Client, loopback};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::support::{Door, invocations, rows, serve, serve_as, server};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[reducer(sum)]
    done: u64,
}

graph! {
    Rush<Desk, Arc<Room>> = Graph {
        nodes: [seed, work],
        edges: [START >> seed >> for item in items { work(item) }, work >> END],
    }
}

const AT_ONCE: usize = 2;
const TASKS: u64 = 8;

/// The current number and the maximum.
struct Room {
    inside: AtomicUsize,
    most: AtomicUsize,
    pair: Barrier,
}

async fn seed() {}

fn items(_: &Desk) -> Vec<u64> {
    (0..TASKS).collect()
}

async fn work(Sent(_item): Sent<u64>, run: &Run<Arc<Room>>) -> DeskUpdate {
    let room = run.context();
    room.most.fetch_max(room.inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    // As many as may be here at once come here at once.
    room.pair.wait().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    room.inside.fetch_sub(1, Ordering::SeqCst);
    Desk::update().done(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn worker_keeps_its_concurrency_limit() {
    let room = Arc::new(Room { inside: 0.into(), most: 0.into(), pair: Barrier::new(AT_ONCE) });
    let context = room.clone();
    let graph = serve(|endpoint, name| endpoint.graph(name, Rush::compile(), context).at_once(AT_ONCE)).await;
    let end = graph.invoke(DynInput::New(json!({}))).thread("rush").await.unwrap();
    assert_eq!(end.state(), &json!({ "done": TASKS }));
    assert_eq!(room.most.load(Ordering::SeqCst), AT_ONCE);
}

graph! {
    Plain<Desk> = Graph {
        nodes: [once],
        edges: [START >> once >> END],
    }
}

async fn once() -> DeskUpdate {
    Desk::update().done(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn client_continues_at_another_node() {
    let (ingress, _) = server();
    let name = format!("plain-{}", Uuid::new_v4().simple());
    serve_as(&name, |endpoint| endpoint.graph(&name, Plain::compile(), ())).await;
    // Nothing listens on this port.
    let nobody = loopback().await.unwrap().1;
    let client = Client::new(format!("http://{nobody}")).patience(Duration::from_secs(20)).another_ingress(ingress);
    let end = client.graph(name).invoke(DynInput::New(json!({}))).thread("plain").await.unwrap();
    assert_eq!(end.state(), &json!({ "done": 1 }));
}

graph! {
    Held<Desk, Arc<Door>> = Graph {
        nodes: [wait],
        edges: [START >> wait >> END],
    }
}

async fn wait(run: &Run<Arc<Door>>) -> DeskUpdate {
    run.context().pass().await;
    Desk::update().done(1)
}

/// The number of values that a worker reads from Restate for the second run of a thread, after a run of another thread.
async fn reads_of_second_run(threads_in_memory: usize) -> usize {
    let (name, door) = (format!("held-{}", Uuid::new_v4().simple()), Arc::new(Door::default()));
    let context = door.clone();
    let graph = serve_as(&name, |endpoint| {
        endpoint.graph(&name, Held::compile(), context).threads_in_memory(threads_in_memory)
    });
    let graph = graph.await;
    let mut reads = 0;
    for thread in ["a", "b", "a"] {
        let client = graph.clone();
        let run = tokio::spawn(async move { client.invoke(DynInput::New(json!({}))).thread(thread).await });
        door.wait_for(1).await;
        let invocation = invocations(&name).await.pop().expect("the run is in progress");
        let query = format!("SELECT entry_type FROM sys_journal WHERE id = '{invocation}'");
        reads = rows(&query).await.iter().filter(|row| row["entry_type"] == "Command: GetLazyState").count();
        door.admit(1);
        assert!(run.await.unwrap().unwrap().is_finished());
    }
    assert_eq!(graph.state("a").await.unwrap().values, json!({ "done": 2 }));
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn worker_keeps_its_limit_of_threads_in_memory() {
    // The first read is that of the thread's metadata, and the second one is that of its log.
    assert_eq!(reads_of_second_run(2).await, 1);
    assert_eq!(reads_of_second_run(1).await, 2);
    assert_eq!(reads_of_second_run(0).await, 2);
}

/// A node that gives these answers, one after the other, and how often it was asked.
async fn node(statuses: &'static [u16]) -> (String, Arc<AtomicUsize>) {
    let (listener, address) = loopback().await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        for status in statuses {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            let body = if *status == 200 { codec::encode(&true).unwrap() } else { Vec::new() };
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
        }
    });
    (format!("http://{address}"), asked)
}

#[tokio::test]
async fn restarted_node_learns_its_workers_later() {
    let (address, asked) = node(&[503, 404, 200, 404, 200]).await;
    let graph = Client::new(address).graph("desk");
    // It could not be reached, and then knows of nothing.
    assert!(graph.cancel("t").await.unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    // It was known before.
    assert!(graph.cancel("t").await.unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 5);
    // An unknown name is reported at once.
    let (address, asked) = node(&[404, 200]).await;
    let error = Client::new(address).graph("desk").cancel("t").await.unwrap_err();
    assert!(error.to_string().contains("no worker with this graph is registered"), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
