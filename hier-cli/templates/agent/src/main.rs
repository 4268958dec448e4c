use std::io::{BufRead, Write};
use std::sync::Arc;

use {{crate}}::{Assistant, FakeModel};
use hier::agent::{ChatChunk, ChatModel};
use hier::graph::draw;
use hier::prelude::*;
use hier::Event;

#[tokio::main]
async fn main() -> hier::Result<()> {
    draw::on_request(&[Assistant::SPEC]); // for `hier graph`
    let model: Arc<dyn ChatModel> = match std::env::args().nth(1) {
        Some(name) => Arc::new(Model::parse(&name)?),
        None => Arc::new(FakeModel),
    };
    let assistant = Assistant::compile().checkpointer(Sqlite::open("chat.db").await?);
    println!("Write a message. An empty line ends the chat.");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        let context = BaseContext::new(model.clone());
        let mut events = assistant.stream(Message::user(line)).thread("chat").context(context).modes([StreamMode::Messages]);
        while let Some(event) = events.next().await {
            if let Event::Message(piece) = event?
                && let ChatChunk::Text(text) = piece.chunk
            {
                print!("{text}");
                std::io::stdout().flush()?;
            }
        }
        println!();
    }
    Ok(())
}
