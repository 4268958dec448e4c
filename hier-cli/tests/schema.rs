//! `hier schema`: the types of a graph of a running server as one JSON Schema.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command as Process, Output};

use hier_core::prelude::*;
use hier_server::Server;
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: u32,
    #[reducer(append)]
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Part {
    name: String,
    parts: Vec<Part>,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = Decision)]
struct Pay {
    part: Part,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Confirm;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
enum Decision {
    Pay,
    Refuse { reason: String },
}

async fn pay(invoice: &Invoice, pay: Ask<Pay>, confirm: Ask<Confirm>) -> hier_core::Result<()> {
    pay.ask(Pay { part: Part { name: invoice.amount.to_string(), parts: Vec::new() } }).await?;
    confirm.ask(Confirm).await.map(drop)
}

graph! {
    Approval<Invoice> = Graph { nodes: [pay], edges: [START >> pay >> END], asks: [Pay, Confirm] }
}

async fn schema(arguments: Vec<String>) -> Output {
    let run = move || {
        let mut command = Process::new(env!("CARGO_BIN_EXE_hier"));
        command.arg("schema").args(arguments).env("NO_PROXY", "127.0.0.1").output().expect("the command starts")
    };
    tokio::task::spawn_blocking(run).await.expect("it ends")
}

/// Returns the references of a document that lead nowhere.
fn dangling(value: &Value, document: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str)
                && document.pointer(reference.trim_start_matches('#')).is_none()
            {
                found.push(reference.to_owned());
            }
            fields.values().for_each(|value| dangling(value, document, found));
        }
        Value::Array(items) => items.iter().for_each(|item| dangling(item, document, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn document_has_all_types_of_the_graph() {
    let server =
        Server::new().graph("approval", Approval::compile(), ()).start("127.0.0.1:0").await.expect("it starts");
    let url = format!("http://{}/", server.address());
    let asked = |name: &str| vec![name.to_owned(), "--server".to_owned(), url.clone()];

    let output = schema(asked("approval")).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["title"], "Approval");
    assert_eq!(document["required"], json!(["answers", "input", "output", "questions", "state"]));
    let types = document["$defs"].as_object().expect("types");
    for name in [
        "ApprovalInput",
        "ApprovalState",
        "ApprovalOutput",
        "ApprovalQuestion",
        "ApprovalAnswers",
        "Pay",
        "Confirm",
        "Decision",
        "Part",
    ] {
        assert_eq!(types[name]["title"], name);
    }
    assert_eq!(types["ApprovalQuestion"]["oneOf"], json!([{ "$ref": "#/$defs/Confirm" }, { "$ref": "#/$defs/Pay" }]));
    assert_eq!(types["Pay"]["properties"]["part"], json!({ "$ref": "#/$defs/Part" }));
    assert_eq!(types["Pay"]["properties"]["type"]["const"], "pay");
    assert_eq!(types["ApprovalAnswers"]["properties"]["confirm"], json!({ "type": "boolean" }));
    assert_eq!(types["ApprovalAnswers"]["properties"]["pay"], json!({ "$ref": "#/$defs/Decision" }));
    let mut lost = Vec::new();
    dangling(&document, &document, &mut lost);
    assert_eq!(lost, Vec::<String>::new());

    let alone = schema(asked("").into_iter().skip(1).collect()).await;
    assert_eq!(alone.stdout, output.stdout, "the only graph needs no name");
    let unknown = schema(asked("aproval")).await;
    let text = String::from_utf8_lossy(&unknown.stderr);
    assert!(text.contains("the server has no graph `aproval`; did you mean `approval`?"), "{text}");
    server.stop().await.expect("it stops");
    let gone = schema(asked("approval")).await;
    let text = String::from_utf8_lossy(&gone.stderr);
    assert!(gone.status.code() == Some(2) && text.contains("cannot reach the server"), "{text}");
}

/// More assistants than a page of the server's list has.
#[tokio::test(flavor = "multi_thread")]
async fn graph_is_found_among_many_assistants() {
    let server = Server::new().graph("approval", Approval::compile(), ()).graph("refund", Approval::compile(), ());
    let server = server.start("127.0.0.1:0").await.expect("it starts");
    let url = format!("http://{}", server.address());
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let (assistants, body) = (format!("{url}/assistants"), json!({ "graph_id": "approval" }));
    for _ in 0..1_001 {
        assert!(client.post(&assistants).json(&body).send().await.expect("an answer").status().is_success());
    }
    let output = schema(["refund", "--server", &url].map(str::to_owned).to_vec()).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.stop().await.expect("it stops");
}

/// A program that responds to each request with this head, and with a body without an end.
fn endless(head: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 4_096]);
            let _ = socket.write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes());
            while socket.write_all(&[b'['; 1 << 13]).is_ok() {}
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn response_without_an_end_is_refused() {
    for (head, reason) in [
        ("HTTP/1.1 200 OK", "is not from a hier server: it is larger than 67108864 bytes"),
        ("HTTP/1.1 404 Not Found", "responded with status 404: [[["),
    ] {
        let output = schema(["--server".to_owned(), endless(head)].to_vec()).await;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(reason), "{head}: {}", &text[..text.len().min(500)]);
        assert!(text.len() < 3_000, "{head}: {} bytes", text.len());
    }
}
