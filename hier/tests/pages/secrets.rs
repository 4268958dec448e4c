//! The code of `docs/secrets.md`.

use hier::checkpoint::{Key, Sqlite};
use hier::prelude::*;

#[derive(State, Clone, Default)]
struct Desk {
    #[channel(secret)]
    token: String,
    answer: Option<String>,
}

#[derive(View)]
#[view(of = Desk)]
struct Access<'a> {
    token: &'a String,
}

async fn call_bank(access: Access<'_>) -> DeskUpdate {
    Desk::update().answer(format!("a token with {} characters", access.token.len()))
}

graph! { Bank<Desk> = Graph { nodes: [call_bank], edges: [START >> call_bank >> END] } }

async fn serve_customer(key: &Key) -> hier::Result<()> {
    let saver = Sqlite::options().encrypt(key).open("desk.db").await?;
    let graph = Bank::compile().checkpointer(saver);
    let out = graph.invoke(Desk::update().token("s3cr3t")).thread("case-17").await?;
    println!("{:?}", out.state()); // Desk { token: [secret], answer: Some("a token with 6 characters") }
    Ok(())
}
