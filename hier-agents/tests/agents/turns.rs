//! A new input on a thread is a new turn.

use hier_agents::layer::Limit;
use hier_agents::prelude::*;
use hier_agents::{AgentEnd, AgentLimit, Approval};
use hier_core::StateUpdate;
use hier_core::checkpoint::MemorySaver;
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, call, calls, finish, prompt};

graph! {
    Chat<BaseState> = Agent { system: "You answer.", tools: [look, pay, stop], max_iterations: 2 }
}

/// Looks.
#[tool]
async fn look() -> String {
    "seen".to_owned()
}

/// Pays.
#[tool(needs_approval)]
async fn pay(eur: u32) -> String {
    format!("paid {eur}")
}

/// Calls all off.
#[tool]
async fn stop() -> Command<BaseState> {
    Command::update(BaseState::update().is_cancelled(true))
}

#[tokio::test]
async fn turn_asks_once_and_starts_clean() {
    let model = ScriptedModel::new([
        call("look", json!({})),
        call("look", json!({})),
        Message::assistant("Two."),
        call("stop", json!({})),
        Message::assistant("Four."),
    ]);
    let chat = Chat::compile().checkpointer(MemorySaver::new());
    let turn = async |text: &str| {
        let context = BaseContext::new(model.clone());
        chat.invoke(Message::user(text)).thread("t").context(context).await.unwrap()
    };
    let first = turn("one").await;
    assert_eq!(first.ending(), Some(&AgentEnd::Limit(AgentLimit::Iterations(2))));
    assert_eq!(model.call_count(), 2);

    let second = turn("two").await;
    assert_eq!((second.ending(), model.call_count()), (Some(&AgentEnd::Text), 3));
    let state = second.state();
    assert_eq!((&*state.current_agent_report, state.is_finished, state.iteration_number), ("Two.", true, 1));
    assert!(!prompt(&model, 2)[0].contains("last time"), "{:?}", prompt(&model, 2));

    let third = turn("three").await;
    assert_eq!(third.ending(), Some(&AgentEnd::Cancelled));
    assert!(!third.state().is_finished && third.state().is_cancelled);

    let fourth = turn("four").await;
    assert_eq!((fourth.ending(), model.call_count()), (Some(&AgentEnd::Text), 5));
    assert!(!fourth.state().is_cancelled);
    let sent = prompt(&model, 4);
    assert_eq!(sent.iter().filter(|text| *text == "You answer.").count(), 1);
}

#[tokio::test]
async fn some_of_parallel_calls_wait_for_approval() {
    let model = ScriptedModel::new([
        calls([("pay", json!({"eur": 1})), ("look", json!({})), ("pay", json!({"eur": 2}))]),
        Message::assistant("Done."),
    ]);
    let chat = Chat::compile().checkpointer(MemorySaver::new());
    let context = || BaseContext::new(model.clone());
    let asked = chat.invoke(Message::user("pay")).thread("t").context(context()).await.unwrap();
    assert_eq!(asked.ending(), None);
    let Outcome::Interrupted(asked) = asked else { panic!("{asked:?}") };
    assert_eq!(asked.questions.len(), 2);
    let reject = Approval::Reject { reason: "too much".to_owned() };
    let answers =
        [(asked.questions[0].id.clone(), json!(Approval::Approve)), (asked.questions[1].id.clone(), json!(reject))];
    let out = chat.invoke(Command::answers(answers)).thread("t").context(context()).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Text), 2));
    let sent = prompt(&model, 1);
    assert_eq!(sent[3..], ["paid 1", "seen", "Error: the operator did not approve this call: too much"]);
}

graph! {
    Old<Filing> = ReactGraph { system: "You work.", tools: [look], max_iterations: 3 }
}

#[tokio::test]
async fn reporting_agents_start_each_turn_clean() {
    let model = ScriptedModel::new([finish("first")]);
    let old = Old::compile_as_root().checkpointer(MemorySaver::new());
    let turn = async |text: &str| {
        let (input, context) = (Filing::update().messages(Message::user(text)), BaseContext::new(model.clone()));
        old.invoke(input).thread("t").context(context).await.unwrap()
    };
    let first = turn("one").await;
    assert_eq!((first.ending(), first.state().base.is_finished), (Some(&AgentEnd::Report), true));

    for _ in 0..8 {
        model.push(Message::assistant("hm"));
    }
    let second = turn("two").await;
    assert_eq!(second.ending(), Some(&AgentEnd::Limit(AgentLimit::Iterations(3))));
    let base = &second.state().base;
    assert!(!base.is_finished);
    assert_eq!(
        base.current_agent_report,
        "[FORCED EXIT] Agent exhausted iteration budget (max_iterations=3, iterations_used=8)."
    );
    let sent = prompt(&model, 1);
    assert_eq!(sent.iter().filter(|text| *text == "You work.").count(), 1, "{sent:?}");
    // An agent that must report has the tool for it.
    let offered = |place: usize| model.requests()[place].tools.iter().any(|tool| tool.name == "report_to_supervisor");
    assert_eq!((offered(2), offered(3)), (false, true));
    assert!(prompt(&model, 3).last().unwrap().contains("You MUST call report_to_supervisor NOW"));
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Notes {
    #[state(flatten)]
    base: BaseState,
    title: String,
}

graph! {
    Writer<Notes> = Agent { tools: [entitle] }
}

/// Gives a title.
#[tool]
async fn entitle(title: String) -> Command<Notes> {
    Command::update(Notes::update().title(title))
}

#[tokio::test]
async fn last_of_two_calls_that_write_a_channel_wins() {
    let model = ScriptedModel::new([
        calls([("entitle", json!({"title": "one"})), ("entitle", json!({"title": "two"}))]),
        Message::assistant("Done."),
    ]);
    let writer = Writer::compile().checkpointer(MemorySaver::new());
    let context = BaseContext::new(model.clone());
    let out = writer.invoke(Message::user("title")).thread("t").context(context).await.unwrap();
    assert_eq!((out.ending(), &*out.state().title), (Some(&AgentEnd::Text), "two"));
    assert_eq!(prompt(&model, 1)[2..], ["Done.", "Done."]);
}

graph! {
/// Shares the state of its caller.
    Mate<Filing> = Agent { tools: [look] }
}

graph! {
    Pair<Filing> = Agent { subagents: [Mate], max_iterations: 3 }
}

#[tokio::test]
async fn subagent_that_shares_the_state_keeps_the_limit() {
    let model = ScriptedModel::reacting(|request| {
        let is_pair = request.tools.iter().any(|tool| tool.name == "mate");
        if is_pair { call("mate", json!({"task": "help"})) } else { Message::assistant("helped") }
    });
    let context = BaseContext::new(model.clone());
    let out = Pair::compile().invoke(Message::user("go")).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Limit(AgentLimit::Iterations(3))));
    assert_eq!(model.call_count(), 5);
}

graph! {
    Steered<Notes> = Agent { inbox: messages }
}

/// As the guide has it: `graph.send("case-17", "The customer called again.")`.
#[tokio::test]
async fn sent_text_is_a_user_message() {
    let model = ScriptedModel::new([Message::assistant("Noted.")]);
    let desk = Steered::compile().checkpointer(MemorySaver::new());
    assert!(desk.send("t", "The customer called again.").await.expect("a text is taken"));
    let error = desk.send("t", 5).await.expect_err("a number is not").to_string();
    assert!(error.contains("a message: an object with a `role` and its `content`"), "{error}");
    let out = desk.invoke(Message::user("hello")).thread("t").context(BaseContext::new(model)).await.unwrap();
    let said = serde_json::to_value(&out.state().base.messages).expect("messages are JSON");
    let taken =
        said.as_array().expect("a list").iter().find(|message| message["content"] == "The customer called again.");
    assert_eq!(taken.map(|message| &message["role"]), Some(&json!("user")), "{said}");
}

#[tokio::test]
async fn new_message_withdraws_an_open_approval_and_informs_the_model() {
    let model = ScriptedModel::new([
        calls([("pay", json!({"eur": 1})), ("look", json!({}))]),
        Message::assistant("I did not pay."),
        Message::assistant("Bye."),
        calls([("pay", json!({"eur": 2})), ("look", json!({}))]),
        Message::assistant("Again I did not pay."),
    ]);
    let chat = Chat::compile().checkpointer(MemorySaver::new());
    let turn = async |text: &str| {
        let context = BaseContext::new(model.clone());
        chat.invoke(Message::user(text)).thread("t").context(context).await.unwrap()
    };
    let Outcome::Interrupted(asked) = turn("pay").await else { panic!("no question") };
    let out = turn("never mind").await;
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    let sent = prompt(&model, 1);
    assert!(sent[3].starts_with("Error: not made: a new message arrived before this call was approved"), "{sent:?}");
    assert!(sent[4].starts_with("Error: no result: a new message arrived before this call ended"), "{sent:?}");
    assert_eq!(sent[5], "never mind");
    // It is part of the conversation, and the question is gone.
    let stored: Vec<String> = out.state().messages.iter().map(Message::text).collect();
    assert_eq!(stored[2..5], sent[3..6]);
    let answer = Command::answers([(asked.questions[0].id.clone(), json!(Approval::Approve))]);
    let context = BaseContext::new(model.clone());
    let error = chat.invoke(answer).thread("t").context(context).await.unwrap_err();
    assert!(error.to_string().contains("question"), "{error}");
    assert_eq!(turn("bye").await.ending(), Some(&AgentEnd::Text));
    assert_eq!(prompt(&model, 2).iter().filter(|text| text.contains("not made")).count(), 1);
    // The conversation is in memory by now.
    assert!(!turn("pay").await.is_finished());
    let out = turn("never mind").await;
    let results = out.state().messages.iter().filter(|message| message.tool_call_id().is_some()).count();
    assert_eq!(results, 4, "each call has a result: {:?}", out.state().messages);
    let stored = chat.state("t").await.unwrap().values;
    assert_eq!(out.state().messages, stored.messages);
}

/// A provider that gives its calls the same ids in each answer: an approval is for the call that was asked about.
#[tokio::test]
async fn approvals_of_reused_ids_are_distinguished() {
    let pay = |first: u32, second: u32| {
        let pay = |eur: u32, id: &str| ToolCall::new("pay", json!({ "eur": eur })).with_id(id);
        Message::calls("", [pay(first, "call_0"), pay(second, "call_1")])
    };
    let model = ScriptedModel::new([pay(1, 2), Message::assistant("One."), pay(3, 4), Message::assistant("Two.")]);
    let chat = Chat::compile().checkpointer(MemorySaver::new());
    for (turn, [approved, rejected]) in [(1, [0, 1]), (2, [1, 0])] {
        let context = || BaseContext::new(model.clone());
        let asked = chat.invoke(Message::user("pay")).thread("t").context(context()).await.unwrap();
        let Outcome::Interrupted(asked) = asked else { panic!("{asked:?}") };
        let reject = json!(Approval::Reject { reason: "too much".to_owned() });
        let id = |place: usize| asked.questions[place].id.clone();
        let answers =
            [(id(approved), json!(Approval::Edit { args: json!({"eur": 10 + turn}) })), (id(rejected), reject)];
        let out = chat.invoke(Command::answers(answers)).thread("t").context(context()).await.unwrap();
        assert_eq!(out.ending(), Some(&AgentEnd::Text));
        let sent = prompt(&model, 2 * turn - 1);
        let results = &sent[sent.len() - 2..];
        assert!(results[approved].ends_with(&format!("\npaid {}", 10 + turn)), "{sent:?}");
        assert!(results[rejected].contains("did not approve this call: too much"), "{sent:?}");
    }
}

graph! {
    Once<BaseState> = Agent { tools: [look], layers: [Limit { model_calls: 1 }], on_entry: greets, max_iterations: 2 }
}

fn greets() -> hier_agents::BaseStateUpdate {
    BaseState::update().messages(Message::user("entered"))
}

/// An input from outside the runs is an input: the turn begins, and the graph is entered, when it is applied.
#[tokio::test]
async fn input_through_update_state_starts_a_turn() {
    let texts = |out: &Outcome<BaseState>| out.state().messages.iter().map(Message::text).collect::<Vec<_>>();
    let model = ScriptedModel::new([call("look", json!({})), Message::assistant("Two.")]);
    let once = Once::compile().checkpointer(MemorySaver::new());
    let context = || BaseContext::new(model.clone());
    let first = once.invoke(Message::user("one")).thread("t").context(context()).await.unwrap();
    assert_eq!(first.ending(), Some(&AgentEnd::Limit(AgentLimit::ModelCalls(1))));
    let entered = |out: &Outcome<BaseState>| texts(out).iter().filter(|text| *text == "entered").count();
    assert_eq!(entered(&first), 1);

    let input = BaseState::update().messages(Message::user("two"));
    once.update_state("t", StateUpdate::input(input)).await.unwrap();
    let second = once.invoke(()).thread("t").context(context()).await.unwrap();
    assert_eq!((second.ending(), model.call_count()), (Some(&AgentEnd::Text), 2));
    let state = second.state();
    assert_eq!((&*state.current_agent_report, state.iteration_number, entered(&second)), ("Two.", 1, 2));
}
