//! Two answers to one question, while the first is queued or its run is in progress.

use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::Result;
use hier_server::Server;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::client_results::{add, command, settled};
use crate::support::{Desk, open};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Form {
    #[reducer(append)]
    log: Vec<String>,
}

graph! {
    /// Asks two questions.
    Asks<Form> = Graph {
        nodes: [first = ask, work, second = ask],
        edges: [START >> first >> work >> second >> END],
    }
}

async fn ask(run: &Run) -> Result<FormUpdate> {
    let node = run.node().to_owned();
    let answer: String = run.interrupt(&format!("{node}?")).await?;
    Ok(Form::update().log([format!("{node}: {answer}")]))
}

async fn work() {
    wait_for(&WORKS).await;
}

graph! {
    /// Occupies a worker.
    Holds<Form> = Graph { nodes: [hold], edges: [START >> hold >> END] }
}

async fn hold() {
    wait_for(&HOLDS).await;
}

/// Each permit lets one node end.
static WORKS: Semaphore = Semaphore::const_new(0);
static HOLDS: Semaphore = Semaphore::const_new(0);

async fn wait_for(gate: &Semaphore) {
    gate.acquire().await.expect("it is open").forget();
}

/// A server that executes one run at a time.
async fn desk() -> Desk {
    open(Server::new().graph("asks", Asks::compile(), ()).graph("holds", Holds::compile(), ()).concurrency(1)).await
}

/// A thread that waits for its first answer, and the id of the question.
async fn asked(desk: &Desk) -> (String, String) {
    let thread = desk.thread().await;
    let (_, asked) =
        desk.post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": "asks", "input": {} })).await;
    let id = asked["__interrupt__"][0]["id"].as_str().expect("a question").to_owned();
    (thread, id)
}

/// Lets the worker execute a run that ends only with [`HOLDS`].
async fn occupy(desk: &Desk) {
    let thread = desk.thread().await;
    add(desk, &thread, "holds", json!({ "input": {} })).await;
    until(desk, &format!("/threads/{thread}/runs"), |runs| runs[0]["status"] == "running").await;
}

async fn until(desk: &Desk, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let (_, found) = desk.get(path).await;
            if fits(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), wait).await.expect("it comes")
}

async fn send(desk: &Desk, thread: &str, resume: &Value, more: Value) -> (u16, Value) {
    let mut body = json!({ "assistant_id": "asks", "command": { "resume": resume }, "durability": "sync" });
    body.as_object_mut().expect("a body").extend(more.as_object().expect("fields").clone());
    desk.post(&format!("/threads/{thread}/runs"), body).await
}

/// The thread after the first answer: it waits for the second, and no run has failed.
async fn assert_first_counts(desk: &Desk, thread: &str, answer: &str) {
    let row = settled(desk, thread).await;
    let log = json!([format!("first: {answer}")]);
    assert_eq!((&row["status"], &row["values"]["log"]), (&json!("interrupted"), &log), "{row}");
    let (_, runs) = desk.get(&format!("/threads/{thread}/runs")).await;
    assert!(runs.as_array().expect("runs").iter().all(|run| run["status"] == "success"), "{runs}");
}

#[tokio::test]
async fn each_question_takes_one_answer() {
    let desk = desk().await;
    for (first_by_id, second_by_id) in [(true, true), (true, false), (false, true), (false, false)] {
        let (thread, id) = asked(&desk).await;
        let answer = |text: &str, by_id| if by_id { json!({ &*id: text }) } else { json!(text) };
        occupy(&desk).await;
        let (status, first) = send(&desk, &thread, &answer("yes", first_by_id), json!({})).await;
        assert_eq!(status, 200, "{first}");
        let (status, error) = send(&desk, &thread, &answer("no", second_by_id), json!({})).await;
        let detail = error["detail"].as_str().unwrap_or_default();
        let says = format!(
            "run `{}` of thread `{thread}` already answers question `{id}`",
            first["run_id"].as_str().expect("an id")
        );
        assert!(status == 409 && detail.starts_with(&says), "{first_by_id} {second_by_id}: {status} {error}");
        let response = json!({ "interrupt_id": id, "response": "no" });
        let refused = command(&desk, &thread, "input.respond", response).await;
        assert_eq!(refused["error"], "no_such_interrupt", "{refused}");
        HOLDS.add_permits(1);
        WORKS.add_permits(1);
        assert_first_counts(&desk, &thread, "yes").await;
    }

    // Two clients send at once.
    let (thread, _) = asked(&desk).await;
    occupy(&desk).await;
    let (yes, nothing) = (json!("yes"), json!({}));
    let both = tokio::join!(send(&desk, &thread, &yes, nothing.clone()), send(&desk, &thread, &yes, nothing));
    let mut statuses = [both.0.0, both.1.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{both:?}");
    HOLDS.add_permits(1);
    WORKS.add_permits(1);
    assert_first_counts(&desk, &thread, "yes").await;

    // A client that replaces the run replaces its answer.
    for strategy in ["interrupt", "rollback"] {
        let (thread, _) = asked(&desk).await;
        occupy(&desk).await;
        assert_eq!(send(&desk, &thread, &json!("yes"), json!({})).await.0, 200);
        let (status, second) = send(&desk, &thread, &json!("no"), json!({ "multitask_strategy": strategy })).await;
        assert_eq!(status, 200, "{second}");
        HOLDS.add_permits(1);
        WORKS.add_permits(1);
        let row = settled(&desk, &thread).await;
        assert_eq!(row["values"]["log"], json!(["first: no"]), "{strategy}: {row}");
    }

    // The run with the answer is in progress. A plain answer would reach the next question.
    let (thread, id) = asked(&desk).await;
    assert_eq!(send(&desk, &thread, &json!("yes"), json!({})).await.0, 200);
    until(&desk, &format!("/threads/{thread}/state"), |state| state["next"] == json!(["work"])).await;
    for (second, says) in [(json!("no"), "already answers: wait"), (json!({ &*id: "no" }), "already answers question")]
    {
        let (status, error) = send(&desk, &thread, &second, json!({})).await;
        assert!(status == 409 && error.to_string().contains(says), "{second}: {status} {error}");
    }
    WORKS.add_permits(1);
    assert_first_counts(&desk, &thread, "yes").await;
    let (status, run) = send(&desk, &thread, &json!("maybe"), json!({})).await;
    assert_eq!(status, 200, "{run}");
    assert_eq!(settled(&desk, &thread).await["values"]["log"], json!(["first: yes", "second: maybe"]));
    desk.stop().await;
}
