//! Tasks that wait for a free place, and a client that waits for its call.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, Claim, Commit, Lease, LeaseState, MemorySaver, SaverError, SaverLayer};
use hier_core::graph::Graph as _;
use serde_json::json;
use tokio::time::Instant;

use crate::ends::{Jobs, Print, eventually, pass, threads};
use crate::sessions::Session;
use crate::tasks::{answer, ask, next_question, start, until};
use crate::{Office, call, serve, server};

#[tokio::test]
async fn cancelled_task_does_not_wait_for_a_free_place() {
    let (office, saver) = (Office::default(), MemorySaver::new());
    let url = serve(server(&office).allow_task("book").saver(saver.clone()).max_calls(1)).await;
    let id = start(&url, "book").await;
    let (nights, _) = next_question(&url, &id, &[]).await;
    let own = threads(&saver).await;
    let taken = tokio::spawn({
        let url = url.clone();
        async move { call(&url, json!({"name": "wait", "arguments": {}})).await }
    });
    eventually("the other call has begun", async || office.begun.load(Ordering::SeqCst) == 2).await;
    answer(&url, &id, &nights, json!({"nights": 2})).await;
    until(&url, &id, "working").await;
    ask(&url, "tasks/cancel", json!({"taskId": id})).await;
    tokio::time::timeout(Duration::from_secs(5), until(&url, &id, "cancelled")).await.expect("it does not wait");
    eventually("its thread is deleted", async || threads(&saver).await.is_disjoint(&own)).await;
    assert_eq!(office.booked.load(Ordering::SeqCst), 0);
    taken.abort();
}

/// The time to live of a thread, and its end by the clock of the test.
type Lives = (Option<Duration>, Option<Instant>);

/// A saver that records how long it has to keep its threads.
#[derive(Default)]
struct Kept {
    saver: MemorySaver,
    threads: Mutex<HashMap<String, Lives>>,
}

impl Kept {
    /// Records a claim or a commit.
    fn extend(&self, thread: &str, claim: Option<&Claim>) {
        let mut threads = self.threads.lock().expect("the threads");
        let (lives, end) = threads.entry(thread.to_owned()).or_default();
        if let Some(claim) = claim.filter(|claim| !claim.keeps_time_to_live) {
            *lives = claim.time_to_live;
        }
        *end = lives.map(|lives| Instant::now() + lives);
    }

    fn is_kept(&self, thread: &str) -> bool {
        self.threads.lock().expect("the threads")[thread].1.is_none_or(|end| Instant::now() < end)
    }
}

#[async_trait]
impl SaverLayer for Kept {
    type Inner = MemorySaver;

    fn inner(&self) -> &MemorySaver {
        &self.saver
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        self.extend(thread, Some(&claim));
        self.saver.acquire(thread, claim).await
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        self.extend(&lease.thread, None);
        self.saver.commit(lease, commit).await
    }
}

#[tokio::test]
async fn thread_of_a_task_that_waits_for_a_free_place_does_not_expire() {
    let (jobs, saver) = (Jobs::default(), Arc::new(Kept::default()));
    let served = server(&Office::default()).graph("print", Print::compile(), jobs.clone()).allow_task("book");
    let url = serve(served.saver(saver.clone()).max_calls(1)).await;
    let id = start(&url, "book").await;
    let (nights, _) = next_question(&url, &id, &[]).await;
    let thread = threads(&saver.saver).await.pop_first().expect("the thread of the task");
    let taken = tokio::spawn({
        let url = url.clone();
        async move { call(&url, json!({"name": "print", "arguments": {}})).await }
    });
    eventually("the other call has begun", async || jobs.begun.load(Ordering::SeqCst) == 1).await;
    answer(&url, &id, &nights, json!({"nights": 2})).await;
    until(&url, &id, "working").await;
    for hour in 1..=30 {
        pass(Duration::from_hours(1)).await;
        until(&url, &id, "working").await;
        assert!(saver.is_kept(&thread), "hour {hour}");
    }
    taken.abort();
    next_question(&url, &id, &[nights]).await;
}

#[tokio::test]
async fn ping_is_answered_during_a_long_call() {
    let office = Office::default();
    let url = serve(server(&office).max_calls(1)).await;
    let session = Session::begin(&url).await;
    let calling = session.call("wait", json!({})).await;
    eventually("the call has begun", async || office.begun.load(Ordering::SeqCst) == 1).await;
    assert_eq!(session.ping().await["result"], json!({}));
    assert_eq!(office.dropped.load(Ordering::SeqCst), 0, "the call goes on");
    drop(calling);
}
