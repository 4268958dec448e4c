//! The times for which temporary threads are kept.

use std::time::{Duration, SystemTime};

use hier_agents::prelude::*;
use hier_core::Result;
use hier_server::Server;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Desk, open};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Night {
    seconds: f64,
    #[reducer(append)]
    notes: Vec<String>,
}

graph! {
    /// Waits for a timer.
    pub(crate) Nap<Night> = Graph { nodes: [nap], edges: [START >> nap >> END] }
}

async fn nap(night: &Night, run: &Run) -> Result<NightUpdate> {
    run.sleep(Duration::from_secs_f64(night.seconds)).await?;
    Ok(Night::update().notes(["rested".to_owned()]))
}

graph! {
    /// Asks a question with a deadline.
    pub(crate) Knock<Night> = Graph { nodes: [knock], edges: [START >> knock >> END] }
}

async fn knock(night: &Night, run: &Run) -> Result<NightUpdate> {
    let deadline = SystemTime::now() + Duration::from_secs_f64(night.seconds);
    let answer: String = run.interrupt(&"who is there?").until(deadline, "none".to_owned()).await?;
    Ok(Night::update().notes([answer]))
}

async fn naps() -> Desk {
    open(Server::new().graph("nap", Nap::compile(), ()).graph("knock", Knock::compile(), ())).await
}

/// Runs the graph without a thread. Returns the path of the temporary thread.
pub(crate) async fn run(desk: &Desk, graph: &str, seconds: f64) -> String {
    let body = json!({ "assistant_id": graph, "input": { "seconds": seconds } });
    let response = desk.send(Method::POST, "/runs/wait", &body).await;
    let location = response.headers()["location"].to_str().expect("a path").to_owned();
    response.text().await.expect("a body");
    location.split("/runs/").next().expect("the path of the thread").to_owned()
}

/// The minutes of a day.
const DAY: f64 = 1_440.0;

fn minutes(thread: &Value) -> f64 {
    thread["ttl"]["ttl_minutes"].as_f64().unwrap_or_else(|| panic!("it expires: {thread}"))
}

/// Waits until a timer has continued the thread, and returns the thread with this status.
async fn continued(desk: &Desk, path: &str, status: &str) -> Value {
    let wait = async {
        loop {
            let (_, thread) = desk.get(path).await;
            if thread["status"] == status {
                return thread;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), wait).await.expect("the timer continues the thread")
}

#[tokio::test]
async fn temporary_thread_is_kept_until_its_timer_ends() {
    let desk = naps().await;
    let path = run(&desk, "nap", 7_200.0).await;
    let (_, thread) = desk.get(&path).await;
    assert_eq!(thread["status"], "interrupted");
    assert!(minutes(&thread) > 119.0 + DAY, "{thread}");
    desk.stop().await;
}

#[tokio::test]
async fn temporary_thread_expires_after_its_timer() {
    let desk = naps().await;
    let path = run(&desk, "knock", 0.3).await;
    let thread = continued(&desk, &path, "idle").await;
    assert_eq!((&thread["values"]["notes"], minutes(&thread)), (&json!(["none"]), 1.0));
    let (_, runs) = desk.get(&format!("{path}/runs")).await;
    assert_eq!((&runs[0]["metadata"]["woken"], &runs[0]["kwargs"]["temporary"]), (&json!(true), &json!(true)));
    desk.stop().await;
}

/// A copy is a thread that its user wants to keep.
#[tokio::test]
async fn copy_of_a_temporary_thread_is_kept() {
    let desk = naps().await;
    let path = run(&desk, "nap", 0.0).await;
    assert_eq!(desk.get(&path).await.1["ttl"]["ttl_minutes"], 1.0);
    let (status, copy) = desk.post(&format!("{path}/copy"), Value::Null).await;
    assert_eq!((status, copy.get("ttl")), (200, None), "{copy}");
    desk.stop().await;
}
