// A prompt reads the conversation that the attachment of its agent keeps, although its own policy clears it by default.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Talk<'a> {
    title: &'a String,
    messages: &'a Messages,
}

fn brief(talk: Talk<'_>) -> String {
    format!("You search for {}. So far: {} messages.", talk.title, talk.messages.len())
}

graph! {
    /// Searches.
    Clerk<Filing> = ReactGraph {
        system: brief,
        policy: Policy {},
    }
}

graph! {
    /// Files.
    Desk<Filing> = ReactGraph {
        system: "You file returns.",
        subagents: [Clerk { clear_messages: false }],
    }
}

fn main() {
    let _ = Desk::compile();
}
