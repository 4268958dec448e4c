//! The peer over standard input and output: `peer [--old] [--ttl MILLISECONDS] [--tools JSON] [--endless anew|same] [--chatty]`.

use hier_mcp_tests::{Act, Peer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let ttl = args.iter().position(|arg| arg == "--ttl").and_then(|at| args.get(at + 1)?.parse().ok());
    let counts = std::env::var_os("PEER_COUNTS").map(Into::into);
    let old = args.iter().any(|arg| arg == "--old");
    let given = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let tools = given("--tools").map(|tools| serde_json::from_str(tools)).transpose()?;
    let endless = given("--endless").map(|how| how == "anew");
    // A chatty peer writes log lines to standard output, between its answers.
    let is_chatty = args.iter().any(|arg| arg == "--chatty");
    let peer = Peer { old, counts, ttl: ttl.unwrap_or_default(), tools, endless, ..Peer::default() };
    peer.count("start");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut out = tokio::io::stdout();
    let mut asked = None;
    while let Some(line) = lines.next_line().await? {
        let message: Value = serde_json::from_str(&line)?;
        let mut said = Vec::new();
        if message["id"] == "q1" {
            let text = match &message["error"]["message"] {
                Value::Null => format!("you said {}", message["result"]),
                refused => format!("refused: {refused}"),
            };
            let failed = message["error"].is_object();
            let result = json!({"content": [{"type": "text", "text": text}], "isError": failed});
            said.push(json!({"jsonrpc": "2.0", "id": asked.take(), "result": result}));
        } else {
            match peer.act(&message) {
                Act::Answer(answer) => said.push(answer),
                Act::After(first, answer) => said.extend(first.into_iter().chain([answer])),
                Act::Ask(question) => {
                    asked = Some(message["id"].clone());
                    said.push(question);
                }
                Act::Silent => {}
                Act::Hang => std::future::pending::<()>().await,
                Act::Crash => {
                    eprintln!("out of paper");
                    std::process::exit(3);
                }
            }
        }
        if is_chatty {
            out.write_all(b"INFO [server] handled a message\n\n{\"level\": \"info\"}\n").await?;
        }
        for message in said {
            out.write_all(format!("{message}\n").as_bytes()).await?;
        }
        out.flush().await?;
    }
    peer.count("end");
    Ok(())
}
