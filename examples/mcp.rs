//! Both sides of the Model Context Protocol. This program serves a graph as a tool over its standard input and output (`--serve`). An
//! agent starts it as a child process and calls the tool. The graph asks its client a question, which interrupts the agent's run. The
//! answer continues the same call.
//!
//! `cargo run --features mcp --example mcp`: a scripted model answers, so no key is needed.

use hier::checkpoint::MemorySaver;
use hier::mcp::{McpClient, McpQuestion, McpServer};
use hier::prelude::*;
use hier::testing::ScriptedModel;
use serde_json::json;

// The server's graph: a workflow that asks before it books.

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trip {
    place: String,
    booking: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Nights {
    nights: u32,
}

graph! {
    /// Books a trip to a place.
    BookTrip<Trip> = Graph { nodes: [book], edges: [START >> book >> END] }
}

async fn book(state: &Trip, run: &Run) -> hier::Result<TripUpdate> {
    let asked = format!("How many nights in {}?", state.place);
    let Nights { nights } = run.interrupt(&asked).schema().await?;
    Ok(Trip::update().booking(format!("{nights} nights in {}", state.place)))
}

// The agent's context: the MCP server.

struct Office {
    base: BaseContext,
    travel: McpClient,
}

impl AsRef<BaseContext> for Office {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    /// Answers with the help of the travel server.
    Assistant<MessagesState, Office> = Agent { tools: [|office| &office.travel] }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|arg| arg == "--serve") {
        return Ok(McpServer::new().graph("book_trip", BookTrip::compile(), ()).serve_stdio().await?);
    }
    // The child does not inherit this process's environment.
    let program = std::env::current_exe()?;
    let travel = McpClient::stdio("travel", program.display().to_string()).arg("--serve").build()?;
    let model = ScriptedModel::new([
        Message::call("book_trip", json!({"place": "Rome"})),
        Message::assistant("Your trip is booked."),
    ]);
    let office = || Office { base: BaseContext::new(model.clone()), travel: travel.clone() };
    let assistant = Assistant::compile().checkpointer(MemorySaver::new());
    let thread = || Config::new().thread("case-1");

    let asked = assistant.invoke(Message::user("Book me a trip to Rome.")).config(thread()).context(office()).await?;
    let Outcome::Interrupted(asked) = asked else { return Err("there is no question".into()) };
    let question: McpQuestion = asked.questions[0].parse()?;
    println!("{} asks: {}", question.server, question.message);

    // The answer may take a week. The call is not made again.
    let out = assistant.invoke(Command::resume(json!({"nights": 3}))).config(thread()).context(office()).await?;
    for message in out.state().messages().iter().filter(|message| !message.text().is_empty()) {
        println!("{}", message.text());
    }
    assert_eq!(out.text(), "Your trip is booked.");
    Ok(())
}
