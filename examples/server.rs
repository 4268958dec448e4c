//! Graphs as a service for the clients of LangGraph's server: the hierarchy of the README, a desk that asks a person, and a chat.
//!
//! ```text
//! cargo run --features server --example server
//! curl -s localhost:8123/runs/wait -H 'content-type: application/json' \
//!     -d '{"assistant_id": "chat", "input": {"messages": [{"role": "user", "content": "hello"}]}}'
//! ```
//!
//! Python: `langgraph_sdk.get_client(url="http://127.0.0.1:8123")`. The studio is at <http://127.0.0.1:8123/studio>. A page from another
//! origin, such as agent-chat-ui, needs `--allow-origin http://localhost:3000`. The server needs no API key, because its models are
//! scripted. With `--selftest` it serves on a free port and acts as its own client: it runs agents, streams a question and its answer,
//! and holds a chat. It fails if an answer is wrong.

#[path = "filing_desk/desk.rs"]
pub mod filing;

use std::error::Error;

use clap::Parser;
use filing::FilingDesk;
use hier::Result;
use hier::agent::ChatRequest;
use hier::message::ToolCall;
use hier::prelude::*;
use hier::server::Server;
use hier::testing::ScriptedModel;
use serde_json::{Value, json};

// About a fifth faster for servers than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves three graphs.
#[derive(Parser)]
struct Arguments {
    /// The address on which it listens.
    #[arg(long, default_value = "127.0.0.1:8123")]
    addr: String,
    /// The database: `sqlite:PATH` or `postgres://…`. Defaults to memory.
    #[arg(long)]
    db: Option<String>,
    /// Serves other machines without authentication.
    #[arg(long)]
    public: bool,
    /// An origin whose pages may use the server, such as `http://localhost:3000`. Can be repeated.
    #[arg(long)]
    allow_origin: Vec<String>,
    /// Acts as a client of itself, checks the answers and ends.
    #[arg(long)]
    selftest: bool,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    income: f64,
    tax: f64,
    #[reducer(append)]
    notes: Vec<String>,
}

graph! {
    /// Computes a tax, and files it once a person agrees.
    TaxDesk<Case> = Graph {
        nodes: [assess, review, file],
        edges: [START >> assess >> review >> file >> END],
    }
}

async fn assess(case: &Case) -> Result<CaseUpdate> {
    if case.income < 0.0 {
        return Err(NodeError::permanent("an income is not negative"));
    }
    // Seven per cent, in whole cents.
    Ok(Case::update().tax((case.income * 7.0).round() / 100.0))
}

async fn review(case: &Case, run: &Run) -> Result<CaseUpdate> {
    let decision: String = run.interrupt(&json!({ "file": case.tax, "answers": ["yes", "no"] })).await?;
    Ok(Case::update().notes([format!("a person said {decision}")]))
}

async fn file(case: &Case) -> CaseUpdate {
    Case::update().notes([format!("{:.2} filed", case.tax)])
}

graph! {
    /// Chats.
    Chat<MessagesState> = Agent { system: "You are friendly." }
}

/// Repeats the last message of the user.
fn echo(request: &ChatRequest) -> Message {
    let asked = request.messages.iter().rev().find_map(|message| Some(message.content()?.text()));
    Message::assistant(format!("You said: {}", asked.unwrap_or_default()))
}

/// Chooses the next call of each agent of the filing desk from its last one.
fn clerks(request: &ChatRequest) -> Message {
    let call = |name: &str, args: Value| {
        let id = format!("{name}-{}", request.messages.len());
        Message::calls("", [ToolCall { name: name.to_owned(), args, id }])
    };
    if !request.tools.iter().any(|tool| tool.name == "extractor") {
        return call("report_to_supervisor", json!({ "report": "everything matches" }));
    }
    let last = request.messages.iter().rev().find_map(|message| message.tool_calls().first());
    match last.map(|last| (&*last.name, last.args["item"].as_str().unwrap_or_default())) {
        Some(("lookup_rate", _)) => call("todo_write", json!({ "items": ["extract", "match"] })),
        Some(("todo_write", _)) => call("extractor", json!({ "task": "read the documents" })),
        Some(("extractor", _)) => call("todo_complete", json!({ "item": "extract" })),
        Some(("todo_complete", "extract")) => call("matcher", json!({ "task": "match the findings" })),
        Some(("matcher", _)) => call("todo_complete", json!({ "item": "match" })),
        Some(("todo_complete", _)) => call("finish_task", json!({ "result": "the return is filed" })),
        _ => call("lookup_rate", json!({ "year": 2025 })),
    }
}

/// Sends the requests of a client and checks the answers.
async fn selftest(base: &str, origins: &[String]) -> std::result::Result<(), Box<dyn Error>> {
    let client = reqwest::Client::new();
    for (origin, is_allowed) in origins.iter().map(|origin| (&**origin, true)).chain([("http://evil.example", false)]) {
        let answer = client.get(format!("{base}/info")).header("origin", origin).send().await?;
        let allowed = answer.headers().get("access-control-allow-origin").map(reqwest::header::HeaderValue::as_bytes);
        expect(&format!("the origin {origin}"), &json!(allowed == Some(origin.as_bytes())), &json!(is_allowed))?;
    }
    let post = async |path: &str, body: Value| {
        let response = client.post(format!("{base}{path}")).json(&body).send().await?.error_for_status()?;
        response.text().await
    };
    let json = |text: String| serde_json::from_str::<Value>(&text);

    let thread = async || {
        let thread = json(post("/threads", json!({})).await?)?;
        let id = thread["thread_id"].as_str().ok_or("a thread has an id")?;
        Ok::<_, Box<dyn Error>>(format!("/threads/{id}/runs"))
    };

    let (runs, mut found) = (thread().await?, Vec::new());
    for document in ["W-2 of 2025", "receipt of a hotel"] {
        let input = json!({ "messages": [{ "role": "user", "content": format!(" {document} ") }] });
        let filed = json!({ "assistant_id": "filing_desk", "input": input });
        let filed = json(post(&format!("{runs}/wait"), filed).await?)?;
        expect("the report", &filed["current_agent_report"], &json!("the return is filed"))?;
        found.push(json!({ "text": document }));
        expect("the findings", &filed["findings"], &json!(found))?;
    }

    let runs = thread().await?;
    let case = json!({ "assistant_id": "tax_desk", "input": { "income": 52_000.0 } });
    let asked = json(post(&format!("{runs}/wait"), case).await?)?;
    expect("the question", &asked["__interrupt__"][0]["value"]["file"], &json!(3_640.0))?;

    let answer = json!({ "assistant_id": "tax_desk", "command": { "resume": "yes" }, "stream_mode": "updates" });
    let stream = post(&format!("{runs}/stream"), answer).await?;
    let events: Vec<Value> =
        stream.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let last = events.last().ok_or("the stream is empty")?;
    expect("the last event", last, &json!({ "file": { "notes": ["3640.00 filed"] } }))?;

    let said = json!({ "assistant_id": "chat", "input": { "messages": [{ "role": "user", "content": "hello" }] } });
    let chat = json(post("/runs/wait", said).await?)?;
    expect("the answer of the chat", &chat["messages"][1]["content"], &json!("You said: hello"))
}

fn expect(what: &str, found: &Value, wanted: &Value) -> std::result::Result<(), Box<dyn Error>> {
    if found == wanted { Ok(()) } else { Err(format!("{what} is {found} instead of {wanted}").into()) }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let model = |says| BaseContext::new(ScriptedModel::reacting(says));
    let server = Server::new()
        .graph("filing_desk", FilingDesk::compile_as_root(), model(clerks as fn(&ChatRequest) -> Message))
        .graph("tax_desk", TaxDesk::compile(), ())
        .graph("chat", Chat::compile(), model(echo));
    let server = if arguments.public { server.without_auth() } else { server };
    let server = if arguments.allow_origin.is_empty() { server } else { server.allow_origins(&arguments.allow_origin) };
    let server = match arguments.db {
        Some(db) => server.database(db),
        None => server,
    };
    let address = if arguments.selftest { "127.0.0.1:0" } else { &*arguments.addr };
    let running = server.start(address).await?;
    let base = format!("http://{}", running.address());
    if arguments.selftest {
        selftest(&base, &arguments.allow_origin).await?;
        println!("answered on {base}");
        return Ok(running.stop().await?);
    }
    println!("serving on {base}");
    Ok(running.until_signal().await?)
}
