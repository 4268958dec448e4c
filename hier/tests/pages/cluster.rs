//! The code of `docs/cluster.md`.

use hier::graph::DynInput;
use hier::prelude::*;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    order: u32,
}

graph! {
    Desk<Filing> = Graph { nodes: [file], edges: [START >> file >> END] }
}

async fn file() {}

async fn worker(context: ()) -> Result<(), hier::restate::Error> {
    hier::restate::Endpoint::new().graph("desk", Desk::compile(), context).serve("127.0.0.1:9080").await
}

async fn program() -> hier::Result<()> {
    let desk = hier::restate::Client::new("http://127.0.0.1:8080").graph("desk");
    let end = desk.invoke(DynInput::New(json!({ "order": 17 }))).thread("order-17").await?;
    Ok(())
}

async fn in_front(context: ()) -> hier::Result<()> {
    use hier::restate::{Client, ClusterRunner, Hub};
    use hier::server::Server;

    let restate = ClusterRunner::new(Client::new("http://127.0.0.1:8080"), Hub::listen("10.0.0.7:9100").await?);
    Server::new()
        .graph("desk", Desk::compile(), context)
        .database("postgres://…")
        .runner(restate)
        .serve("127.0.0.1:8123")
        .await?;
    Ok(())
}
