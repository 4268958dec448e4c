//! Messages of others between an answer of the model and its calls: at every place, in every kind of agent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hier_agents::layer::{Layer, Limit, ModelCall, ModelReply, NextModel};
use hier_agents::prelude::*;
use hier_agents::{
    AgentBuilder, AgentEnd, Budget, ChatModel, ChatRequest, ChatResponse, Messages, ModelError, Subagent,
    SubagentPolicy,
};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_core::message::ToolCall;
use hier_core::state::wants_tools;
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, FilingUpdate, call, calls, finish, report};

type Compiled = CompiledGraph<Filing, BaseContext>;

/// Returns the fault of a sent conversation: calls that no results follow, or results without calls.
fn invalid(messages: &Messages) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message.tool_call_id() {
            Some(id) => match open.iter().position(|call| *call == id) {
                Some(place) => _ = open.remove(place),
                None => return Some(format!("a result of `{id}` without a call: {messages:?}")),
            },
            None if open.is_empty() => open = message.tool_calls().iter().map(|call| &*call.id).collect(),
            None => return Some(format!("no result of {open:?}: {messages:?}")),
        }
    }
    (!open.is_empty()).then(|| format!("no result of {open:?} at the end: {messages:?}"))
}

/// A scripted model. While it is asked for the `at`th time, a message reaches the inbox of the graph.
#[derive(Clone)]
struct Watched {
    script: ScriptedModel,
    asked: Arc<AtomicUsize>,
    graph: Arc<OnceLock<Compiled>>,
    foreign: Option<(usize, Message)>,
}

#[async_trait]
impl ChatModel for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        assert_eq!(invalid(&request.messages), None);
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some((at, message)) = &self.foreign
            && *at == number
        {
            self.graph.get().unwrap().send("t", message.clone()).await.unwrap();
        }
        self.script.chat(request).await
    }
}

/// A model that replays a script.
struct Script(ScriptedModel);

impl From<&[Message]> for Script {
    fn from(said: &[Message]) -> Self {
        Self(ScriptedModel::new(said.iter().cloned()))
    }
}

impl<const N: usize> From<&[Message; N]> for Script {
    fn from(said: &[Message; N]) -> Self {
        said.as_slice().into()
    }
}

/// Runs a graph to its end; the state, and how often the model was asked.
async fn run(
    compiled: Compiled,
    script: impl Into<Script>,
    foreign: Option<(usize, Message)>,
    budget: Option<Budget>,
) -> (Filing, usize) {
    let graph = compiled.checkpointer(MemorySaver::new());
    let model = Watched {
        script: script.into().0,
        asked: Arc::default(),
        graph: Arc::new(OnceLock::from(graph.clone())),
        foreign: foreign.clone(),
    };
    let mut context = BaseContext::new(model.clone());
    if let Some(budget) = budget {
        context = context.budget(budget);
    }
    let input = Filing::update().messages(Message::user("go"));
    let out = graph.invoke(input).thread("t").context(context).await;
    let out = out.unwrap_or_else(|error| panic!("{foreign:?}: {error}"));
    (out.state().clone(), model.asked.load(Ordering::SeqCst))
}

/// The parts of a result that must not differ between runs: the end, the report, the tools' effects, and the number of model calls.
fn outcome((state, asked): &(Filing, usize)) -> (Option<AgentEnd>, String, Vec<String>, Option<String>, usize) {
    let base = &state.base;
    let mut results: Vec<&str> = base.messages.iter().filter_map(Message::tool_call_id).collect();
    let mut made: Vec<&str> = base.messages.iter().flat_map(Message::tool_calls).map(|call| &*call.id).collect();
    results.sort_unstable();
    made.sort_unstable();
    assert_eq!(results, made, "each call has one result: {:?}", base.messages);
    (base.ending().cloned(), base.current_agent_report.clone(), state.findings.clone(), state.artifact.clone(), *asked)
}

/// Runs a graph with a message of another at every place, which changes nothing.
async fn unchanged_by_others(what: &str, compile: impl Fn() -> Compiled, script: &[Message]) {
    let alone = outcome(&run(compile(), script, None, None).await);
    assert_eq!(alone.4, script.len(), "{what}: the whole script is used");
    for foreign in [Message::user("one more thing"), Message::system("a new rule"), Message::assistant("I take over.")]
    {
        // The run ends with the last answer. Later messages wait for the next run.
        for at in 0..script.len() - 1 {
            let with = run(compile(), script, Some((at, foreign.clone())), None).await;
            assert!(with.0.base.messages.iter().any(|message| message.body == foreign.body), "{what}, {at}: it came");
            assert_eq!(outcome(&with), alone, "{what}, {at}: {foreign:?}");
        }
    }
}

/// Looks an order up.
#[tool]
async fn look(order: u32) -> Command<Filing> {
    Command::update(Filing::update().findings([format!("order {order}")]))
}

fn order(number: u32) -> Message {
    call("look", json!({ "order": number }))
}

fn two() -> Message {
    calls([("look", json!({"order": 1})), ("look", json!({"order": 2}))])
}

graph! {
    Chat<Filing> = Agent { tools: [look], subagents: [Counter { merge_fields: [findings] }], inbox: messages }
}

graph! {
    Judge<Filing> = Agent { tools: [look], answer: artifact, inbox: messages, max_iterations: 6 }
}

graph! {
    Desk<Filing> = ReactGraph { tools: [look], subagents: [Counter { merge_fields: [findings] }, Sharing], inbox: messages }
}

graph! {
    Counter<Filing, BaseContext> = SimpleGraph { compute: count }
}

graph! {
    Sharing<Filing> = ReactGraph { tools: [look] }
}

graph! {
    Short<Filing> = ReactGraph { tools: [look], max_iterations: 2, inbox: messages }
}

graph! {
    List<Filing> = TodoGraph { tools: [look], inbox: messages }
}

graph! {
    Many<Filing> = ReactGraph {
        parallel_subagents: true,
        subagents: [Counter { merge_fields: [findings] }, Clerk { merge_fields: [findings] }],
        inbox: messages,
    }
}

graph! {
    Clerk<Filing> = ReactGraph { system: "You are a clerk.", tools: [look] }
}

graph! {
    Own<Filing, BaseContext> = Graph {
        nodes: [think, act = tools![look]],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
        inbox: messages,
    }
}

async fn think(state: &Filing, run: &Run<BaseContext>) -> Result<FilingUpdate> {
    let answer = run.model()?.ask(&state.base.messages).tools(tools![look]).await?;
    Ok(Filing::update().messages(answer.message))
}

async fn count() -> FilingUpdate {
    Filing::update().findings(["counted".to_owned()]).current_agent_report("counted".to_owned())
}

#[tokio::test]
async fn foreign_messages_do_not_affect_answering_agents() {
    let script = [two(), order(3), call("counter", json!({"task": "x"})), Message::assistant("Done.")];
    unchanged_by_others("chat", Chat::compile, &script).await;
    let script = [
        Message::assistant("no answer yet"),
        order(1),
        call("final_answer", json!({"value": 1, "other": 2})),
        call("final_answer", json!({"value": "fits"})),
    ];
    unchanged_by_others("judge", Judge::compile, &script).await;
}

#[tokio::test]
async fn foreign_messages_do_not_affect_reporting_agents() {
    let script = [
        order(1),
        call("counter", json!({"task": "x"})),
        call("unknown", json!({})),
        two(),
        calls([("look", json!({"order": 4})), ("finish_task", json!({"result": "early"}))]),
        calls([("look", json!({"order": 5})), ("counter", json!({"task": "y"}))]),
        Message::assistant("let me think"),
        finish("done"),
    ];
    unchanged_by_others("desk", Desk::compile_as_root, &script).await;
    let script = [call("sharing", json!({"task": "x"})), order(1), two(), report("shared"), finish("done")];
    unchanged_by_others("a shared state", Desk::compile_as_root, &script).await;
    let script = [order(1), order(2), report("done")];
    unchanged_by_others("a refusal", Short::compile, &script).await;
    let script = [order(1), order(2), order(3), order(4), order(5), order(6), order(7)];
    unchanged_by_others("a forced exit", Short::compile, &script).await;
    let script = [
        call("todo_write", json!({"items": ["a"]})),
        finish("early"),
        order(1),
        call("todo_complete", json!({"item": "a"})),
        finish("done"),
    ];
    unchanged_by_others("list", List::compile_as_root, &script).await;
}

#[tokio::test]
async fn foreign_messages_do_not_affect_tool_nodes() {
    let script = [order(1), two(), order(3), Message::assistant("Done.")];
    unchanged_by_others("own", Own::compile, &script).await;
}

/// Subagents of one answer have equal shares of the budget, and count as progress, whatever stands behind the answer.
#[tokio::test]
async fn foreign_messages_do_not_affect_shares_and_progress() {
    let three =
        || calls([("clerk", json!({"task": "a"})), ("counter", json!({"task": "b"})), ("clerk", json!({"task": "c"}))]);
    for foreign in [None, Some((0, Message::user("one more thing")))] {
        // A clerk looks orders up until its share is used up.
        let model = ScriptedModel::reacting(move |request| {
            let is_clerk = request.messages.iter().any(|message| message.text() == "You are a clerk.");
            let has_results = request.messages.iter().any(|message| message.tool_call_id().is_some());
            match (is_clerk, has_results) {
                (true, _) => order(u32::try_from(request.messages.len()).unwrap()),
                (false, false) => three(),
                (false, true) => finish("done"),
            }
        });
        // One call for the answer that calls them and one for the last; two for each of the three.
        let budget = Some(Budget::new().model_calls(8));
        let (state, asked) = run(Many::compile_as_root(), Script(model), foreign.clone(), budget).await;
        assert_eq!((&*state.base.current_agent_report, asked), ("done", 6), "{foreign:?}");
        assert_eq!(state.base.ending(), Some(&AgentEnd::Report), "{foreign:?}");
        for (name, count) in [("clerk", 2), ("counter", 1)] {
            let calls = state.base.progress.get(name);
            assert_eq!((calls.scheduled, calls.finished), (count, count), "{foreign:?}: {name}");
        }
    }
}

#[tokio::test]
async fn call_limit_counts_open_calls_behind_other_messages() {
    for foreign in [None, Some((0, Message::user("one more thing")))] {
        let desk = AgentBuilder::<Filing>::new("desk").tool(look::TOOL).layer(Limit::new().tool_calls(1)).layer(Notes);
        let three =
            calls([("look", json!({"order": 1})), ("look", json!({"order": 2})), ("look", json!({"order": 3}))]);
        let (state, _) = run(desk.compile().unwrap(), &[three, Message::assistant("One.")], None, None).await;
        assert_eq!(state.findings, ["order 1"], "{foreign:?}");
    }
}

/// Writes a message into the conversation with each answer.
struct Notes;

#[async_trait]
impl<C: Send + Sync + 'static> Layer<Filing, C> for Notes {
    async fn model_call(
        &self,
        call: ModelCall<'_, Filing, C>,
        next: NextModel<'_, Filing, C>,
    ) -> Result<ModelReply<Filing>> {
        Ok(next.call(call).await?.write(Filing::update().messages(Message::user("noted"))))
    }
}

#[tokio::test]
async fn layer_writes_messages_with_an_answer() {
    let clerk = || {
        Subagent::<Filing, BaseContext>::new(&Counter::compile())
            .policy(SubagentPolicy::new().merge_fields(["findings"]))
    };
    let desk = AgentBuilder::<Filing, BaseContext>::react("desk").tool(look::TOOL).subagent(clerk()).layer(Notes);
    let script = [order(1), call("counter", json!({"task": "x"})), two(), finish("done")];
    let out = run(desk.compile_as_root().unwrap(), &script, None, None).await;
    assert_eq!(out.0.findings, ["order 1", "counted", "order 1", "order 2"]);
    assert_eq!(outcome(&out).1, "done");
}

/// Pays.
#[tool(needs_approval)]
async fn pay(eur: u32) -> String {
    format!("paid {eur}")
}

graph! {
    Careful<Filing> = Agent { tools: [pay], inbox: messages }
}

#[tokio::test]
async fn new_input_closes_an_open_call_behind_foreign_messages() {
    for foreign in [Message::user("one more thing"), Message::system("a new rule"), Message::assistant("I take over.")]
    {
        let graph = Careful::compile().checkpointer(MemorySaver::new());
        let model = Watched {
            script: ScriptedModel::new([call("pay", json!({"eur": 1})), Message::assistant("I did not pay.")]),
            asked: Arc::default(),
            graph: Arc::new(OnceLock::from(graph.clone())),
            foreign: Some((0, foreign)),
        };
        let say = |text: &str| {
            let input = Filing::update().messages(Message::user(text));
            graph.invoke(input).thread("t").context(BaseContext::new(model.clone()))
        };
        assert!(!say("pay").await.unwrap().is_finished());
        let out = say("never mind").await.unwrap();
        let results = out.state().base.messages.iter().filter(|message| message.tool_call_id().is_some());
        let results: Vec<String> = results.map(Message::text).collect();
        assert!(results.len() == 1 && results[0].starts_with("Error: not made"), "{:?}", out.state().base.messages);
    }
}

/// Two calls of one id are two calls: each has its result, and both count as progress.
#[tokio::test]
async fn calls_with_equal_ids_are_distinct() {
    let twice = |name: &str, args: serde_json::Value| {
        Message::calls("", [1, 2].map(|_| ToolCall::new(name, args.clone()).with_id("same")))
    };
    let script = [twice("counter", json!({"task": "x"})), finish("done")];
    let out = run(Many::compile_as_root(), &script, None, None).await;
    let counter = out.0.base.progress.get("counter");
    assert_eq!((counter.scheduled, counter.finished, outcome(&out).1), (2, 2, "done".to_owned()));
}

/// A provider that gives its calls the same ids in each answer.
#[tokio::test]
async fn reused_ids_of_later_answers_are_distinguished() {
    let reused = |number: u32| {
        let look = |order: u32, id: &str| ToolCall::new("look", json!({ "order": order })).with_id(id);
        Message::calls("", [look(number, "call_0"), look(number + 1, "call_1")])
    };
    let single = Message::calls("", [ToolCall::new("look", json!({"order": 9})).with_id("call_0")]);
    let script = [reused(1), reused(3), single, finish("done")];
    for foreign in
        [None, Some((0, Message::user("more"))), Some((1, Message::user("more"))), Some((2, Message::user("more")))]
    {
        let (state, _) = run(Desk::compile_as_root(), &script, foreign, None).await;
        assert_eq!(state.findings, ["order 1", "order 2", "order 3", "order 4", "order 9"]);
    }
}
