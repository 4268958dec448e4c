//! Detached subagents whose workers are killed, or that kill their workers.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::CancellationToken;
use hier_core::runs::{NewRun, Request, Run as Row, RunQuery, RunStatus, RunStore};
use hier_testkit::ScriptedModel;
use hier_worker::Worker;
use serde_json::json;

use super::place::{Place, open_runs};
use super::victim::PLACE;

/// Says what a subagent does when it digs: `waits`, `dies` or `digs`.
const DIG: &str = "HIER_CRASH_DIG";

graph! {
    /// Leads.
    Foreman<BaseState> = Agent { subagents: [Miner { detached: true }] }
}

graph! {
    /// Digs.
    Miner<BaseState> = Agent { tools: [dig] }
}

/// Digs.
#[tool]
async fn dig() -> String {
    match std::env::var(DIG).as_deref() {
        Ok("waits") => std::future::pending().await,
        Ok("dies") => std::process::abort(),
        _ => "dug".to_owned(),
    }
}

fn model() -> ScriptedModel {
    ScriptedModel::reacting(|request| {
        let leads = request.tools.iter().any(|tool| tool.name == "check_subagents");
        let last = request.messages.last().expect("a message");
        match (leads, last.text().as_str()) {
            (true, "Dig.") => Message::call("miner", json!({ "task": "ore" })),
            (true, "Wait.") => Message::call("wait_for_subagents", json!({})),
            (false, text) if text != "dug" => Message::call("dig", json!({})),
            _ => Message::assistant("done"),
        }
    })
}

/// A worker, until it is killed.
#[test]
#[ignore = "a process that other tests start"]
fn child_process() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let store = open_runs(&std::env::var(PLACE).expect("the place")).await;
        let foreman = Foreman::compile().erase(|_| Ok(BaseContext::new(model())));
        let worker = Worker::new(store).graph("foreman", foreman).lease_duration(Duration::from_millis(300));
        println!("\nworks");
        let worker = worker.max_attempts(2).poll_interval(Duration::from_millis(20));
        worker.run_until(CancellationToken::new()).await;
    });
}

fn start(place: &Place, dig: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "detached::child_process", "--nocapture"]);
    command.env(PLACE, place.name()).env(DIG, dig).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs itself");
    let output = BufReader::new(child.stdout.as_mut().expect("its output"));
    assert!(output.lines().map_while(Result::ok).any(|line| line == "works"));
    child
}

fn kill(mut child: Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it has ended");
}

async fn start_turn(store: &Arc<dyn RunStore>, text: &str) -> Row {
    let input = json!({ "messages": [serde_json::to_value(Message::user(text)).expect("a message")] });
    store.create_run(NewRun::new("t", "foreman", Request::input(input)).create_thread()).await.expect("it is accepted")
}

/// Waits until the run has this property. Meanwhile, starts a worker that has died again.
fn until(
    place: &Place,
    store: &Arc<dyn RunStore>,
    (worker, dig): (&mut Child, &str),
    run: &Row,
    is: fn(&Row) -> bool,
) -> Row {
    loop {
        let row = place.runtime.block_on(store.run(run.id)).expect("the store").expect("the run");
        if is(&row) {
            return row;
        }
        if worker.try_wait().expect("it can be asked").is_some() {
            *worker = start(place, dig);
        }
        place.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
    }
}

fn runs_of_subagents(place: &Place, store: &Arc<dyn RunStore>) -> Vec<Row> {
    let runs = place.runtime.block_on(store.runs(RunQuery::default())).expect("the runs");
    runs.into_iter().filter(|run| run.request.detached).collect()
}

fn has_ended(run: &Row) -> bool {
    !run.status.is_live()
}

/// Returns the last result of a tool.
fn last_result(run: &Row) -> String {
    let messages = run.output.clone().expect("an output")["values"]["messages"].take();
    let messages: Vec<Message> = serde_json::from_value(messages).expect("messages");
    messages.iter().rfind(|message| message.tool_call_id().is_some()).map(Message::text).unwrap_or_default()
}

/// The worker is killed between two turns, while it runs the subagent.
pub(crate) fn survives_a_kill(place: &Place) {
    let store = place.runtime.block_on(open_runs(&place.name()));
    let mut worker = start(place, "waits");
    let first = place.runtime.block_on(start_turn(&store, "Dig."));
    until(place, &store, (&mut worker, "waits"), &first, has_ended);
    let [run] = &runs_of_subagents(place, &store)[..] else { panic!("one run") };
    until(place, &store, (&mut worker, "waits"), run, |run| run.status == RunStatus::Running);
    kill(worker);
    let mut worker = start(place, "digs");
    let run = until(place, &store, (&mut worker, "digs"), run, has_ended);
    assert_eq!((run.status, run.attempts), (RunStatus::Success, 2));
    let second = place.runtime.block_on(start_turn(&store, "Wait."));
    let second = until(place, &store, (&mut worker, "digs"), &second, has_ended);
    assert_eq!(last_result(&second), "`miner-1` reported.\ndone");
    kill(worker);
    place.check();
}

/// The subagent kills each of its workers, as often as they allow. The second turn learns that it has failed.
pub(crate) fn fails_if_it_kills_its_workers(place: &Place) {
    let store = place.runtime.block_on(open_runs(&place.name()));
    let mut worker = start(place, "dies");
    let first = place.runtime.block_on(start_turn(&store, "Dig."));
    until(place, &store, (&mut worker, "dies"), &first, has_ended);
    // Each death would also count against the second turn.
    for run in runs_of_subagents(place, &store) {
        until(place, &store, (&mut worker, "dies"), &run, has_ended);
    }
    let second = place.runtime.block_on(start_turn(&store, "Wait."));
    let second = until(place, &store, (&mut worker, "dies"), &second, has_ended);
    assert_eq!((second.status, &second.error), (RunStatus::Success, &None));
    assert!(last_result(&second).contains("was continued 2 times"), "{}", last_result(&second));
    kill(worker);
    place.check();
}
