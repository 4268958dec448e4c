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

graph! { Chat<Filing> = Agent { tools: [pay] } }

graph! { Judge<Filing> = Agent { tools: [pay], answer: artifact } }

graph! { Desk<Filing> = ReactGraph { tools: [pay], subagents: [Clerk] } }

graph! { Clerk<Filing> = ReactGraph { tools: [pay] } }

graph! { List<Filing> = TodoGraph { tools: [pay] } }

graph! {
    Own<Filing, BaseContext> = Graph {
        nodes: [think, act = tools![pay]],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
    }
}

async fn think(state: &Filing, run: &Run<BaseContext>) -> hier_core::Result<FilingUpdate> {
    let answer = run.model()?.ask(&state.base.messages).tools(tools![pay]).await?;
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

/// A client can send the results of open calls together with the next message, as LangGraph's chat user interfaces do.
#[tokio::test]
async fn result_in_the_input_is_the_only_result() {
    let kinds: [(&str, Compiled, Message); 3] = [
        ("chat", Chat::compile(), Message::assistant("Paid.")),
        ("desk", Desk::compile_as_root(), finish("paid")),
        ("own", Own::compile(), Message::assistant("Paid.")),
    ];
    for (kind, graph, end) in kinds {
        let pays = calls([("pay", json!({"eur": 9})), ("pay", json!({"eur": 8}))]);
        let (graph, model) = (graph.checkpointer(MemorySaver::new()), ScriptedModel::new([pays.clone(), end]));
        let context = || BaseContext::new(model.clone());
        let _ =
            graph.invoke(Filing::update().messages(Message::user("pay"))).thread("t").context(context()).await.unwrap();
        let [cash, other] = pays.tool_calls() else { panic!("{pays:?}") };
        let input = Filing::update().messages([Message::tool(cash, "paid in cash"), Message::user("thanks")]);
        let out = graph.invoke(input).thread("t").context(context()).await.unwrap();
        for messages in [&out.state().base.messages, &model.requests()[1].messages] {
            let results = |call: &ToolCall| -> Vec<String> {
                let of_call = messages.iter().filter(|message| message.tool_call_id() == Some(&call.id));
                of_call.map(Message::text).collect()
            };
            assert_eq!(results(cash), ["paid in cash"], "{kind}");
            assert!(matches!(&results(other)[..], [left] if left.starts_with("Error: not made")), "{kind}");
            assert!(!messages.iter().any(|message| message.text().contains("was called earlier")), "{kind}");
        }
    }
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
