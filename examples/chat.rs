//! A chat in the terminal with several turns, a tool and streamed text.
//!
//! ```text
//! cargo run --example chat                                   without a key: a scripted model
//! cargo run --example chat -- --db chat.db                   keeps the conversation for the next start
//! cargo run --features models --example chat -- --model openai:gpt-4o          a real model
//! ```
//!
//! Each line is a turn. An empty line or the end of the input ends the chat.

use std::io::{BufRead, Write};
use std::sync::Arc;

use clap::Parser;
use hier::Event;
use hier::agent::{AgentEnd, Body, ChatChunk, ChatModel, ChatRequest, Compact};
use hier::checkpoint::{Checkpointer, MemorySaver};
use hier::prelude::*;
use hier::testing::ScriptedModel;
use hier_examples::database;
use serde_json::json;

graph! {
    /// Chats and reports the weather.
    Chat<MessagesState> = Agent {
        system: "You are friendly and brief.",
        tools: [weather],
        // Keeps requests within the model's context, however long the chat becomes.
        layers: [Compact { at: 0.8 }],
    }
}

/// Returns today's weather of a city.
#[tool]
async fn weather(city: String) -> String {
    let skies = ["sunny", "cloudy", "rainy"];
    format!("{} in {city}", skies[city.len() % skies.len()])
}

/// Chats in the terminal.
#[derive(Parser)]
struct Arguments {
    /// The model: `openai:NAME`, `anthropic:NAME`, `ollama:NAME`, or the URL of a server compatible with OpenAI's.
    /// Defaults to a scripted model.
    #[arg(long)]
    model: Option<String>,
    /// The database of the chat: `sqlite:PATH` or `postgres:URL`. Defaults to memory.
    #[arg(long)]
    db: Option<String>,
    /// The name of the chat.
    #[arg(long, default_value = "chat")]
    thread: String,
}

#[tokio::main]
async fn main() -> hier::Result<()> {
    let Arguments { model, db, thread } = Arguments::parse();
    let model: Arc<dyn ChatModel> = match model {
        Some(name) => hier_examples::model(&name)?,
        None => Arc::new(ScriptedModel::reacting(answer)),
    };
    let saver: Arc<dyn Checkpointer> = match db {
        Some(name) => database(&name).await?,
        None => Arc::new(MemorySaver::new()),
    };
    let chat = Chat::compile().checkpointer(saver);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            break;
        }
        let context = BaseContext::new(model.clone());
        let mut events =
            chat.stream(Message::user(line)).thread(&*thread).context(context).modes([StreamMode::Messages]);
        while let Some(event) = events.next().await {
            let Event::Message(spoken) = event? else { continue };
            match spoken.chunk {
                ChatChunk::Text(text) => print!("{text}"),
                ChatChunk::Done(whole) => {
                    whole.message.tool_calls().iter().for_each(|call| print!("[{} {}] ", call.name, call.args));
                }
                _ => {}
            }
            std::io::stdout().flush()?;
        }
        println!();
        match events.outcome().await?.ending() {
            Some(AgentEnd::Text) => {}
            Some(end) => println!("({end})"),
            None => println!("(not finished)"),
        }
    }
    Ok(())
}

/// Answers for the scripted model: requests the weather if a city is named, and otherwise counts messages.
fn answer(request: &ChatRequest) -> Message {
    let said = request.messages.iter().filter(|message| matches!(message.body, Body::User { .. }));
    let said: Vec<String> = said.map(Message::text).collect();
    let (turns, question) = (said.len(), said.last().cloned().unwrap_or_default());
    match request.messages.last().map(|last| (&last.body, last.text())) {
        Some((Body::Tool { .. }, weather)) => Message::assistant(format!("It is {weather}.")),
        _ => match question.split_once("weather in ") {
            Some((_, city)) => Message::call("weather", json!({ "city": city.trim_end_matches(['?', '.', '!']) })),
            None => Message::assistant(format!("Hello! That was your message number {turns}.")),
        },
    }
}
