//! Graphs as tools of a server, over HTTP.

mod declined;
mod ends;
mod sessions;
mod tasks;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{Approval, ApprovalRequest};
use hier_core::checkpoint::MemorySaver;
use hier_core::message::ToolCall;
use hier_core::{CancellationToken, Result};
use hier_mcp::{McpClient, McpError, McpServer, SealKey};
use hier_mcp_tests::agent::{Helper, answers, desk};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trip {
    place: String,
    booking: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Nights {
    nights: u32,
}

/// Records of the server's graphs.
#[derive(Clone, Debug, Default)]
struct Office {
    begun: Arc<AtomicUsize>,
    booked: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

graph! {
    /// Books a trip.
    Book<Trip, Office> = Graph { nodes: [begin, book], edges: [START >> begin >> book >> END] }
}

graph! {
    /// Waits.
    Wait<Trip, Office> = Graph { nodes: [wait], edges: [START >> wait >> END] }
}

async fn begin(run: &Run<Office>) {
    run.context().begun.fetch_add(1, Ordering::SeqCst);
}

async fn book(state: &Trip, run: &Run<Office>) -> Result<TripUpdate> {
    let asked = json!({"key": "nights", "message": format!("How many nights in {}?", state.place)});
    let Nights { nights } = run.interrupt(&asked).schema().await?;
    let approve = ApprovalRequest {
        agent: "office".to_owned(),
        call: ToolCall { name: "pay".into(), args: json!({}), id: "1".into() },
    };
    if !matches!(run.interrupt::<Approval>(&approve).await?, Approval::Approve) {
        return Ok(Trip::update().booking("none"));
    }
    run.context().booked.fetch_add(1, Ordering::SeqCst);
    Ok(Trip::update().booking(format!("{nights} nights in {}", state.place)))
}

async fn wait(run: &Run<Office>) -> Result<()> {
    struct DropCounter(Arc<AtomicUsize>);
    impl Drop for DropCounter {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let _counter = DropCounter(run.context().dropped.clone());
    run.context().begun.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(10)).await;
    Ok(())
}

/// Serves, and says where.
async fn serve(server: McpServer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.serve_on(listener, CancellationToken::new()));
    format!("http://{address}/mcp")
}

fn server(office: &Office) -> McpServer {
    McpServer::new().graph("book", Book::compile(), office.clone()).graph("wait", Wait::compile(), office.clone())
}

/// A request as the protocol has it, written by hand; its answer.
async fn post(url: &str, method: &str, params: Value, capabilities: Value) -> Value {
    events(url, method, params, capabilities).await.pop().unwrap()
}

/// A request, with its notifications and its answer.
async fn events(url: &str, method: &str, mut params: Value, capabilities: Value) -> Vec<Value> {
    params["_meta"] = json!({
        "progressToken": "p",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).unwrap_or_default().to_owned();
    let mut request = reqwest::Client::new()
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    if !name.is_empty() {
        request = request.header("mcp-name", name);
    }
    let text = request.json(&body).send().await.unwrap().text().await.unwrap();
    let read = |json: &str| serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"));
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let events: Vec<Value> = data.filter(|data| data.starts_with('{')).map(read).collect();
    if events.is_empty() { vec![read(&text)] } else { events }
}

async fn call(url: &str, params: Value) -> Value {
    post(url, "tools/call", params, json!({"elicitation": {"form": {}}})).await
}

#[allow(clippy::needless_pass_by_value)] // what is given is written where it is given
fn accepted(key: &str, content: Value) -> Value {
    json!({key: {"action": "accept", "content": content}})
}

#[tokio::test]
async fn interrupt_is_a_question_answered_once() {
    let office = Office::default();
    let url = serve(server(&office)).await;
    let asked = call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    let first = &asked["result"];
    assert_eq!(first["resultType"], "input_required", "{asked}");
    let request = &first["inputRequests"]["nights"];
    assert_eq!(request["params"]["message"], "How many nights in Rome?");
    assert_eq!(request["params"]["requestedSchema"]["properties"]["nights"]["type"], "integer");
    let state = first["requestState"].as_str().unwrap();

    // Missing and mismatched answers are requested again, and nothing has changed.
    for responses in [
        json!({}),
        accepted("other", json!({"nights": 1})),
        accepted("nights", json!({"nights": "many"})),
        json!({"nights": 3}),
    ] {
        let again = call(&url, json!({"name": "book", "inputResponses": responses, "requestState": state})).await;
        assert_eq!(
            again["result"]["inputRequests"]["nights"]["params"]["message"], "How many nights in Rome?",
            "{again}"
        );
    }

    let given =
        json!({"name": "book", "inputResponses": accepted("nights", json!({"nights": 3})), "requestState": state});
    let second = call(&url, given.clone()).await;
    let second = &second["result"];
    let (id, request) = second["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["params"]["message"], "`office` wants to call `pay` with {}");
    let next = second["requestState"].as_str().unwrap();
    assert_ne!(next, state);

    // The state that was answered is of no use any more.
    let replayed = call(&url, given).await;
    assert!(replayed["error"]["message"].as_str().unwrap().contains("was answered already"), "{replayed}");

    let approval =
        json!({"name": "book", "inputResponses": accepted(id, json!({"decision": "approve"})), "requestState": next});
    let done = call(&url, approval.clone()).await;
    assert_eq!(done["result"]["structuredContent"]["booking"], "3 nights in Rome", "{done}");
    assert_eq!(done["result"]["resultType"], "complete");
    let replayed = call(&url, approval).await;
    assert!(replayed["error"]["message"].as_str().unwrap().contains("was answered already"), "{replayed}");
    assert_eq!((office.begun.load(Ordering::SeqCst), office.booked.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn changed_foreign_or_expired_state_is_refused() {
    let office = Office::default();
    let url = serve(server(&office)).await;
    let other = serve(server(&office)).await;
    let asked = call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    let state = asked["result"]["requestState"].as_str().unwrap();
    let bring = |tool: &str, state: &str| json!({"name": tool, "inputResponses": accepted("nights", json!({"nights": 3})), "requestState": state});
    let foreign = "`requestState` was not issued by this server for this tool";
    for (url, tool, state) in
        [(&url, "book", format!("{state}x")), (&url, "wait", state.to_owned()), (&other, "book", state.to_owned())]
    {
        let refused = call(url, bring(tool, &state)).await;
        assert_eq!(refused["error"]["message"], foreign, "{refused}");
        assert_eq!(refused["error"]["code"], -32602);
    }
    let late = serve(server(&office).question_timeout(Duration::ZERO)).await;
    let asked = call(&late, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let refused = call(&late, bring("book", asked["result"]["requestState"].as_str().unwrap())).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("has expired"), "{refused}");
}

#[tokio::test]
async fn another_process_with_the_same_key_accepts_the_answer() {
    let (office, saver) = (Office::default(), MemorySaver::new());
    let one = serve(server(&office).saver(saver.clone()).key(SealKey::new([7; 32]))).await;
    let two = serve(server(&office).saver(saver).key(SealKey::new([7; 32]))).await;
    let asked = call(&one, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    let state = asked["result"]["requestState"].as_str().unwrap();
    let given =
        json!({"name": "book", "inputResponses": accepted("nights", json!({"nights": 3})), "requestState": state});
    let next = call(&two, given).await;
    assert_eq!(next["result"]["resultType"], "input_required", "{next}");
}

#[tokio::test]
async fn client_without_elicitation_gets_an_error() {
    let url = serve(server(&Office::default())).await;
    let refused = post(&url, "tools/call", json!({"name": "book", "arguments": {"place": "Rome"}}), json!({})).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

#[tokio::test]
async fn call_of_a_disconnected_client_is_cancelled() {
    let office = Office::default();
    let url = serve(server(&office)).await;
    let calling = call(&url, json!({"name": "wait", "arguments": {}}));
    let begun = async {
        while office.begun.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        answer = calling => panic!("{answer}"),
        () = begun => {}
    }
    while office.dropped.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn mismatches_and_a_busy_server_are_reported() {
    let office = Office::default();
    let url = serve(server(&office).max_calls(1)).await;
    let refused = call(&url, json!({"name": "book", "arguments": {"plaec": "Rome"}})).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("plaec"), "{refused}");
    let unknown = call(&url, json!({"name": "nothing"})).await;
    assert_eq!(unknown["error"]["message"], "Unknown tool: nothing");
    let waiting = tokio::spawn({
        let url = url.clone();
        async move { call(&url, json!({"name": "wait", "arguments": {}})).await }
    });
    while office.begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let busy = call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    assert!(busy["result"]["content"][0]["text"].as_str().unwrap().contains("busy"), "{busy}");
    waiting.abort();
}

#[tokio::test]
async fn token_is_required_on_an_open_address() {
    let url = serve(server(&Office::default()).bearer("secret")).await;
    let outside = McpClient::http("office", &url).build().unwrap();
    outside.connect().await.unwrap_err();
    McpClient::http("office", &url).bearer("secret").build().unwrap().connect().await.unwrap();
    // HTTP ignores the case of the scheme.
    for (given, admitted) in
        [("bearer secret", true), ("BEARER secret", true), ("Basic secret", false), ("secret", false)]
    {
        let posted = reqwest::Client::new().post(&url).header("authorization", given).send().await.unwrap();
        assert_eq!(posted.status() != reqwest::StatusCode::UNAUTHORIZED, admitted, "{given}");
    }
    let stop = CancellationToken::new();
    let open = server(&Office::default()).serve("0.0.0.0:0", stop.clone()).await.unwrap_err();
    assert!(open.to_string().contains("can be reached from other machines"), "{open}");
    let empty = McpServer::new().serve("127.0.0.1:0", stop).await.unwrap_err();
    assert!(matches!(empty, McpError::Serve(_)));
}

graph! {
    /// Asks for values of formats that elicitation lacks.
    Formats<Trip> = Graph { nodes: [identify], edges: [START >> identify >> END] }
}

async fn identify(run: &Run) -> Result<TripUpdate> {
    let uuid = json!({"type": "string", "format": "uuid"});
    let at = json!({"type": "string", "format": "date-time"});
    let fields = json!({"type": "object", "properties": {"id": uuid, "at": at}, "required": ["id"]});
    let by_field: Value = run.interrupt(&json!({"key": "fields"})).with_schema(fields).await?;
    let single: String = run.interrupt(&json!({"key": "single"})).with_schema(uuid).await?;
    Ok(Trip::update().place(by_field["id"].as_str().unwrap_or_default().to_owned()).booking(single))
}

/// A question whose schema has other formats is asked without them.
#[tokio::test]
async fn questions_with_unknown_formats_are_asked() {
    let url = serve(McpServer::new().graph("formats", Formats::compile(), ())).await;
    let mut asked = call(&url, json!({"name": "formats", "arguments": {}})).await;
    let text = json!({"type": "string"});
    let at = json!({"type": "string", "format": "date-time"});
    for (key, fields, content) in [
        ("fields", json!({"id": text, "at": at}), json!({"id": "1"})),
        ("single", json!({"answer": text}), json!({"answer": "2"})),
    ] {
        let request = &asked["result"]["inputRequests"][key];
        assert_eq!(request["params"]["requestedSchema"]["properties"], fields, "{asked}");
        let state = &asked["result"]["requestState"];
        let given = json!({"name": "formats", "inputResponses": accepted(key, content), "requestState": state});
        asked = call(&url, given).await;
    }
    assert_eq!(asked["result"]["structuredContent"], json!({"place": "1", "booking": "2"}), "{asked}");
}

#[tokio::test]
async fn agent_calls_a_graph_over_mcp_and_forwards_questions() -> Result<()> {
    let office = Office::default();
    let url = serve(server(&office)).await;
    let client = McpClient::http("office", url).only(["book"]).build().unwrap();
    let helper = Helper::compile().checkpointer(MemorySaver::new());
    let thread = || Config::new().thread("t");
    let context = || desk(&client, [Message::call("book", json!({"place": "Rome"}))]);
    let out = helper.invoke(Message::user("Go.")).config(thread()).context(context()).await?;
    let Outcome::Interrupted(asked) = out else { panic!("no question") };
    assert_eq!(asked.questions[0].value["message"], "How many nights in Rome?");
    assert!(
        !helper.invoke(Command::resume(json!({"nights": 4}))).config(thread()).context(context()).await?.is_finished()
    );
    let done = desk(&client, [Message::assistant("Done.")]);
    let out = helper.invoke(Command::resume(json!({"decision": "approve"}))).config(thread()).context(done).await?;
    let said: Value = serde_json::from_str(&answers(&out)[0]).unwrap();
    assert_eq!(said["booking"], "4 nights in Rome");
    assert_eq!((office.begun.load(Ordering::SeqCst), office.booked.load(Ordering::SeqCst)), (1, 1));
    Ok(())
}

#[tokio::test]
async fn agent_waits_for_the_task_of_a_graph() -> Result<()> {
    let office = Office::default();
    let url = serve(server(&office).allow_task("book")).await;
    let client = McpClient::http("office", url).only(["book"]).build().unwrap();
    let helper = Helper::compile().checkpointer(MemorySaver::new());
    let context = || desk(&client, [Message::call("book", json!({"place": "Rome"}))]);
    assert!(!helper.invoke(Message::user("Go.")).thread("t").context(context()).await?.is_finished());
    let out = helper.invoke(Command::resume(json!({"nights": 4}))).thread("t").context(context()).await?;
    assert!(!out.is_finished());
    let done = desk(&client, [Message::assistant("Done.")]);
    let out = helper.invoke(Command::resume(json!({"decision": "approve"}))).thread("t").context(done).await?;
    assert!(answers(&out)[0].contains("4 nights in Rome"), "{:?}", answers(&out));
    assert_eq!((office.begun.load(Ordering::SeqCst), office.booked.load(Ordering::SeqCst)), (1, 1));
    Ok(())
}

/// The text for which every answer is searched.
const CANARY: &str = "canary-7f3a-secret";

#[derive(State, Clone, Default)]
struct Vault {
    #[channel(secret)]
    token: String,
    #[channel(secret)]
    pin: u32,
    length: usize,
}

graph! {
    /// Uses a token.
    Unlock<Vault> = Graph { nodes: [unlock], edges: [START >> unlock >> END] }
}

async fn unlock(vault: &Vault, run: &Run) -> Result<VaultUpdate> {
    if vault.pin > 0 {
        return Err(format!("cannot open {vault:?}").into());
    }
    let Nights { nights } = run.interrupt(&json!({"key": "nights", "message": "How long?"})).schema().await?;
    Ok(Vault::update().token(format!("{}!", vault.token)).length(vault.token.len() + nights as usize))
}

#[tokio::test]
async fn secret_arguments_are_in_no_answer() {
    let url = serve(McpServer::new().graph("unlock", Unlock::compile(), ())).await;
    let tools = post(&url, "tools/list", json!({}), json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["inputSchema"]["properties"]["token"]["writeOnly"], true, "{tools}");
    let asked = call(&url, json!({"name": "unlock", "arguments": {"token": CANARY}})).await;
    let state = asked["result"]["requestState"].clone();
    let given =
        json!({"name": "unlock", "inputResponses": accepted("nights", json!({"nights": 2})), "requestState": state});
    let done = call(&url, given).await;
    assert_eq!(done["result"]["structuredContent"], json!({"length": CANARY.len() + 2}), "{done}");
    let failed = call(&url, json!({"name": "unlock", "arguments": {"token": CANARY, "pin": 7}})).await;
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    // The decoder would quote the value.
    let misfit = call(&url, json!({"name": "unlock", "arguments": {"pin": CANARY}})).await;
    assert_eq!(misfit["result"]["isError"], true, "{misfit}");
    for answer in [tools, asked, done, failed, misfit] {
        assert!(!answer.to_string().contains(CANARY), "{answer}");
    }
}
