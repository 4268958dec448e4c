//! The writes of an agent at the start of a turn: they clear the state of the last turn, and turn a call into a
//! message.

use serde_json::{Map, Value};

use super::agent::AgentDef;
use crate::operator::answer_left_calls;
use crate::prompts;
use crate::state::base::BaseState;
use crate::state::counts::LayerCounts;
use crate::state::turn::{AgentEnd, AgentTurn};
use hier_checkpoint::message::{Body, Message};
use hier_core::reducer::Overwrite;
use hier_core::state::{Contains, State, Values, Writes};

/// The prefix of the ids of messages from `system` nodes.
pub(super) const SYSTEM_ID: &str = "system:";

impl<S: Values + Contains<BaseState>, C> AgentDef<S, C> {
    /// Begins a turn in this state, and returns the input after the writes that the turn needs. `withdrawn` contains the
    /// questions that the input withdraws, if the run has a thread. Writes only changes.
    pub(crate) fn prepare(&self, state: &S, withdrawn: Option<&[Value]>, mut input: Writes<S>) -> Writes<S> {
        let (base, channels) = (state.part(), BaseState::channels());
        let is_called = base.current_tool_call.is_some();
        let mut writes = Writes::new();
        if base.agent_turn != AgentTurn::default() {
            writes.push(channels.agent_turn.write::<S>(AgentTurn::default()));
        }
        if !is_called {
            if let Some(withdrawn) = withdrawn {
                let (channel, write) = (channels.messages.name(), |given| channels.messages.write::<S>(given));
                input = answer_left_calls(&base.messages, withdrawn, input, channel, write);
            }
            if !base.layer_counts.is_empty() {
                writes.push(channels.layer_counts.write::<S>(Overwrite(LayerCounts::new())));
            }
            let flags = [(base.is_finished, channels.is_finished), (base.is_cancelled, channels.is_cancelled)];
            let left = flags.into_iter().filter(|(is_set, _)| *is_set);
            left.for_each(|(_, flag)| writes.push(flag.write::<S>(Overwrite(false))));
        }
        // A member that reports starts with its supervisor's last report as its partial progress, as in LangGraph.
        if !base.current_agent_report.is_empty() && (!is_called || self.converses()) {
            writes.push(channels.current_agent_report.write::<S>(String::new()));
        }
        if self.converses() {
            self.begin(state, is_called, &mut writes);
        } else if !is_called {
            let old = base.messages.iter().filter(|message| matches!(message.body, Body::System { .. }));
            let old = old.filter_map(|message| message.id.as_deref()).filter(|id| id.starts_with(SYSTEM_ID));
            let old: Vec<Message> = old.map(Message::remove).collect();
            if !old.is_empty() {
                writes.push(channels.messages.write::<S>(old));
            }
        }
        writes.into_iter().chain(input).collect()
    }

    fn begin(&self, state: &S, is_called: bool, writes: &mut Writes<S>) {
        let (base, channels) = (state.part(), BaseState::channels());
        if base.iteration_number != 0 {
            writes.push(channels.iteration_number.write::<S>(0));
        }
        if is_called {
            writes.push(channels.messages.write::<S>(task(&base.current_agent_args)));
        } else if let Some(answer) = self.answer.as_ref().filter(|_| base.ending() == Some(&AgentEnd::Answer)) {
            writes.push((answer.clear)());
        }
    }
}

/// Returns the first messages of a called subagent: its task and scope, or the custom arguments as JSON.
fn task(args: &Map<String, Value>) -> Vec<Message> {
    let text = |name: &str| args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    match text("task") {
        Some(task) => {
            let scope = text("task_scope").map(prompts::scope);
            [task.to_owned()].into_iter().chain(scope).map(Message::user).collect()
        }
        None => vec![Message::user(Value::Object(args.clone()).to_string())],
    }
}
