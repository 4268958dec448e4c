//! The node `reasoning`: asks the model, and continues as its answer requires.

use std::collections::BTreeMap;
use std::sync::Arc;

use hier_spec::agent as names;

use super::ask::{Answered, Question, ask};
use super::repeats::{Earlier, parted};
use super::route::{self, Way};
use super::{Agent, Callee};
use crate::layer::{Reply, united};
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::state::progress::{Calls, Progress};
use crate::state::turn::{AgentEnd, AgentLimit, AgentTurn, MOST_CUT_OFF, is_fragment};
use crate::words;
use hier_checkpoint::message::{ChatResponse, FinishReason, Message, Messages, ToolCall};
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values, Writes};
use hier_core::{NodeError, NodeErrorKind};

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
    let response = match reply {
        Reply::Answer(response) => response,
        Reply::End(limit) => {
            let turn = AgentTurn::ended(AgentEnd::Limit(limit));
            let own: Writes<S> = Writes::from_iter([BaseState::channels().agent_turn.write::<S>(turn)]);
            let writes = united(signed, own, task.channels())?;
            return Ok(Command::default().with_writes(writes).goto(names::FORCED_EXIT));
        }
    };
    let Followed { answer, refused, way, calls, mut turn } = follow(agent, state, response, iteration)?;
    let channels = BaseState::channels();
    let mut writes = Writes::<S>::new();
    let mut said = question;
    let more: Messages = answer.into_iter().chain(refused).collect();
    said.merge(more).map_err(|error| NodeError::permanent(error.to_string()))?;
    writes.push(channels.messages.write::<S>(said));
    writes.push(channels.iteration_number.write::<S>(iteration));
    match &way {
        Way::Calls(made) => {
            if let Some(progress) = scheduled(agent, base, made) {
                writes.push(channels.progress.write::<S>(progress));
            }
            if told != base.agent_turn.tools {
                turn.get_or_insert_with(|| base.agent_turn.clone()).tools = told;
            }
        }
        Way::Ended { report, finished } => {
            writes.push(channels.current_agent_report.write::<S>(report.clone()));
            if *finished {
                writes.push(channels.is_finished.write::<S>(true));
            }
            turn = Some(AgentTurn::ended(AgentEnd::Report));
        }
        _ => {}
    }
    if let Some(turn) = turn {
        writes.push(channels.agent_turn.write::<S>(turn));
    }
    let writes = united::<S>(signed, writes, task.channels())?;
    Ok(go(agent, Command::default().with_writes(writes), way, calls))
}

/// The consequences of an answer.
struct Followed {
    /// The message that is added to the conversation.
    answer: Option<Message>,
    /// The results of refused calls.
    refused: Vec<Message>,
    way: Way,
    /// The calls that are made.
    calls: Vec<ToolCall>,
    /// The agent's state for the turn, if it changes.
    turn: Option<AgentTurn>,
}

impl Followed {
    fn new(answer: Message, way: Way) -> Self {
        Self { answer: Some(answer), refused: Vec::new(), way, calls: Vec::new(), turn: None }
    }

    /// Ends the agent at a limit.
    fn ended(answer: Option<Message>, refused: Vec<Message>, limit: AgentLimit) -> Self {
        let turn = Some(AgentTurn::ended(AgentEnd::Limit(limit)));
        Self { answer, refused, way: Way::Forced, calls: Vec::new(), turn }
    }
}

/// Decides what follows from an answer.
fn follow<S, C>(agent: &Agent<S, C>, state: &S, response: ChatResponse, iteration: u32) -> Result<Followed, NodeError>
where
    S: Values + Contains<BaseState>,
{
    let base = state.part();
    let ChatResponse { message: answer, finish, .. } = response;
    if finish == Some(FinishReason::ContentFilter) {
        // A repeated request would be refused again.
        return Ok(Followed::ended(None, Vec::new(), AgentLimit::Filtered));
    }
    let calls = answer.tool_calls().to_vec();
    let is_cut_off = finish == Some(FinishReason::Length);
    if is_cut_off && calls.is_empty() && answer.text().trim().is_empty() {
        return Ok(Followed::ended(None, Vec::new(), AgentLimit::Length));
    }
    let cut_off = base.agent_turn.cut_off_with(is_cut_off && (calls.is_empty() || calls.iter().any(is_fragment)));
    if cut_off > MOST_CUT_OFF {
        let refused = calls.iter().map(|call| words::refusal(call, words::CUT_OFF)).collect();
        return Ok(Followed::ended(Some(answer), refused, AgentLimit::Length));
    }
    let way = route::route(agent, state, &calls, (iteration, base.max_iterations)).map_err(permanent)?;
    let mut followed = match way {
        Way::Calls(made) => called(agent, base, answer, calls.into_iter().zip(made)),
        way => Followed::new(answer, way),
    };
    if followed.turn.is_none() && cut_off != base.agent_turn.cut_off {
        followed.turn = Some(AgentTurn { cut_off, ..base.agent_turn.clone() });
    }
    Ok(followed)
}

/// Makes the calls, except those that are repeated too often.
fn called<S: Values, C>(
    agent: &Agent<S, C>,
    base: &BaseState,
    answer: Message,
    calls: impl Iterator<Item = (ToolCall, Callee)>,
) -> Followed {
    let most = agent.max_repeats;
    let earlier = Earlier { messages: &base.messages, answers: base.iteration_number, users_count: false, most };
    let (calls, mut callees): (Vec<ToolCall>, Vec<Callee>) = calls.unzip();
    let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
    let parted = parted(&earlier, calls);
    if parted.is_stuck {
        return Followed::ended(Some(answer), parted.refused, AgentLimit::Repeats(most));
    }
    let is_made = |id: &String| parted.made.iter().any(|call| call.id == *id);
    let mut made = ids.iter().map(is_made);
    callees.retain(|_| made.next().unwrap_or_default());
    let way = if callees.is_empty() { Way::Again } else { Way::Calls(callees) };
    Followed { answer: Some(answer), refused: parted.refused, way, calls: parted.made, turn: None }
}

/// Turns the route of an answer into a command.
fn go<S: Values, C>(agent: &Agent<S, C>, command: Command<S>, way: Way, calls: Vec<ToolCall>) -> Command<S> {
    match way {
        Way::Again => command.goto(names::REASONING),
        Way::Forced => command.goto(names::FORCED_EXIT),
        Way::Refused(by) => command.goto(by),
        Way::Ended { .. } => command.goto(names::EMPTY_BACK),
        // A node finds a single call in the conversation itself. Several calls are sent separately.
        Way::Calls(made) if made.len() == 1 => command.goto(agent.node_of(made[0])),
        Way::Calls(made) => {
            let sends = made.into_iter().zip(calls);
            sends.fold(command, |command, (callee, call)| command.send(agent.node_of(callee), call))
        }
    }
}

impl<S: Values, C> Agent<S, C> {
    /// Returns the node that makes a call.
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

/// Returns the progress with the new calls of subagents.
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
