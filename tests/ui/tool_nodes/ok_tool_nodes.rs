// Nodes that call tools, over any state with a conversation and any context that provides the needs of the tools.

use std::sync::Arc;

use hier_agents::{ToolAnswer, ToolErrors, ToolSpec, Toolset};
use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::message::ToolCall;
use hier_core::state::wants_tools;
use hier_draw::Draw;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
    #[reducer(messages)]
    aside: Messages,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Larger {
    #[state(flatten)]
    chat: Chat,
    note: String,
}

struct Crm;

#[hier_core::async_trait]
impl Toolset for Crm {
    fn name(&self) -> &str {
        "crm"
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>> {
        Ok([].into())
    }

    async fn call(&self, call: &ToolCall, _: &Run) -> Result<ToolAnswer> {
        Ok(ToolAnswer::Refused(call.name.clone()))
    }
}

struct Desk {
    base: BaseContext,
    crm: Arc<Crm>,
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

/// Looks up.
#[tool]
async fn lookup<C: AsRef<Crm>>(run: &Run<C>, order: u32) -> u32 {
    let _: &Crm = run.context().as_ref();
    order
}

/// Emits.
#[tool(retry = 2)]
async fn emits(run: &Run) -> bool {
    run.emit("x");
    true
}

/// Asks.
#[tool]
async fn model(run: &Run<BaseContext>) -> Result<String> {
    Ok(run.context().model()?.name().to_owned())
}

/// Notes.
#[tool]
async fn note(state: &Larger) -> String {
    state.note.clone()
}

graph! {
    Support<Larger, Desk> = Graph {
        nodes: [think, act = tools![lookup, emits, model, note, |desk| &desk.crm], tools![emits] { tool_errors: ToolErrors::Tell, timeout: 5s }],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> tools >> END],
    }
}

async fn think(run: &Run<Desk>) -> Result<()> {
    let _ = run.model()?.ask("x").tools(tools![lookup, note]);
    Ok(())
}

fn main() {
    let names: Vec<String> = tools![lookup, emits].into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["lookup", "emits"]);
    assert!(Support::SPEC.dot().contains("lookup"));
    let _ = Support::compile();
}
