// Tools of every shape, with states and contexts that they accept.

use hier_agents::{NamedTool, Tool, ToolCallId};
use hier_agents::prelude::*;
use hier_core::state::Values;
use hier_core::message::ToolCall;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Part {
    #[reducer(messages)]
    messages: Messages,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    part: Part,
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Heading<'a> {
    title: &'a String,
}

struct Desk;

/// Notes something.
#[tool(name = "take-note", needs_approval, timeout = 5s, retry = 3)]
async fn note(
/// The text of the note.
    text: String,
    #[default = 1] times: usize,
    tag: Option<String>,
    #[inject] heading: Heading<'_>,
    state: &Part,
    run: &Run<Desk>,
    call: &ToolCall,
) -> hier_core::Result<Command<Part>> {
    run.heartbeat();
    let text = format!("{} {tag:?} {} {}", text.repeat(times), heading.title, state.messages.len());
    Ok(Command::update(Part::update().messages(Message::tool(call, text))))
}

/// Takes nothing.
#[tool]
async fn now(id: ToolCallId) -> String {
    id.to_string()
}

fn fits<S: Values, C, T: Tool<S, C>>(_: T) {}

fn main() {
    fits::<Filing, Desk, _>(note::TOOL);
    fits::<Filing, (), _>(now::TOOL);
    fits::<Part, Desk, _>(now::TOOL);
    const { assert!(note::NAME.len() == 9) };
    let now = now(ToolCallId::new("x"));
    drop(now);
}
