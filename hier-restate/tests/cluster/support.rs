//! A worker in this process, and a client of it.

use hier_restate::{Client, Endpoint, RemoteGraph, loopback, register};
use uuid::Uuid;

/// The URLs of the ingress and of the admin API, if there is a server.
pub(crate) fn server() -> Option<(String, String)> {
    let (Ok(ingress), Ok(admin)) = (std::env::var("HIER_TEST_RESTATE"), std::env::var("HIER_TEST_RESTATE_ADMIN"))
    else {
        eprintln!("no Restate server: run it with scripts/restate.sh");
        return None;
    };
    Some((ingress, admin))
}

/// Serves what the function adds under a name that no other test has, and returns a client of it; none without a server.
pub(crate) async fn serve(add: impl FnOnce(Endpoint, String) -> Endpoint) -> Option<RemoteGraph> {
    let name = format!("desk-{}", Uuid::new_v4().simple());
    serve_as(&name, |endpoint| add(endpoint, name.clone())).await
}

/// The same under this name: what was served under it before is an older version.
pub(crate) async fn serve_as(name: &str, add: impl FnOnce(Endpoint) -> Endpoint) -> Option<RemoteGraph> {
    let (ingress, admin) = server()?;
    let (listener, address) = loopback().await.expect("a free port");
    tokio::spawn(add(Endpoint::new()).serve_until(listener, std::future::pending::<()>()));
    register(&admin, &format!("http://{address}")).await.expect("the worker is registered");
    Some(Client::new(ingress).graph(name))
}
