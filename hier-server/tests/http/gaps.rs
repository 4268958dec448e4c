//! Clients that read slowly or join later. They learn of the events that the log of the thread has deleted, and do not
//! occupy much memory.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::checkpoint::Checkpointer;
use hier_core::message::{ChatChunk, ChatResponse, ToolCall};
use hier_core::runs::{
    EventPage, EventQuery, LogEvent, LoggedMessage, LoggedUpdate, MemoryRuns, NewEvent, NewRun, Request, RunClaim,
    RunCommit, RunEnd, RunStatus, RunStore, RunsError,
};
use hier_core::store::MemoryStore;
use hier_server::{Server, async_trait};
use hier_testkit::{Layered, RunsLayer, SaverLayer, ScriptedModel};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::agui::{events_of, input, of};
use crate::support::{Desk, SentEvent, names, open, parse, said};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Parts {
    count: u32,
}

/// The size of a part. A log contains two of them, and the sockets between server and client less than one.
const PART: usize = 15 << 20;

graph! {
    /// Emits a large part whenever the test permits it.
    Large<Parts, Arc<Semaphore>> = Graph { nodes: [emit], edges: [START >> emit >> END] }
}

async fn emit(parts: &Parts, run: &Run<Arc<Semaphore>>) {
    for number in 0..parts.count {
        run.context().acquire().await.expect("the gate stays").forget();
        run.emit(json!({ "number": number, "text": "x".repeat(PART) }));
    }
}

async fn with_permits(permits: usize) -> (Desk, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(permits));
    (open(Server::new().graph("large", Large::compile(), gate.clone())).await, gate)
}

fn request(parts: u32) -> Value {
    json!({ "assistant_id": "large", "input": { "count": parts }, "stream_mode": "custom", "stream_resumable": true })
}

/// Runs the graph on a thread. Returns the path of the run.
async fn run(desk: &Desk, thread: &str, parts: u32) -> String {
    let (status, run) = desk.post(&format!("/threads/{thread}/runs"), request(parts)).await;
    assert_eq!(status, 200, "{run}");
    let path = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().expect("an id"));
    assert_eq!(desk.get(&format!("{path}/join")).await.1["count"], parts);
    path
}

async fn follow(desk: &Desk, path: &str, after: &str) -> Response {
    let request = desk.client.get(format!("{}{path}", desk.base)).header("last-event-id", after);
    request.send().await.expect("a stream")
}

async fn joined(desk: &Desk, run: &str, after: &str) -> Vec<SentEvent> {
    parse(&follow(desk, &format!("{run}/stream"), after).await.text().await.expect("a body"))
}

/// Reads an open stream until it has this number of events. Returns the names.
async fn first(desk: &Desk, mut stream: Response, count: usize) -> Vec<String> {
    let received = desk.until(&mut stream, &mut String::new(), |received| received.len() >= count).await;
    received.into_iter().take(count).map(|one| one.event).collect()
}

fn numbers(received: &[SentEvent]) -> Vec<&Value> {
    said(received, "custom").into_iter().map(|data| &data["number"]).collect()
}

#[tokio::test]
async fn slow_client_learns_of_the_events_that_it_misses() {
    let (desk, gate) = with_permits(1).await;
    let thread = desk.thread().await;
    let mut stream = desk.send(Method::POST, &format!("/threads/{thread}/runs/stream"), &request(4)).await;
    let path = stream.headers()["content-location"].to_str().expect("a path").to_owned();
    let mut text = String::new();
    while !text.contains("event: custom") {
        let chunk = stream.chunk().await.expect("a part of the stream").expect("the stream goes on");
        text.push_str(std::str::from_utf8(&chunk).expect("text"));
    }
    // The server waits until the client reads the rest of the first part.
    gate.add_permits(3);
    desk.get(&format!("{path}/join")).await;
    text.push_str(&stream.text().await.expect("the rest of the stream"));
    let received = parse(&text);
    assert_eq!(names(&received)[..3], ["metadata", "custom", "lagged"]);
    let (numbers, missed) = (numbers(&received), &received[2].data["missed"]);
    assert_eq!((numbers[0], numbers[numbers.len() - 1]), (&json!(0), &json!(3)));
    let missed = usize::try_from(missed.as_u64().unwrap()).unwrap();
    assert_eq!(missed + numbers.len(), 4, "{numbers:?}");
    desk.stop().await;
}

#[tokio::test]
async fn client_that_joins_later_learns_of_deleted_events() {
    let (desk, _gate) = with_permits(usize::MAX >> 3).await;
    let thread = desk.thread().await;
    let path = run(&desk, &thread, 3).await;
    let received = joined(&desk, &path, "-1").await;
    assert_eq!(names(&received), ["lagged", "custom"]);
    assert_eq!((&received[0].data, numbers(&received)[0]), (&json!({ "missed": 3 }), &json!(2)));
    let known = received[0].id.clone().expect("an id");
    assert_eq!(joined(&desk, &path, &known).await, received[1..], "the gap is reported once");

    let later = run(&desk, &thread, 1).await;
    let received = joined(&desk, &later, "-1").await;
    assert_eq!(names(&received), ["metadata", "custom"], "the log contains all events of this run");

    let stream = format!("/threads/{thread}/stream");
    assert_eq!(first(&desk, follow(&desk, &stream, "-1").await, 2).await, ["lagged", "custom"]);
    assert_eq!(first(&desk, follow(&desk, &stream, &known).await, 1).await, ["custom"]);
    let states = format!("{stream}?stream_modes=state_update");
    assert_eq!(first(&desk, follow(&desk, &states, "-1").await, 1).await, ["lagged"]);
    let channels = json!({ "channels": ["lifecycle"], "namespaces": [["other"]] });
    let events = desk.send(Method::POST, &format!("{stream}/events"), &channels).await;
    assert_eq!(first(&desk, events, 1).await, ["lagged"]);
    let studio = desk.send(Method::GET, &format!("/studio/api/threads/{thread}/events"), &Value::Null).await;
    let studio = desk.until(&mut { studio }, &mut String::new(), |received| !received.is_empty()).await;
    assert_eq!(studio[0].data["mode"], "lagged");
    desk.stop().await;
}

/// A client that joins again knows the events before its position, so it has missed only the deleted events after it.
#[tokio::test]
async fn client_that_joins_again_learns_only_of_events_after_its_position() {
    let (desk, _gate) = with_permits(usize::MAX >> 3).await;
    let thread = desk.thread().await;
    let path = run(&desk, &thread, 3).await;
    let missed = |received: &[SentEvent]| said(received, "lagged")[0]["missed"].clone();
    assert_eq!(missed(&joined(&desk, &path, "2-1").await), 1);

    let stream = format!("/threads/{thread}/stream");
    let mut again = follow(&desk, &stream, "2-1").await;
    assert_eq!(missed(&desk.until(&mut again, &mut String::new(), |received| !received.is_empty()).await), 1);

    let channels = |since: &Value| json!({ "channels": ["lifecycle"], "since": since });
    let mut events = desk.send(Method::POST, &format!("{stream}/events"), &channels(&json!(0))).await;
    let all = desk.until(&mut events, &mut String::new(), |received| !received.is_empty()).await;
    assert_eq!(all[0].data["params"]["data"]["missed"], 3);
    // The number of the gap is that of the third log event, so the first two have these numbers.
    let second = all[0].data["seq"].as_u64().expect("a number") / 3 * 2;
    let mut events = desk.send(Method::POST, &format!("{stream}/events"), &channels(&json!(second))).await;
    let rest = desk.until(&mut events, &mut String::new(), |received| !received.is_empty()).await;
    assert_eq!(rest[0].data["params"]["data"]["missed"], 1);
    desk.stop().await;
}

/// The number of the attempt does not count a claim that ended with `requeue`, so both attempts have the number 1.
#[tokio::test]
async fn client_learns_of_the_deleted_events_of_a_requeued_attempt() {
    let store = MemoryRuns::new();
    let server = Server::new().graph("large", Large::compile(), Arc::new(Semaphore::new(0)));
    let server = server.storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()));
    let desk = open(server.without_worker()).await;
    let (thread, driver) = (desk.thread().await, store.driver());
    let run = driver.create_run(NewRun::new(&*thread, "large", Request::default())).await.expect("a run");
    let claim = || RunClaim::new("worker", Duration::from_mins(1), ["large"]);
    let part = |number: u32| {
        NewEvent::new(run.id, LogEvent::Custom { node: "emit".to_owned(), value: json!({ "number": number }) })
    };
    let lease = driver.claim_run(claim()).await.expect("the store").expect("a run").lease;
    driver.commit_run(&lease, RunCommit::events(vec![part(0)])).await.expect("stored");
    driver.requeue(&lease, run.id).await.expect("stored");
    driver.prune_runs(Duration::ZERO).await.expect("the events are deleted");
    let lease = driver.claim_run(claim()).await.expect("the store").expect("a run").lease;
    let end = RunCommit::events(vec![part(1)]).end(RunEnd::new(run.id, RunStatus::Success));
    driver.commit_run(&lease, end).await.expect("stored");

    let path = format!("/threads/{thread}/runs/{}/stream?stream_mode=custom", run.id);
    let received = parse(&follow(&desk, &path, "-1").await.text().await.expect("a body"));
    assert_eq!(names(&received), ["lagged", "metadata", "custom"]);
    assert_eq!((&received[0].data["missed"], numbers(&received)), (&json!(2), vec![&json!(1)]));
    desk.stop().await;
}

/// Clients of AG-UI accept no event before the start of the run.
#[tokio::test]
async fn agui_reports_a_gap_after_the_start_of_the_run() {
    let (desk, _gate) = with_permits(usize::MAX >> 3).await;
    let input = input("large", "run", json!({ "state": { "count": 3 } }));
    events_of(&desk, "large", input.clone()).await;
    let again = events_of(&desk, "large", input).await;
    let [start, gap, .., end] = &again[..] else { panic!("{} events", again.len()) };
    assert_eq!((&start["type"], &end["type"]), (&json!("RUN_STARTED"), &json!("RUN_FINISHED")));
    assert_eq!((&gap["type"], &gap["name"]), (&json!("CUSTOM"), &json!("lagged")));
    assert!(gap["value"]["missed"].as_u64().is_some_and(|missed| missed > 0), "{gap}");
    desk.stop().await;
}

graph! { Chat<BaseState> = Agent {} }

fn piece(chunk: ChatChunk) -> LogEvent {
    let (id, node, agent) = ("m".to_owned(), "model".to_owned(), "chat".to_owned());
    LogEvent::Message(Box::new(LoggedMessage { id, node, task: Uuid::nil(), step: 1, path: Vec::new(), agent, chunk }))
}

/// The gap is inside of a message. The rest of the message comes either with its last piece, or with its update.
#[tokio::test]
async fn agui_sends_a_message_with_a_gap_once() {
    let store = MemoryRuns::new();
    let context = BaseContext::new(ScriptedModel::new([]));
    let server = Server::new().graph("chat", Chat::compile(), context);
    let server = server.storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()));
    let desk = open(server.without_worker()).await;
    let args = json!({ "limit": 3, "order": " 7" });
    let call = ToolCall { name: "look".to_owned(), args: args.clone(), id: "c".to_owned() };
    let whole = Message::calls("Hello world", [call]).with_id("m");
    let update = LoggedUpdate { node: "model".to_owned(), writes: json!({ "messages": [&whole] }), cached: false };
    let done = || piece(ChatChunk::Done(ChatResponse::new(whole.clone())));
    // A model may write white space, and the arguments in another order. The client then needs the call once more.
    let cases = [
        ("{ \"limit\": 3, \"order\": \" ", done(), 1),
        ("{\"limit\":", LogEvent::Updates(update), 1),
        ("{\"order\":\" 7\", \"li", done(), 2),
    ];
    for (sent, rest, calls) in cases {
        let events = [
            piece(ChatChunk::Text("Hello".to_owned())),
            piece(ChatChunk::call_started("c", "look")),
            piece(ChatChunk::call_arguments("c", sent)),
            LogEvent::Lagged { missed: 1 },
            piece(ChatChunk::call_arguments("c", "}")),
            rest,
        ];
        let commit = async {
            let claimed = loop {
                let claim = RunClaim::new("worker", Duration::from_mins(1), ["chat"]);
                match store.driver().claim_run(claim).await.expect("the store") {
                    Some(claimed) => break claimed,
                    None => tokio::task::yield_now().await,
                }
            };
            let run = claimed.run.id;
            let events = events.into_iter().map(|event| NewEvent::new(run, event)).collect();
            let end = RunCommit::events(events).end(RunEnd::new(run, RunStatus::Success));
            store.driver().commit_run(&claimed.lease, end).await.expect("stored");
        };
        let run = Uuid::new_v4().to_string();
        let (received, ()) = tokio::join!(events_of(&desk, "chat", input("t", &run, json!({}))), commit);
        let deltas =
            |kind: &str| of(&received, kind).iter().filter_map(|event| event["delta"].as_str()).collect::<String>();
        assert_eq!(deltas("TEXT_MESSAGE_CONTENT"), "Hello world");
        let all = deltas("TOOL_CALL_ARGS");
        let last = if calls == 1 { &*all } else { all.strip_prefix(sent).expect("the cut arguments") };
        assert_eq!(serde_json::from_str::<Value>(last).expect("JSON"), args);
        let counts = [("TEXT_MESSAGE_START", 1), ("TEXT_MESSAGE_END", 1), ("TOOL_CALL_START", calls)];
        for (kind, count) in counts.into_iter().chain([("TOOL_CALL_END", calls)]) {
            assert_eq!(of(&received, kind).len(), count, "{kind}: {received:?}");
        }
    }
    desk.stop().await;
}

/// Remembers the size of the events in each read of a log.
struct MeasuredStore {
    runs: MemoryRuns,
    reads: Arc<Mutex<Vec<u64>>>,
}

impl fmt::Debug for MeasuredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeasuredStore")
    }
}

#[async_trait]
impl SaverLayer for MeasuredStore {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }
}

#[async_trait]
impl RunsLayer for MeasuredStore {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn find_events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        let page = self.runs.run_backend().find_events(query).await?;
        self.reads.lock().expect("a lock").push(page.events.iter().map(|row| row.event.bytes()).sum());
        Ok(page)
    }
}

async fn chatter(parts: &Parts, run: &Run) {
    for number in 0..parts.count {
        run.emit(json!({ "number": number, "text": "x".repeat(200 << 10) }));
    }
}

graph! {
    /// Emits parts of 200 KiB.
    Chatter<Parts> = Graph { nodes: [chatter], edges: [START >> chatter >> END] }
}

/// The server keeps the events of a read until the client has received them.
#[tokio::test]
async fn stream_reads_a_large_log_in_small_pieces() {
    let reads = Arc::new(Mutex::new(Vec::new()));
    let store = Arc::new(Layered(MeasuredStore { runs: MemoryRuns::new(), reads: reads.clone() }));
    let server = Server::new().graph("large", Chatter::compile(), ());
    let desk = open(server.storage(store, Arc::new(MemoryStore::default()))).await;
    let path = run(&desk, &desk.thread().await, 100).await;
    reads.lock().expect("a lock").clear();
    let received = joined(&desk, &path, "-1").await;
    assert_eq!(numbers(&received), (0..100).map(Value::from).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    let reads = reads.lock().expect("a lock").clone();
    assert!(reads.len() > 10 && reads.iter().all(|bytes| *bytes < 4 << 20), "{reads:?}");
    desk.stop().await;
}
