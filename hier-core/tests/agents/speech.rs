//! What models say is streamed with the path of the agent that speaks, and traced.

use hier_core::agent::{ChatChunk, ScriptedModel};
use hier_core::prelude::*;
use serde_json::json;

use crate::support::{Filing, call, finish, report};

graph! {
    Desk<Filing> = ReactGraph { subagents: [Clerk {}] }
}

graph! {
    Clerk<Filing> = ReactGraph {}
}

#[tokio::test]
async fn pieces_come_with_the_path_of_who_speaks() {
    let model = ScriptedModel::new([
        call("clerk", json!({"task": "x"})),
        Message::assistant("let me see"),
        report("seen"),
        finish("done"),
    ]);
    let desk = Desk::compile_as_root();
    let mut events = desk.stream(Filing::update(), Config::default(), BaseContext::new(model), [StreamMode::Messages]);
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
