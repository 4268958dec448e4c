//! The code of `docs/server.md`.

use std::sync::Arc;
use std::time::Duration;

use hier::CancellationToken;
use hier::prelude::*;
use hier::runs::{EventQuery, NewRun, Request, RunStore};
use hier::worker::Worker;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

graph! {
    Support<BaseState> = Agent { system: "You answer customers." }
}

async fn serve(context: BaseContext, token: &str) -> hier::Result<()> {
    use hier::server::auth::{Tokens, User};

    hier::server::Server::new()
        .graph("support", Support::compile(), context) // the context, or a function that creates it
        .database("postgres://…") // or sqlite:FILE; defaults to memory
        .auth(Tokens::new([(token, User::new("alice"))])) // without users, only this machine has access
        .serve("127.0.0.1:8123")
        .await?;
    Ok(())
}

graph! {
    Review<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] }
}

async fn assess() {}

async fn work(stop: CancellationToken) -> hier::Result<()> {
    let store: Arc<dyn RunStore> = Arc::new(Sqlite::open("desk.db").await?);
    let worker = Worker::new(store.clone()).graph("review", Review::compile().erase(|_| Ok(())));
    let working = tokio::spawn(worker.run_until(stop.clone()));
    let request = Request::input(json!({ "title": "…" }));
    let run = store.create_run(NewRun::new("case-17", "review", request).create_thread()).await?;
    Ok(())
}

async fn follow(store: Arc<dyn RunStore>, last: u64) -> hier::Result<()> {
    let mut changes = store.notifier().thread("case-17");
    loop {
        let page = store.events(EventQuery::after("case-17", last)).await?;
        // … page.events; all events up to the number page.gone were deleted …
        let _ = tokio::time::timeout(Duration::from_secs(5), changes.changed()).await;
    }
}
