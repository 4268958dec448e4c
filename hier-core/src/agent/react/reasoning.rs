//! The node `reasoning`: asks the model, and goes where its answer says.

use std::collections::BTreeMap;
use std::sync::Arc;

use hier_spec::agent as names;

use super::ask::{Answered, Question, ask};
use super::route::{self, Way};
use super::{Agent, Callee};
use crate::agent::layer::{Reply, united};
use crate::agent::state::base::BaseState;
use crate::agent::state::context::BaseContext;
use crate::agent::state::progress::{Calls, Progress};
use crate::agent::state::turn::{AgentEnd, AgentTurn};
use crate::agent::words;
use crate::error::{NodeError, NodeErrorKind};
use crate::graph::{Command, Task};
use crate::message::{Message, Messages, ToolCall};
use crate::state::{Contains, State, Values, Writes};

pub(super) async fn run<S, C>(agent: &Arc<Agent<S, C>>, task: &Task<S, C>) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let (state, base) = (task.state(), task.state().part());
    let iteration = base.iteration_number.saturating_add(1);
    let asked = words::iteration(&agent.reasoning.text(state), iteration, base.max_iterations);
    let question = Messages::from([Message::user(asked)]);
    let mut messages = base.messages.clone();
    messages.merge(question.clone()).map_err(|error| NodeError::permanent(error.to_string()))?;
    let is_last = iteration >= base.max_iterations;
    let tools = if is_last { agent.ending_specs.clone() } else { agent.specs.clone() };
    let Some(Answered { reply, told }) = ask(agent, task, Question { messages, tools, offer: None }).await? else {
        return Ok(Command::new().goto(names::FORCED_EXIT));
    };
    let (reply, signed) = reply.into_parts();
    let answer = match reply {
        Reply::Answer(response) => response.message,
        Reply::End(limit) => {
            let turn = AgentTurn::ended(AgentEnd::Limit(limit));
            let own: Writes<S> = Writes::from_iter([BaseState::channels().agent_turn.write::<S>(turn)]);
            let writes = united(signed, own, &task.graph.channels)?;
            return Ok(Command { writes, ..Command::default() }.goto(names::FORCED_EXIT));
        }
    };
    let way = route::route(agent, state, answer.tool_calls(), (iteration, base.max_iterations)).map_err(permanent)?;
    let several = matches!(&way, Way::Calls(made) if made.len() > 1);
    let calls = if several { answer.tool_calls().to_vec() } else { Vec::new() };
    let mut said = question;
    said.merge([answer].into()).map_err(|error| NodeError::permanent(error.to_string()))?;
    let channels = BaseState::channels();
    let mut writes = Writes::<S>::new();
    writes.push(channels.messages.write::<S>(said));
    writes.push(channels.iteration_number.write::<S>(iteration));
    if let Way::Calls(made) = &way {
        if let Some(progress) = scheduled(agent, base, made) {
            writes.push(channels.progress.write::<S>(progress));
        }
        if told != base.agent_turn.tools {
            let turn = AgentTurn { tools: told, ..base.agent_turn.clone() };
            writes.push(channels.agent_turn.write::<S>(turn));
        }
    }
    if let Way::Ended { report, finished } = &way {
        writes.push(channels.current_agent_report.write::<S>(report.clone()));
        if *finished {
            writes.push(channels.is_finished.write::<S>(true));
        }
        writes.push(channels.agent_turn.write::<S>(AgentTurn::ended(AgentEnd::Report)));
    }
    let writes = united::<S>(signed, writes, &task.graph.channels)?;
    Ok(go(agent, Command { writes, ..Command::default() }, way, calls))
}

/// Follows the way that was found.
fn go<S: Values, C>(agent: &Agent<S, C>, command: Command<S>, way: Way, calls: Vec<ToolCall>) -> Command<S> {
    match way {
        Way::Again => command.goto(names::REASONING),
        Way::Forced => command.goto(names::FORCED_EXIT),
        Way::Refused(by) => command.goto(by),
        Way::Ended { .. } => command.goto(names::EMPTY_BACK),
        // The node finds a single call in the last message; several are sent, each by itself.
        Way::Calls(made) if made.len() == 1 => command.goto(agent.node_of(made[0])),
        Way::Calls(made) => {
            let sends = made.into_iter().zip(calls);
            sends.fold(command, |command, (callee, call)| command.send(agent.node_of(callee), call))
        }
    }
}

impl<S: Values, C> Agent<S, C> {
    /// The node that makes such a call.
    pub(super) fn node_of(&self, callee: Callee) -> &str {
        match callee {
            Callee::Subagent(number) => &self.subagents[number].node,
            Callee::Tool(_) | Callee::Other => self.kind.tool_node(),
        }
    }
}

fn permanent(error: impl std::error::Error + Send + Sync + 'static) -> NodeError {
    NodeError::from_kind(NodeErrorKind::Source(Box::new(error)), false)
}

/// The calls of subagents that are about to be made, counted.
pub(super) fn scheduled<S: Values, C>(agent: &Agent<S, C>, base: &BaseState, made: &[Callee]) -> Option<Progress> {
    let mut counts: BTreeMap<&Arc<str>, Calls> = BTreeMap::new();
    for callee in made {
        if let Callee::Subagent(number) = callee {
            let name = &agent.subagents[*number].name;
            counts.entry(name).or_insert_with(|| base.progress.get(name)).scheduled += 1;
        }
    }
    (!counts.is_empty()).then(|| counts.into_iter().map(|(name, calls)| (name.clone(), calls)).collect())
}
