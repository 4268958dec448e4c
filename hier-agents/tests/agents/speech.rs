//! Output of models is streamed with the path of its agent, and traced.

use hier_agents::{ChatChunk, Reasoning};

use hier_agents::prelude::*;
use hier_core::Event;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, call, calls, finish, report};

graph! {
    Desk<Filing> = ReactGraph { subagents: [Clerk {}] }
}

graph! {
    Clerk<Filing> = ReactGraph {}
}

#[tokio::test]
async fn chunks_have_the_path_of_their_agent() {
    let model = ScriptedModel::new([
        call("clerk", json!({"task": "x"})),
        Message::assistant("let me see"),
        report("seen"),
        finish("done"),
    ]);
    let desk = Desk::compile_as_root();
    let mut events = desk.stream(Filing::update()).context(BaseContext::new(model)).modes([StreamMode::Messages]);
    let (mut text, mut whole) = (String::new(), Vec::new());
    while let Some(event) = events.next().await {
        let Event::Message(spoken) = event.unwrap() else { panic!("only messages were asked for") };
        match spoken.chunk {
            ChatChunk::Text(piece) => {
                assert_eq!((&*spoken.path, &*spoken.agent), (&["clerk".to_owned()][..], "clerk"));
                text.push_str(&piece);
            }
            ChatChunk::Done(_) => whole.push(spoken.agent),
            _ => {}
        }
    }
    assert_eq!(text, "let me see");
    assert_eq!(whole, ["desk", "clerk", "clerk", "desk"]);
    assert!(matches!(events.outcome().await.unwrap(), Outcome::Finished(_)));
}

/// Reasoning and calls are streamed like text and stay with their message.
#[tokio::test]
async fn reasoning_and_calls_are_streamed() {
    let thought = Reasoning::new("scripted", "let me think").with_data(json!("sealed"));
    let ending = Message::call("finish_task", json!({ "result": "done" })).with_reasoning([thought.clone()]);
    let id = ending.tool_calls()[0].id.clone();
    let desk = Desk::compile_as_root();
    let context = BaseContext::new(ScriptedModel::new([ending]));
    let mut events = desk.stream(Filing::update()).context(context).modes([StreamMode::Messages]);
    let mut received = Vec::new();
    while let Some(event) = events.next().await {
        received.push(event.unwrap().to_json().unwrap()["data"].clone());
    }
    let thought_of: String = received.iter().filter_map(|data| data["reasoning"].as_str()).collect();
    assert_eq!(thought_of, "let me think");
    assert!(received.iter().any(|data| data["call"] == json!({ "id": id, "name": "finish_task" })), "{received:?}");
    assert!(
        received.iter().any(|data| data["arguments"] == json!({ "id": id, "text": "{\"result\":\"done\"}" })),
        "{received:?}"
    );
    let Outcome::Finished(out) = events.outcome().await.unwrap() else { panic!("it ends") };
    let kept: Vec<_> = out.base.messages.iter().flat_map(Message::reasoning).cloned().collect();
    assert_eq!(kept, [thought]);
}

graph! {
    Wide<Filing> = ReactGraph { subagents: [Clerk {}], parallel_subagents: true }
}

/// Parallel calls have the same path and different ids.
#[tokio::test]
async fn chunks_of_parallel_calls_have_different_ids() {
    let both = calls([("clerk", json!({"task": "x"})), ("clerk", json!({"task": "y"}))]);
    let model = ScriptedModel::new([both, report("one"), report("two"), finish("done")]);
    let wide = Wide::compile_as_root();
    let mut events = wide.stream(Filing::update()).context(BaseContext::new(model)).modes([StreamMode::Messages]);
    let mut clerks = std::collections::BTreeSet::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        let json = event.to_json().unwrap();
        let Event::Message(spoken) = event else { panic!("only messages were asked for") };
        assert_eq!(json["ns"], json!(spoken.namespace));
        if spoken.agent == "clerk" {
            assert_eq!(spoken.path, ["clerk"]);
            clerks.insert(spoken.namespace);
        }
    }
    assert_eq!(clerks.len(), 2, "{clerks:?}");
}

/// All chunks of a message have the id of the message in the state.
#[tokio::test]
async fn chunks_have_the_id_of_their_message() {
    let model = ScriptedModel::new([Message::assistant("let me see"), finish("done")]);
    let clerk = Clerk::compile_as_root();
    let mut events = clerk.stream(Filing::update()).context(BaseContext::new(model)).modes([StreamMode::Messages]);
    let (mut ids, mut done) = (Vec::new(), Vec::new());
    while let Some(event) = events.next().await {
        let Event::Message(spoken) = event.unwrap() else { panic!("only messages were asked for") };
        match spoken.chunk {
            ChatChunk::Done(response) => done.push((spoken.id, response.message.id)),
            _ => ids.push((spoken.id, spoken.task, spoken.step)),
        }
    }
    let Outcome::Finished(state) = events.outcome().await.unwrap() else { panic!("it has not finished") };
    let stored: Vec<_> = state.base.messages.iter().filter_map(|message| message.id.clone()).collect();
    assert!(!ids.is_empty() && done.len() == 2, "{ids:?} {done:?}");
    for (id, whole) in &done {
        assert_eq!(Some(id), whole.as_ref());
        assert!(stored.contains(id), "{stored:?}");
    }
    let whole: std::collections::BTreeSet<_> = done.iter().map(|(id, _)| id).collect();
    let speakers: std::collections::BTreeSet<_> = ids.iter().map(|(id, task, _)| (id, task)).collect();
    assert_eq!(speakers.iter().map(|(id, _)| *id).collect::<std::collections::BTreeSet<_>>(), whole, "{ids:?}");
    assert_eq!(speakers.len(), 2, "each message is of one task: {ids:?}");
}
