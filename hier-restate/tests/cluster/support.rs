//! A worker in this process, and a client of it.

use hier_restate::{Client, Endpoint, RemoteGraph, loopback, register};
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

/// Serves a graph under this name. A graph that was served under it before is an older version.
pub(crate) async fn serve_as(name: &str, add: impl FnOnce(Endpoint) -> Endpoint) -> RemoteGraph {
    let (ingress, admin) = server();
    let (listener, address) = loopback().await.expect("a free port");
    tokio::spawn(add(Endpoint::new()).serve_until(listener, std::future::pending::<()>()));
    register(&admin, &format!("http://{address}")).await.expect("the worker is registered");
    Client::new(ingress).graph(name)
}
