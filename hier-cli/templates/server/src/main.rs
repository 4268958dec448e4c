use std::sync::Arc;

use {{crate}}::{Assistant, StandIn};
use hier::agent::ChatModel;
use hier::graph::draw;
use hier::prelude::*;
use hier::server::Server;

#[tokio::main]
async fn main() -> Result<()> {
    draw::on_request(&[Assistant::SPEC]); // for `hier graph`
    let model: Arc<dyn ChatModel> = match std::env::var("MODEL") {
        Ok(name) => Arc::new(Model::parse(&name)?),
        Err(_) => Arc::new(StandIn),
    };
    // Other machines may speak to it once `.auth(…)` says who they are.
    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8123".to_owned());
    let server = Server::new().graph("assistant", Assistant::compile(), BaseContext::new(model));
    let running = server.database("sqlite:threads.db").start(address).await?;
    println!("serving on http://{}", running.address());
    running.until_told().await?; // a signal to stop: streams end, runs go on in the next process
    Ok(())
}
