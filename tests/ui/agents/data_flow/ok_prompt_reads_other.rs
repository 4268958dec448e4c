// A prompt reads another channel than the conversation that its policy clears.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Title<'a> {
    title: &'a String,
}

fn brief(view: Title<'_>) -> String {
    format!("You search for {}.", view.title)
}

graph! {
    /// Searches.
    Clerk<Filing> = ReactGraph {
        system: brief,
        policy: Policy { clear_messages: true },
    }
}

graph! {
    /// Files.
    Desk<Filing> = ReactGraph {
        system: "You file returns.",
        subagents: [Clerk {}],
    }
}

fn main() {
    let _ = Desk::compile();
}
