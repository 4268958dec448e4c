use std::env;
use std::sync::Arc;

use {{crate}}::{Assistant, FakeModel};
use hier::agent::ChatModel;
use hier::graph::draw;
use hier::prelude::*;
use hier::server::Server;
use hier::server::auth::{Tokens, User};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> hier::Result<()> {
    draw::on_request(&[Assistant::SPEC]); // for `hier graph`
    let model: Arc<dyn ChatModel> = match env::var("MODEL") {
        Ok(name) => Arc::new(Model::parse(&name)?),
        Err(_) => Arc::new(FakeModel),
    };
    let database = env::var("DATABASE").unwrap_or_else(|_| "sqlite:threads.db".to_owned());
    let mut server = Server::new().graph("assistant", Assistant::compile(), BaseContext::new(model)).database(database);
    // Users with the token are `operator`. Without a token, only this machine is served.
    if let Some(token) = env::var("TOKEN").ok().filter(|token| !token.is_empty()) {
        server = server.auth(Tokens::new([(token, User::new("operator"))]));
    }
    let address = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8123".to_owned());
    let running = server.start(address).await?;
    println!("serving on http://{}", running.address());
    running.until_signal().await?; // then streams end, and runs continue in the next process
    Ok(())
}
