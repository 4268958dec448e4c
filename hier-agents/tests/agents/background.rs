//! Subagents in the background: started, looked at, steered, waited for and cancelled.

use std::sync::Arc;

use hier_agents::prelude::*;
use hier_agents::{ApprovalRequest, BackgroundStatus, Budget, ChatRequest, ConversationLabels, TrustLabels};
use hier_core::checkpoint::MemorySaver;
use hier_core::{Event, Outcome, Result, StreamMode};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::{Filing, FilingUpdate, call, calls, finish};

/// The context: a gate in front of the work of researchers.
#[derive(Clone)]
pub(crate) struct Lab {
    base: BaseContext,
    pub(crate) gate: Arc<Semaphore>,
}

impl AsRef<BaseContext> for Lab {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl Lab {
    pub(crate) fn new(model: &ScriptedModel) -> Self {
        Self { base: BaseContext::new(model.clone()), gate: Arc::new(Semaphore::new(0)) }
    }
}

graph! {
    /// Leads.
    pub(crate) Lead<Filing, Lab> = Agent {
        tools: [open, pay, leak],
        subagents: [Researcher { background: true }, Broken { background: true }, Payer { background: true }],
    }
}

graph! {
    /// Researches.
    pub(crate) Researcher<Filing, Lab> = Agent { tools: [dig, look] }
}

graph! {
    /// Fails.
    Broken<Filing, Lab> = SimpleGraph { compute: breaks }
}

graph! {
    /// Pays.
    Payer<Filing, Lab> = Agent { tools: [pay] }
}

graph! {
    /// Leads, and can leave one of its subagents running.
    Pair<Filing, Lab> = Agent { subagents: [Researcher { background: true }, Payer { detached: true }] }
}

graph! {
    /// Leads, and reports.
    Chief<Filing, Lab> = ReactGraph { subagents: [Researcher { background: true }] }
}

async fn breaks() -> Result<FilingUpdate> {
    Err(NodeError::permanent("the lamp is broken"))
}

/// Opens the gate.
#[tool]
async fn open(run: &Run<Lab>) -> String {
    run.context().gate.add_permits(1);
    "open".to_owned()
}

/// Reads private data that the compiler does not know of.
#[tool]
async fn leak() -> Command<Filing> {
    Command::update(Filing::update().trust_labels(ConversationLabels::new(TrustLabels::PRIVATE)))
}

/// Digs, behind the gate.
#[tool]
async fn dig(run: &Run<Lab>) -> Result<String> {
    drop(run.context().gate.acquire().await?);
    Ok("dug".to_owned())
}

/// Looks at a page.
#[tool(untrusted)]
async fn look(page: u32) -> String {
    format!("page {page}")
}

/// Pays.
#[tool(needs_approval)]
async fn pay(euros: u32) -> String {
    format!("paid {euros}")
}

/// A model of the lead and its subagents. Its answers depend only on the request.
pub(crate) fn team(
    lead: impl IntoIterator<Item = Message>,
    member: impl Fn(usize, &ChatRequest) -> Message + Send + Sync + 'static,
) -> ScriptedModel {
    let lead: Vec<Message> = lead.into_iter().collect();
    ScriptedModel::reacting(move |request| {
        let leads = request.tools.iter().any(|tool| tool.name == "wait_for_subagents");
        let number = request.messages.iter().filter(|message| !message.tool_calls().is_empty()).count();
        if leads { lead[number].clone() } else { member(number, request) }
    })
}

pub(crate) fn start(task: &str) -> Message {
    call("researcher", json!({ "task": task }))
}

fn wait() -> Message {
    call("wait_for_subagents", json!({}))
}

fn done() -> Message {
    Message::assistant("done")
}

/// Digs once, and reports its task.
pub(crate) fn digs_once(number: usize, request: &ChatRequest) -> Message {
    match number {
        0 => Message::call("dig", json!({})),
        _ => Message::assistant(format!(
            "found: {}",
            request.messages.iter().map(Message::text).next().unwrap_or_default()
        )),
    }
}

/// The results of the tools in the lead's conversation.
pub(crate) fn results(state: &Filing) -> Vec<String> {
    state.base.messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect()
}

fn statuses(state: &Filing) -> Vec<(&str, BackgroundStatus)> {
    state.base.background_subagents.iter().map(|(handle, record)| (handle, record.status)).collect()
}

async fn run(model: &ScriptedModel) -> Filing {
    let out = Lead::compile().invoke(Message::user("Go.")).context(Lab::new(model)).await.expect("the run ends");
    let Outcome::Finished(state) = out else { panic!("{out:?}") };
    state
}

#[tokio::test]
async fn model_learns_if_the_end_of_its_turn_cancels_a_subagent() {
    let model = ScriptedModel::new([Message::assistant("done")]);
    assert!(Pair::compile().invoke(Message::user("Go.")).context(Lab::new(&model)).await.unwrap().is_finished());
    let tools = model.requests().remove(0).tools;
    let description = |name| &tools.iter().find(|tool| tool.name == name).unwrap().description;
    assert!(description("researcher").ends_with(" It is cancelled when you finish."));
    let unless = " It is cancelled when you finish, unless the result of the call says that it continues.";
    assert!(description("payer").ends_with(unless), "{}", description("payer"));
}

#[tokio::test]
async fn supervisor_starts_and_waits() {
    let script = [start("ore"), call("check_subagents", json!({})), call("open", json!({})), wait(), done()];
    let state = run(&team(script, digs_once)).await;
    let results = results(&state);
    assert_eq!(results[0], "Started in the background as `researcher-1`.");
    assert!(results[1].starts_with("`researcher-1` is running"), "{results:?}");
    assert_eq!(results[3], "`researcher-1` reported.\nfound: ore");
    assert_eq!(statuses(&state), [("researcher-1", BackgroundStatus::Reported)]);
    let progress = state.base.progress.get("researcher");
    assert_eq!((progress.scheduled, progress.finished), (1, 1));
    assert_eq!(state.base.current_agent_report, "done");
}

#[tokio::test]
async fn one_answer_starts_several() {
    let both = calls([("researcher", json!({ "task": "ore" })), ("researcher", json!({ "task": "gold" }))]);
    let opened = calls([("open", json!({})), ("open", json!({}))]);
    let some = call("wait_for_subagents", json!({ "handles": ["researcher-2", "researcher-1"] }));
    let state = run(&team([both, opened, some, done()], digs_once)).await;
    assert_eq!(results(&state)[4], "`researcher-1` reported.\nfound: ore\n\n`researcher-2` reported.\nfound: gold");
    assert_eq!(state.base.background_subagents.iter().count(), 2);
}

#[tokio::test]
async fn message_steers_a_running_subagent() {
    let steer = call("message_subagent", json!({ "handle": "researcher-1", "message": "Look for gold." }));
    let script = [start("ore"), steer, call("open", json!({})), wait(), done()];
    let state = run(&team(script, |number, request| match number {
        0 => Message::call("dig", json!({})),
        _ => Message::assistant(request.messages.iter().map(Message::text).collect::<Vec<_>>().join("; ")),
    }))
    .await;
    let results = results(&state);
    assert_eq!(results[1], "Sent to `researcher-1`.");
    assert_eq!(results[3].matches("[MESSAGE FROM SUPERVISOR]\nLook for gold.").count(), 1, "{results:?}");
}

#[tokio::test]
async fn cancelled_subagent_stops() {
    let cancel = || call("cancel_subagent", json!({ "handle": "researcher-1" }));
    let named = call("wait_for_subagents", json!({ "handles": ["researcher-1"] }));
    let state = run(&team([start("ore"), cancel(), cancel(), named, wait(), done()], digs_once)).await;
    let expected = [
        "Started in the background as `researcher-1`.",
        "Cancelled `researcher-1`.",
        "Error: `researcher-1` was cancelled.",
        "`researcher-1` was cancelled.",
        "No background subagent is running.",
    ];
    assert_eq!(results(&state), expected);
    assert_eq!(statuses(&state), [("researcher-1", BackgroundStatus::Cancelled)]);
}

#[tokio::test]
async fn cancel_and_wait_in_one_answer_agree() {
    let both = calls([("wait_for_subagents", json!({})), ("cancel_subagent", json!({ "handle": "researcher-1" }))]);
    let state = run(&team([start("ore"), both, done()], digs_once)).await;
    assert_eq!(results(&state)[1..], ["`researcher-1` was stopped.", "Cancelled `researcher-1`."]);
    assert_eq!(statuses(&state), [("researcher-1", BackgroundStatus::Cancelled)]);
}

#[tokio::test]
async fn cancelled_subagent_does_not_start_again_in_the_same_step() {
    let both = calls([("cancel_subagent", json!({ "handle": "researcher-1" })), ("wait_for_subagents", json!({}))]);
    let state = run(&team([start("ore"), both, done()], digs_once)).await;
    assert_eq!(results(&state)[1..], ["Cancelled `researcher-1`.", "`researcher-1` was stopped."]);
    assert_eq!(statuses(&state), [("researcher-1", BackgroundStatus::Cancelled)]);
}

#[tokio::test]
async fn supervisor_that_ends_cancels_what_runs() {
    let model = team([start("ore"), done()], digs_once);
    let state = run(&model).await;
    assert_eq!(statuses(&state), [("researcher-1", BackgroundStatus::Cancelled)]);
    let chief = team([start("ore"), call("report_to_supervisor", json!({ "report": "over" }))], digs_once);
    let out = Chief::compile().invoke(Filing::update()).context(Lab::new(&chief)).await.expect("it ends");
    assert_eq!(statuses(out.state()), [("researcher-1", BackgroundStatus::Cancelled)]);
    assert_eq!(out.state().base.current_agent_report, "over");
}

#[tokio::test]
async fn root_that_reports_waits_like_an_agent() {
    let model = team([start("ore"), wait(), finish("over")], |_, _| Message::assistant("found"));
    let out = Chief::compile_as_root().invoke(Filing::update()).context(Lab::new(&model)).await.expect("it ends");
    assert_eq!(results(out.state())[1], "`researcher-1` reported.\nfound");
    assert_eq!(statuses(out.state()), [("researcher-1", BackgroundStatus::Reported)]);
}

#[tokio::test]
async fn failure_is_reported_to_the_model() {
    let state = run(&team([call("broken", json!({ "task": "x" })), wait(), done()], digs_once)).await;
    let text = &results(&state)[1];
    assert!(text.starts_with("`broken-1` failed.\n") && text.contains("the lamp is broken"), "{text}");
    assert_eq!(statuses(&state), [("broken-1", BackgroundStatus::Failed)]);
}

#[tokio::test]
async fn wait_has_a_limit() {
    let short = call("wait_for_subagents", json!({ "seconds": 0.01 }));
    let state = run(&team([start("ore"), short, done()], digs_once)).await;
    assert!(results(&state)[1].starts_with("`researcher-1` is running"), "{:?}", results(&state));
}

#[tokio::test]
async fn mistakes_of_the_model_are_answered() {
    let script = [
        start("ore"),
        call("cancel_subagent", json!({ "handle": "reseacher-1" })),
        call("message_subagent", json!({ "handle": "researcher-1" })),
        call("wait_for_subagents", json!({ "seconds": -1 })),
        calls([("check_subagents", json!({})), ("wait_for_subagents", json!({ "seconds": 0 }))]),
        done(),
    ];
    let results = results(&run(&team(script, digs_once)).await);
    assert_eq!(
        results[1],
        "Error: there is no subagent `reseacher-1`, try one of [researcher-1]. Did you mean `researcher-1`?"
    );
    assert_eq!(results[2], "Error: `message` must be a non-empty string");
    assert_eq!(results[3], "Error: `seconds` must be a number from 0 on");
    assert!(results[5].starts_with("Error: not called: another call of this answer"), "{results:?}");
}

#[tokio::test]
async fn share_of_the_budget_is_reserved_and_given_back() {
    let script = [start("ore"), wait(), start("gold"), wait(), done()];
    let model = team(script, |number, _| Message::call("look", json!({ "page": number })));
    let mut lab = Lab::new(&model);
    lab.base = lab.base.budget(Budget::new().model_calls(13));
    let budget = lab.base.budget.clone().expect("it has one");
    let out = Lead::compile().invoke(Message::user("Go.")).context(lab).await.expect("it ends");
    let results = results(out.state());
    // One of 13 calls is spent and one kept: 11 / 2 are 5. Then 13 - 7, less one kept: 5 / 2 are 2.
    assert!(results[1].starts_with("`researcher-1` failed.") && results[1].contains("model calls: 5"), "{results:?}");
    assert!(results[3].starts_with("`researcher-2` failed.") && results[3].contains("model calls: 2"), "{results:?}");
    assert_eq!(budget.spent().model_calls, 12);
}

#[tokio::test]
async fn question_of_a_subagent_is_one_of_the_waiting_supervisor() {
    let script = [call("payer", json!({ "task": "pay" })), call("check_subagents", json!({})), wait(), done()];
    let model = team(script, |number, request| match number {
        0 => Message::call("pay", json!({ "euros": 7 })),
        _ => Message::assistant(request.messages.iter().last().map(Message::text).unwrap_or_default()),
    });
    let graph = Lead::compile().checkpointer(MemorySaver::new());
    let out = graph.invoke(Message::user("Go.")).thread("t").context(Lab::new(&model)).await.unwrap();
    let Outcome::Interrupted(asked) = out else { panic!("{out:?}") };
    assert_eq!(asked.questions.len(), 1);
    let question = &asked.questions[0];
    assert_eq!(question.path, ["payer", "tools"]);
    let request: ApprovalRequest = question.parse().unwrap();
    assert_eq!((&*request.agent, &*request.call.name), ("payer", "pay"));
    // An answer of the wrong type is refused, and can be given again.
    let wrong = Command::answers([(&question.id, json!("perhaps"))]);
    let error = graph.invoke(wrong).thread("t").context(Lab::new(&model)).await.expect_err("it is no approval");
    assert!(error.to_string().contains("perhaps"), "{error}");
    let answer = Command::answers([(&question.id, json!({ "decision": "approve" }))]);
    let out = graph.invoke(answer).thread("t").context(Lab::new(&model)).await.unwrap();
    let Outcome::Finished(state) = out else { panic!("{out:?}") };
    assert_eq!(results(&state)[2], "`payer-1` reported.\npaid 7");
}

#[tokio::test]
async fn subagent_continues_with_the_thread_of_its_supervisor() {
    let script = [start("ore"), call("pay", json!({ "euros": 1 })), call("open", json!({})), wait(), done()];
    let model = team(script, |number, _| match number {
        0 => Message::call("look", json!({ "page": 1 })),
        1 => Message::call("dig", json!({})),
        _ => Message::assistant("found"),
    });
    let graph = Lead::compile().checkpointer(MemorySaver::new());
    let out = graph.invoke(Message::user("Go.")).thread("t").context(Lab::new(&model)).await.unwrap();
    assert!(!out.is_finished(), "the supervisor asks");
    assert_eq!(statuses(out.state()), [("researcher-1", BackgroundStatus::Running)]);
    let answer = Command::resume(json!({ "decision": "approve" }));
    let out = graph.invoke(answer).thread("t").context(Lab::new(&model)).await.unwrap();
    assert_eq!(results(out.state())[3], "`researcher-1` reported.\nfound");
}

#[tokio::test]
async fn report_taints_the_conversation() {
    let script = [start("ore"), call("check_subagents", json!({ "handles": [] })), wait(), done()];
    let model = team(script, |number, _| match number {
        0 => Message::call("look", json!({ "page": 1 })),
        _ => Message::assistant("found"),
    });
    let mut events = Lead::compile().stream(Message::user("Go.")).context(Lab::new(&model)).modes([StreamMode::Values]);
    let mut labels = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Values(state) = event.unwrap() {
            labels.push((results(&state).len(), state.base.trust_labels.is_untrusted()));
        }
    }
    labels.dedup();
    assert_eq!(labels, [(0, false), (1, false), (2, false), (3, true)]);
}

#[tokio::test]
async fn message_with_new_labels_is_not_sent() {
    let steer = || call("message_subagent", json!({ "handle": "researcher-1", "message": "Look for gold." }));
    let state = run(&team([start("ore"), steer(), call("leak", json!({})), steer(), done()], digs_once)).await;
    let results = results(&state);
    assert_eq!(results[1], "Sent to `researcher-1`.");
    assert!(results[3].starts_with("Error: not sent: since this subagent started"), "{results:?}");
}

#[tokio::test]
async fn events_have_the_path_of_the_subagent() {
    let model = team([start("ore"), wait(), done()], |_, _| Message::assistant("found"));
    let chosen = [StreamMode::Updates, StreamMode::Messages];
    let mut events =
        Lead::compile().stream(Message::user("Go.")).context(Lab::new(&model)).modes(chosen).subgraphs(true);
    let (mut updates, mut chunks) = (Vec::new(), Vec::new());
    while let Some(event) = events.next().await {
        match event.unwrap() {
            Event::Nested(nested) => updates.push(nested.namespace),
            Event::Message(chunk) if chunk.agent == "researcher" => chunks.push((chunk.path, chunk.namespace)),
            _ => {}
        }
    }
    assert!(updates.iter().all(|namespace| namespace.len() == 1 && namespace[0].starts_with("researcher:")));
    assert!(!updates.is_empty() && !chunks.is_empty());
    assert!(chunks.iter().all(|(path, namespace)| *path == ["researcher"] && *namespace == updates[0]), "{chunks:?}");
}

#[tokio::test]
async fn stream_that_is_dropped_ends_the_subagents() {
    let model = team([start("ore"), wait(), done()], digs_once);
    let lab = Lab::new(&model);
    let mut events = Lead::compile().stream(Message::user("Go.")).context(lab.clone());
    events.next().await.expect("the first update").unwrap();
    events.next().await.expect("the second update").unwrap();
    drop(events);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(Arc::strong_count(&lab.gate), 1, "nothing has the context");
}
