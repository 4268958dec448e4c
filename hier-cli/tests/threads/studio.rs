//! `hier studio`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use super::*;

/// The body of an answer over HTTP 1.0: as a whole, and then the connection is closed.
pub(crate) fn asked(address: &str, request: &str, body: &str) -> Value {
    let mut stream = TcpStream::connect(address).expect("the studio listens");
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.0\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.0 200"), "{answer}");
    serde_json::from_str(body).expect("JSON")
}

/// Threads of a program that has a saver and no server: their names are not UUIDs, and no index has them.
#[tokio::test(flavor = "multi_thread")]
async fn studio_opens_a_database_without_the_program() {
    let desk = Desk::new().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_hier"));
    command.args(["studio", "--addr", "127.0.0.1:0", "--db"]).arg(desk.path()).stdout(Stdio::piped());
    let mut studio = command.spawn().expect("the command starts");
    let mut line = String::new();
    BufReader::new(studio.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    let threads = "/studio/api/threads";
    let list = asked(&address, &format!("GET {threads}?q=CASE"), "");
    assert_eq!((&list["total"], &list["threads"][0]["status"]), (&json!(1), &json!("interrupted")));
    let latest = asked(&address, &format!("GET {threads}/case-17/checkpoints/latest"), "");
    assert_eq!((&latest["values"]["amount"], &latest["graph"]), (&json!(12.5), &json!("approval")));
    assert_eq!(latest["tasks"][0]["questions"][0]["value"], json!({ "pay": 12.5 }));
    let all = asked(&address, &format!("GET {threads}/case-17/checkpoints"), "");
    let fork = json!({ "checkpoint": all["checkpoints"][1]["id"] }).to_string();
    let copy = asked(&address, &format!("POST {threads}/case-17/fork"), &fork);
    let copy = copy["thread_id"].as_str().expect("a name");
    assert!(copy.starts_with("case-17 "), "{copy}");
    assert_eq!(desk.ids(copy).await.len(), desk.ids("case-17").await.len() + 1);
    let pruned = asked(&address, &format!("POST {threads}/case-17/prune"), &json!({ "keep": 1 }).to_string());
    assert!(pruned["pruned"].as_u64().is_some_and(|count| count > 0), "{pruned}");
    assert_eq!(desk.ids("case-17").await.len(), 1);
    studio.kill().expect("it ends");
    studio.wait().expect("it has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn studio_serves_only_this_machine_by_default() {
    let desk = Desk::new().await;
    let refused = desk.hier(&["studio", "--addr", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("--open-to-all"), "{}", err(&refused));
}
