//! Nodes that make the calls of the last message: `act = tools![lookup, refund]`, and `ToolNode` in a builder.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_agents::{Approval, ApprovalRequest, ToolErrors, ToolNode, ToolStatus};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{EdgeEnd, GraphBuilder, Task};
use hier_core::runs::{TaskEvent, TaskPhase};
use hier_core::state::wants_tools;
use hier_core::{Event, Result};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Barrier;

use crate::support::calls;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
    #[reducer(append)]
    refunds: Vec<u32>,
    note: String,
}

#[derive(Clone)]
struct Desk {
    base: BaseContext,
    crm: Crm,
}

#[derive(Clone, Default)]
struct Crm {
    asked: Arc<AtomicUsize>,
    together: Option<Arc<Barrier>>,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl AsRef<Crm> for Desk {
    fn as_ref(&self) -> &Crm {
        &self.crm
    }
}

/// Looks an order up.
#[tool]
async fn lookup<C: AsRef<Crm>>(run: &Run<C>, order: u32) -> String {
    let crm = run.context().as_ref();
    crm.asked.fetch_add(1, Ordering::Relaxed);
    if let Some(together) = &crm.together {
        together.wait().await;
    }
    format!("order {order} is late")
}

/// Refunds an order.
#[tool(needs_approval)]
async fn refund(run: &Run<Desk>, order: u32) -> Command<Chat> {
    run.context().crm.asked.fetch_add(1, Ordering::Relaxed);
    Command::update(Chat::update().refunds(order))
}

/// Emits its progress.
#[tool]
async fn tell(run: &Run, text: String) -> String {
    run.emit(&text);
    "told".to_owned()
}

/// Says which model there is.
#[tool]
async fn which(run: &Run<BaseContext>) -> Result<String> {
    Ok(run.context().model()?.name().to_owned())
}

/// Breaks.
#[tool]
async fn breaks() -> Result<String> {
    Err("out of paper")?
}

/// Goes to a person.
#[tool]
async fn hand_over() -> Command<Chat> {
    Command::update(Chat::update().note("handed over")).goto("person")
}

graph! {
    Support<Chat, Desk> = Graph {
        nodes: [
            think,
            act = tools![lookup, refund, tell, which, breaks, hand_over] { goto: [person] },
            person,
        ],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> think, person >> END],
    }
}

graph! {
    ReportsErrors<Chat, Desk> = Graph {
        nodes: [think, tools![breaks] { tool_errors: ToolErrors::Tell }],
        edges: [START >> think >> if wants_tools { tools } else { END }, tools >> think],
    }
}

graph! {
    Careless<Chat, Desk> = Graph { nodes: [act = tools![lookup]], edges: [START >> act >> END] }
}

async fn think(state: &Chat, run: &Run<Desk>) -> Result<ChatUpdate> {
    let offered = tools![lookup, refund, tell, which, breaks, hand_over];
    Ok(Chat::update().messages(run.model()?.ask(&state.messages).tools(offered).await?.message))
}

async fn person() {}

fn desk(replies: impl IntoIterator<Item = Message>) -> Desk {
    Desk { base: BaseContext::new(ScriptedModel::new(replies)), crm: Crm::default() }
}

fn asked() -> ChatUpdate {
    Chat::update().messages(Message::user("Where is it?"))
}

fn results(state: &Chat) -> Vec<String> {
    state.messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect()
}

#[tokio::test]
async fn calls_run_in_parallel_and_results_keep_their_order() {
    let mut desk = desk([
        calls([("lookup", json!({"order": 1})), ("lookup", json!({"order": 2})), ("which", json!({}))]),
        Message::assistant("Both are late."),
    ]);
    // Either waits for the other.
    desk.crm.together = Some(Arc::new(Barrier::new(2)));
    let out = Support::compile().invoke(asked()).context(desk).await.unwrap();
    assert_eq!(results(out.state()), ["order 1 is late", "order 2 is late", "scripted"]);
    assert_eq!(out.state().messages.last().unwrap().text(), "Both are late.");
}

#[tokio::test]
async fn approvals_are_requested_together_and_finished_calls_are_kept() {
    let desk = desk([
        calls([
            ("refund", json!({"order": 1})),
            ("lookup", json!({"order": 2})),
            ("refund", json!({"order": 3})),
            ("nothing", json!({})),
            ("lookup", json!({"order": "x"})),
        ]),
        Message::assistant("Done."),
    ]);
    let (graph, config) = (Support::compile().checkpointer(MemorySaver::new()), Config::new().thread("case"));
    let outcome = graph.invoke(asked()).config(config.clone()).context(desk.clone()).await.unwrap();
    let Outcome::Interrupted(open) = outcome else { panic!("{outcome:?}") };
    let requests: Vec<ApprovalRequest> = open.questions.iter().map(|question| question.parse().unwrap()).collect();
    let orders: Vec<_> =
        requests.iter().map(|request| (request.agent.as_str(), request.call.args["order"].as_u64())).collect();
    assert_eq!(orders, [("support", Some(1)), ("support", Some(3))]);
    assert_eq!(open.questions[0].path, ["act", "refund"]);
    assert_eq!(desk.crm.asked.load(Ordering::Relaxed), 1, "the call without approval is made");
    let reject = Approval::Reject { reason: "no".to_owned() };
    let answers = [(&open.questions[0].id, json!(Approval::Approve)), (&open.questions[1].id, json!(reject))];
    let out = graph.invoke(Command::answers(answers)).config(config).context(desk.clone()).await.unwrap();
    assert_eq!(desk.crm.asked.load(Ordering::Relaxed), 2, "the lookup is not made again");
    assert_eq!(out.state().refunds, [1]);
    let results = results(out.state());
    assert_eq!((&*results[0], &*results[1]), ("Done.", "order 2 is late"));
    assert!(results[2].contains("did not approve this call: no"), "{results:?}");
    assert!(results[3].contains("nothing is not a valid tool, try one of [lookup, refund,"), "{results:?}");
    assert!(results[4].contains("the arguments of `lookup` do not fit"), "{results:?}");
}

#[tokio::test]
async fn failed_tool_is_named_or_reported() {
    let broken = || [Message::call("breaks", json!({})), Message::assistant("It is broken.")];
    let error = Support::compile().invoke(asked()).context(desk(broken())).await.unwrap_err().to_string();
    assert!(error.contains("node `breaks` of graph `act` failed: tool `breaks`: out of paper"), "{error}");
    let out = ReportsErrors::compile().invoke(asked()).context(desk(broken())).await.unwrap();
    let received = out.state().messages.get(2).unwrap();
    assert!(received.text().contains("out of paper"));
    assert!(matches!(&received.body, hier_agents::Body::Tool { status: ToolStatus::Error, .. }));
}

#[tokio::test]
async fn command_of_a_tool_routes_the_surrounding_graph() {
    let desk = desk([Message::call("hand_over", json!({})), Message::assistant("We will look into it.")]);
    let mut events = Support::compile().stream(asked()).context(desk).modes([StreamMode::Tasks]);
    let mut ran = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Task(TaskEvent { node, phase: TaskPhase::Started { .. }, .. }) = event.unwrap() {
            ran.push(node);
        }
    }
    assert_eq!(ran, ["think", "act", "person", "think"]);
    let Outcome::Finished(out) = events.outcome().await.unwrap() else { panic!("it ends") };
    assert_eq!(out.note, "handed over");
}

#[tokio::test]
async fn message_without_calls_is_an_error() {
    let error = Careless::compile().invoke(asked()).context(desk([])).await.unwrap_err().to_string();
    assert!(
        error.contains("`messages` has no open call: route to the tool node only if `wants_tools` returns true"),
        "{error}"
    );
}

#[tokio::test]
async fn tools_emit_under_any_context() {
    let desk = desk([Message::call("tell", json!({"text": "half-way"})), Message::assistant("Done.")]);
    let mut events = Support::compile().stream(asked()).context(desk).modes([StreamMode::Custom]);
    let Some(Ok(Event::Custom { value: received, .. })) = events.next().await else { panic!("the model receives it") };
    assert_eq!(received, json!("half-way"));
    assert!(events.outcome().await.unwrap().is_finished());
}

#[tokio::test]
async fn builder_has_the_same_node() {
    let act = ToolNode::<Chat, Desk>::new("act")
        .tool(lookup::TOOL)
        .tool(breaks::TOOL)
        .errors(ToolErrors::Tell)
        .compile()
        .unwrap();
    let mut graph: GraphBuilder<Chat, Desk> = GraphBuilder::new("support");
    graph =
        graph.node("think", async |task: Task<Chat, Desk>| think(task.state(), task.run()).await).subgraph("act", &act);
    graph = graph.edge(START, "think").edge("act", "think");
    let arms = [("call", vec![EdgeEnd::from("act")]), ("end", vec![END.into()])];
    graph = graph.route("think", "wants_tools", arms, |state| if wants_tools(state) { "call" } else { "end" });
    let graph = graph.compile().unwrap();
    let desk = desk([calls([("lookup", json!({"order": 1})), ("breaks", json!({}))]), Message::assistant("So it is.")]);
    let out = graph.invoke(asked()).context(desk).await.unwrap();
    assert!(results(out.state())[1].contains("out of paper"));
    let twice = ToolNode::<Chat, Desk>::new("act").tool(breaks::TOOL).tool(breaks::TOOL).compile().unwrap_err();
    assert_eq!(twice.mistakes, ["there are two tools `breaks`: rename one"]);
}
