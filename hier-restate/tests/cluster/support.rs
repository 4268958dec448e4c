//! A worker in this process, and a client of it.

use std::sync::Arc;

use hier_restate::{Client, Endpoint, RemoteGraph, loopback, register};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

/// The URLs of the ingress and of the admin API.
pub(crate) fn server() -> (String, String) {
    let url =
        |name| std::env::var(name).unwrap_or_else(|_| panic!("`{name}` is not set: run it with scripts/restate.sh"));
    (url("HIER_TEST_RESTATE"), url("HIER_TEST_RESTATE_ADMIN"))
}

/// Serves the graph of a function under a unique name, and returns its client.
pub(crate) async fn serve(add: impl FnOnce(Endpoint, String) -> Endpoint) -> RemoteGraph {
    let name = format!("desk-{}", Uuid::new_v4().simple());
    serve_as(&name, |endpoint| add(endpoint, name.clone())).await
}

/// A network between Restate and a worker.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Notify>);

impl Network {
    /// Like [`serve`], but with this network in between.
    pub(crate) async fn serve(&self, add: impl FnOnce(Endpoint, String) -> Endpoint) -> RemoteGraph {
        let (ingress, admin) = server();
        let name = format!("desk-{}", Uuid::new_v4().simple());
        let (listener, worker) = loopback().await.expect("a free port");
        tokio::spawn(add(Endpoint::new(), name.clone()).serve_until(listener, std::future::pending::<()>()));
        let (front, address) = loopback().await.expect("a free port");
        let breaks = self.0.clone();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = front.accept().await {
                let broken = breaks.clone().notified_owned();
                let mut to = TcpStream::connect(worker).await.expect("the worker listens");
                tokio::spawn(async move {
                    tokio::select! {
                        _ = copy_bidirectional(&mut from, &mut to) => return,
                        () = broken => drop(from),
                    }
                    std::future::pending::<()>().await;
                });
            }
        });
        register(&admin, &format!("http://{address}")).await.expect("the worker is registered");
        Client::new(ingress).graph(name)
    }

    /// Ends all connections on the side of Restate. The worker does not notice this.
    pub(crate) fn break_connections(&self) {
        self.0.notify_waiters();
    }
}

/// Serves a graph under this name. A graph that was served under it before is an older version.
pub(crate) async fn serve_as(name: &str, add: impl FnOnce(Endpoint) -> Endpoint) -> RemoteGraph {
    let (ingress, admin) = server();
    let (listener, address) = loopback().await.expect("a free port");
    tokio::spawn(add(Endpoint::new()).serve_until(listener, std::future::pending::<()>()));
    register(&admin, &format!("http://{address}")).await.expect("the worker is registered");
    Client::new(ingress).graph(name)
}

/// The rows that Restate returns for a query of its tables.
pub(crate) async fn rows(query: &str) -> Vec<Value> {
    let (_, admin) = server();
    let sent = reqwest::Client::new().post(format!("{admin}/query")).header("accept", "application/json");
    let answer = sent.json(&json!({ "query": query })).send().await.unwrap().error_for_status().unwrap();
    let mut answer = answer.json::<Value>().await.unwrap();
    serde_json::from_value(answer["rows"].take()).unwrap()
}

/// The ids of the invocations of a service that have not ended.
pub(crate) async fn invocations(service: &str) -> Vec<String> {
    let query =
        format!("SELECT id FROM sys_invocation WHERE target_service_name = '{service}' AND status != 'completed'");
    rows(&query).await.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
}

/// A door that tasks wait at.
pub(crate) struct Door {
    waiting: Semaphore,
    open: Semaphore,
}

impl Default for Door {
    fn default() -> Self {
        Self { waiting: Semaphore::new(0), open: Semaphore::new(0) }
    }
}

impl Door {
    /// Waits until the door is open for the task.
    pub(crate) async fn pass(&self) {
        self.waiting.add_permits(1);
        self.open.acquire().await.expect("the door exists").forget();
    }

    /// Waits until this number of further tasks wait.
    pub(crate) async fn wait_for(&self, tasks: u32) {
        self.waiting.acquire_many(tasks).await.expect("the door exists").forget();
    }

    /// Opens the door for this number of tasks.
    pub(crate) fn admit(&self, tasks: usize) {
        self.open.add_permits(tasks);
    }
}
