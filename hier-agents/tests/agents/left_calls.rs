//! A call that never gets its result, because the conversation continues: each later request says so, in every kind of agent.

use hier_agents::Messages;
use hier_agents::prelude::*;
use hier_core::StateUpdate;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_core::message::ToolCall;
use hier_core::state::wants_tools;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, FilingUpdate, call, calls, finish};

type Compiled = CompiledGraph<Filing, BaseContext>;

/// Pays.
#[tool(needs_approval)]
async fn pay(eur: u32) -> String {
    format!("paid {eur}")
}

/// Shows a text to the user.
#[tool(client)]
async fn show(text: String) -> String;

graph! { Chat<Filing> = Agent { tools: [pay, show] } }

graph! { Judge<Filing> = Agent { tools: [pay], answer: artifact } }

graph! { Desk<Filing> = ReactGraph { tools: [pay, show], subagents: [Clerk] } }

graph! { Clerk<Filing> = ReactGraph { tools: [pay] } }

graph! { List<Filing> = TodoGraph { tools: [pay] } }

graph! {
    Own<Filing, BaseContext> = Graph {
        nodes: [think, act = tools![pay, show]],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
    }
}

async fn think(state: &Filing, run: &Run<BaseContext>) -> hier_core::Result<FilingUpdate> {
    let answer = run.model()?.ask(&state.base.messages).tools(tools![pay, show]).await?;
    Ok(Filing::update().messages(answer.message))
}

/// The ways in which a conversation continues without the answer to a question.
#[derive(Clone, Copy, Debug)]
enum Way {
    Input,
    UpdateOfNode,
}

/// A conversation with an open approval continues with another message.
async fn continues(graph: Compiled, script: Vec<Message>, way: Way) -> (Messages, Messages) {
    let (graph, model) = (graph.checkpointer(MemorySaver::new()), ScriptedModel::new(script));
    let (config, context) = (|| Config::new().thread("t"), || BaseContext::new(model.clone()));
    let message = |text| Filing::update().messages(Message::user(text));
    let asked = graph.invoke(message("pay")).config(config()).context(context()).await.unwrap();
    let Outcome::Interrupted(asked) = asked else { panic!("{asked:?}") };
    let more = message("never mind");
    let out = match way {
        Way::Input => graph.invoke(more).config(config()).context(context()).await,
        Way::UpdateOfNode => {
            let node = asked.questions[0].path[0].clone();
            graph.update_state(config(), StateUpdate::update(more).as_node(node)).await.unwrap();
            graph.invoke(()).config(config()).context(context()).await
        }
    };
    let out = out.unwrap_or_else(|error| panic!("{way:?}: {error}"));
    (model.requests()[1].messages.clone(), out.state().base.messages.clone())
}

/// The result of the call that was left.
fn result(messages: &Messages) -> Option<String> {
    let call = messages.iter().flat_map(Message::tool_calls).next().unwrap();
    messages.iter().find(|message| message.tool_call_id() == Some(&call.id)).map(Message::text)
}

#[tokio::test]
async fn later_requests_report_calls_that_were_not_made() {
    let pay = || call("pay", json!({"eur": 9}));
    let (write, complete) = (call("todo_write", json!({"items": ["a"]})), call("todo_complete", json!({"item": "a"})));
    let kinds: [(&str, Compiled, Vec<Message>); 5] = [
        ("chat", Chat::compile(), vec![pay(), Message::assistant("Not paid.")]),
        ("judge", Judge::compile(), vec![pay(), call("final_answer", json!({"value": "not paid"}))]),
        ("desk", Desk::compile_as_root(), vec![pay(), finish("not paid")]),
        ("list", List::compile_as_root(), vec![pay(), write, complete, finish("not paid")]),
        ("own", Own::compile(), vec![pay(), Message::assistant("Not paid.")]),
    ];
    for (kind, graph, script) in kinds {
        for way in [Way::Input, Way::UpdateOfNode] {
            let (sent, stored) = continues(graph.clone(), script.clone(), way).await;
            let received = result(&sent).unwrap_or_default();
            match way {
                Way::Input => {
                    assert!(
                        received.starts_with("Error: not made: a new message arrived before"),
                        "{kind} {way:?}: {received}"
                    );
                    assert_eq!(result(&stored), Some(received), "{kind} {way:?}");
                }
                Way::UpdateOfNode => {
                    assert_eq!(received, "No result: this call was not made, or has not ended.", "{kind}");
                }
            }
        }
    }
}

/// The model makes these calls, and the next input contains these results. Returns the results of each call, as the
/// model received them and as they are stored.
async fn with_results(made: &Message, given: &[(usize, &str)]) -> Vec<Vec<Vec<String>>> {
    let kinds: [(Compiled, Message); 3] = [
        (Chat::compile(), Message::assistant("Done.")),
        (Desk::compile_as_root(), finish("done")),
        (Own::compile(), Message::assistant("Done.")),
    ];
    let mut all = Vec::new();
    for (graph, end) in kinds {
        let (graph, model) = (graph.checkpointer(MemorySaver::new()), ScriptedModel::new([made.clone(), end]));
        let (context, calls) = (|| BaseContext::new(model.clone()), made.tool_calls());
        let start = Filing::update().messages(Message::user("go"));
        assert!(!graph.invoke(start).thread("t").context(context()).await.unwrap().is_finished());
        let given = given.iter().map(|(place, text)| Message::tool(&calls[*place], *text));
        let input = Filing::update().messages(given.chain([Message::user("thanks")]).collect::<Vec<_>>());
        let out = graph.invoke(input).thread("t").context(context()).await.unwrap();
        for messages in [&out.state().base.messages, &model.requests()[1].messages] {
            let results = |call: &ToolCall| -> Vec<String> {
                let of_call = messages.iter().filter(|message| message.tool_call_id() == Some(&call.id));
                of_call.map(Message::text).collect()
            };
            all.push(calls.iter().map(results).collect());
            assert!(!messages.iter().any(|message| message.text().contains("was called earlier")), "{messages:?}");
            assert!(messages.iter().any(|message| message.text() == "thanks"), "{messages:?}");
        }
    }
    all
}

/// A client can send the results of its tools together with the next message, as LangGraph's chat user interfaces do.
#[tokio::test]
async fn result_in_the_input_is_the_only_result() {
    let shows = calls([("show", json!({"text": "a"})), ("show", json!({"text": "b"}))]);
    for results in with_results(&shows, &[(0, "shown"), (0, "shown twice")]).await {
        assert_eq!(results[0], ["shown"]);
        let [left] = &results[1][..] else { panic!("{results:?}") };
        assert!(left.starts_with("Error: no result: a new message arrived before the client answered"), "{left}");
    }
}

/// Each result is matched with its call and its question, in any order.
#[tokio::test]
async fn results_of_many_calls_in_the_input_are_found_in_any_order() {
    let shows = (0..1_500).map(|number| ToolCall::new("show", json!({ "text": "a" })).with_id(format!("c{number}")));
    let texts: Vec<String> = (0..1_500).map(|number| format!("shown {number}")).collect();
    let given: Vec<(usize, &str)> = texts.iter().map(|text| &**text).enumerate().skip(1).rev().collect();
    for results in with_results(&Message::calls("", shows), &given).await {
        assert!(results[0][0].starts_with("Error: no result: a new message arrived"), "{:?}", results[0]);
        assert!(results[1..].iter().zip(&texts[1..]).all(|(results, text)| results[..] == [text.as_str()]));
    }
}

/// A client can only know the results of its own tools. LangGraph's chat user interfaces send a placeholder for every
/// open call.
#[tokio::test]
async fn placeholder_for_an_open_approval_is_replaced() {
    let placeholder = "Successfully handled tool call.";
    let both = calls([("pay", json!({"eur": 9})), ("show", json!({"text": "a"}))]);
    for results in with_results(&both, &[(0, placeholder), (1, placeholder)]).await {
        let [left] = &results[0][..] else { panic!("{results:?}") };
        assert!(left.starts_with("Error: not made: a new message arrived before"), "{left}");
        assert_eq!(results[1], [placeholder]);
    }
}

/// Some providers use the ids of calls again, and some clients send the whole conversation with each input.
#[tokio::test]
async fn known_result_of_an_earlier_call_is_not_taken_for_a_new_one() {
    let question = || Message::calls("", [ToolCall::new("show", json!({"text": "a"})).with_id("0")]);
    let model = ScriptedModel::new([
        question(),
        Message::assistant("Shown."),
        question(),
        Message::assistant("Not shown again."),
    ]);
    let (graph, context) = (Chat::compile().checkpointer(MemorySaver::new()), || BaseContext::new(model.clone()));
    let message = |text| Filing::update().messages(Message::user(text));
    assert!(!graph.invoke(message("show")).thread("t").context(context()).await.unwrap().is_finished());
    let shown = graph.invoke(Command::resume("ok")).thread("t").context(context()).await.unwrap();
    assert!(!graph.invoke(message("again")).thread("t").context(context()).await.unwrap().is_finished());
    let history = shown.state().base.messages.iter().cloned().chain([Message::user("never mind")]);
    let input = Filing::update().messages(history.collect::<Vec<_>>());
    let out = graph.invoke(input).thread("t").context(context()).await.unwrap();
    let results = out.state().base.messages.iter().filter(|message| message.tool_call_id() == Some("0"));
    let results: Vec<String> = results.map(Message::text).collect();
    assert_eq!((results.len(), &*results[0]), (2, "ok"), "{results:?}");
    assert!(results[1].contains("before the client answered"), "{results:?}");
}

/// A question of a subagent: its supervisor receives a result for the call of the subagent.
#[tokio::test]
async fn withdrawn_subagent_call_has_a_result() {
    let (graph, pay) = (Desk::compile_as_root().checkpointer(MemorySaver::new()), call("pay", json!({"eur": 9})));
    let model = ScriptedModel::new([call("clerk", json!({"task": "pay"})), pay, finish("not paid")]);
    let (config, context) = (|| Config::new().thread("t"), || BaseContext::new(model.clone()));
    let message = |text| Filing::update().messages(Message::user(text));
    let asked = graph.invoke(message("pay")).config(config()).context(context()).await.unwrap();
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    assert!(graph.invoke(message("never mind")).config(config()).context(context()).await.unwrap().is_finished());
    let received = result(&model.requests()[2].messages).unwrap_or_default();
    assert!(received.starts_with("Error: no result: a new message arrived before this call ended"), "{received}");
}

/// An input that is stored next to an open approval leaves it open.
#[tokio::test]
async fn stored_input_keeps_the_approval_open() {
    let script = [call("pay", json!({"eur": 9})), Message::assistant("Paid.")];
    let (graph, model) = (Own::compile().checkpointer(MemorySaver::new()), ScriptedModel::new(script));
    let (config, context) = (|| Config::new().thread("t"), || BaseContext::new(model.clone()));
    let message = |text| Filing::update().messages(Message::user(text));
    assert!(!graph.invoke(message("pay")).config(config()).context(context()).await.unwrap().is_finished());
    graph.update_state(config(), StateUpdate::input(message("never mind"))).await.unwrap();
    let state = graph.state(config()).await.unwrap();
    assert_eq!(result(&state.values.base.messages), None, "the call has no result yet");
    assert_eq!(state.next.len(), 2, "{:?}", state.next);
}

/// A refusal of a call that no message makes any more would be a result without a call.
#[tokio::test]
async fn input_that_removes_the_message_with_the_call_leaves_no_result() {
    let chat = Chat::compile().checkpointer(MemorySaver::new());
    let model = ScriptedModel::new([call("pay", json!({"eur": 9})), Message::assistant("Not paid.")]);
    let context = || BaseContext::new(model.clone());
    let asked = chat.invoke(Message::user("pay")).thread("t").context(context()).await.unwrap();
    let Outcome::Interrupted(asked) = asked else { panic!("{asked:?}") };
    let id = asked.state.base.messages.last().and_then(|message| message.id.clone()).unwrap();
    let more = Filing::update().messages([Message::remove(id), Message::user("never mind")]);
    let out = chat.invoke(more).thread("t").context(context()).await.unwrap();
    let texts: Vec<String> = out.state().base.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["pay", "never mind", "Not paid."]);
    assert_eq!(model.requests()[1].messages.len(), 2);
}
