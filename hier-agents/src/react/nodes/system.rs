//! The node `system`: adds the system prompt and the task to the conversation.

use serde_json::Value;

use crate::prompts;
use crate::react::agent::{AgentDef, writing};
use crate::react::entry;
use crate::state::base::BaseState;
use hier_checkpoint::message::Message;
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values};

pub(super) fn write_system_prompt<S, C>(agent: &AgentDef<S, C>, task: &Task<S, C>) -> Command<S>
where
    S: Values + Contains<BaseState>,
{
    let state = task.state();
    let args = &state.part().current_agent_args;
    let text = |name: &str| args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let id = format!("{}{}:{}", entry::SYSTEM_ID, agent.name, task.run().task_id());
    let mut messages = vec![Message::system(agent.system.text(state)).with_id(id)];
    messages.extend(text("task").map(|task| Message::user(prompts::task(task))));
    messages.extend(text("task_scope").map(|scope| Message::user(prompts::scope(scope))));
    let channels = BaseState::channels();
    writing([
        channels.messages.write::<S>(messages),
        channels.iteration_number.write::<S>(0),
        channels.max_iterations.write::<S>(agent.max_iterations(state)),
    ])
}
