//! The node `reasoning`: asks the model, and continues as its reply requires.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hier_spec::agent as names;

use crate::layer::{ModelOutcome, unite_writes};
use crate::prompts;
use crate::react::agent::{AgentDef, Callee};
use crate::react::repeats::{EarlierAnswers, partition};
use crate::react::request::{ModelAnswer, ModelQuestion, ask_model};
use crate::react::route::{AnswerRoute, route_answer};
use crate::react::searching::refuse_unfound;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::state::progress::{CallCounts, Progress};
use crate::state::turn::{AgentEnd, AgentLimit, AgentTurn, MOST_CUT_OFF, is_fragment};
use hier_checkpoint::message::{ChatResponse, FinishReason, Message, Messages, ToolCall};
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values, Writes};
use hier_core::{NodeError, NodeErrorKind};

pub(super) async fn run_reasoning_node<S, C>(
    agent: &Arc<AgentDef<S, C>>,
    task: &Task<S, C>,
) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let (state, base) = (task.state(), task.state().part());
    let iteration = base.iteration_number.saturating_add(1);
    let asked = prompts::iteration(&agent.reasoning.text(state), iteration, base.max_iterations);
    let question = Messages::from([Message::user(asked)]);
    let mut messages = base.messages.clone();
    messages.merge(question.clone()).map_err(|error| NodeError::permanent(error.to_string()))?;
    let is_last = iteration >= base.max_iterations;
    let tools = if is_last { agent.ending_specs.clone() } else { agent.specs.clone() };
    let Some(ModelAnswer { reply, fingerprints, unfound, found }) =
        ask_model(agent, task, ModelQuestion { messages, tools, output: None }).await?
    else {
        return Ok(Command::new().goto(names::FORCED_EXIT));
    };
    let (reply, signed) = reply.into_parts();
    let response = match reply {
        ModelOutcome::Answer(response) => response,
        ModelOutcome::End(limit) => {
            let turn = AgentTurn::ended(AgentEnd::Limit(limit));
            let own: Writes<S> = Writes::from_iter([BaseState::channels().agent_turn.write::<S>(turn)]);
            let writes = unite_writes(signed, own, task.channels())?;
            return Ok(Command::default().with_writes(writes).goto(names::FORCED_EXIT));
        }
    };
    let AnswerPlan { answer, refused, route, calls, mut turn } = follow(agent, state, (response, &unfound), iteration)?;
    let channels = BaseState::channels();
    let mut writes = Writes::<S>::new();
    let mut added = question;
    let more: Messages = answer.into_iter().chain(refused).collect();
    added.merge(more).map_err(|error| NodeError::permanent(error.to_string()))?;
    writes.push(channels.messages.write::<S>(added));
    writes.push(channels.iteration_number.write::<S>(iteration));
    if !found.is_empty() {
        writes.push(channels.found_tools.write::<S>(found));
    }
    match &route {
        AnswerRoute::Calls(made) => {
            if let Some(progress) = scheduled(agent, base, made) {
                writes.push(channels.progress.write::<S>(progress));
            }
            if fingerprints != base.agent_turn.tools {
                turn.get_or_insert_with(|| base.agent_turn.clone()).tools = fingerprints;
            }
        }
        AnswerRoute::Ended { report, finished } => {
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
    let writes = unite_writes::<S>(signed, writes, task.channels())?;
    Ok(follow_route(agent, Command::default().with_writes(writes), route, calls))
}

/// The consequences of a reply.
struct AnswerPlan {
    /// The message that is added to the conversation.
    answer: Option<Message>,
    refused: Vec<Message>,
    route: AnswerRoute,
    calls: Vec<ToolCall>,
    /// The agent's state for the turn, if it changes.
    turn: Option<AgentTurn>,
}

impl AnswerPlan {
    fn new(answer: Message, route: AnswerRoute) -> Self {
        Self { answer: Some(answer), refused: Vec::new(), route, calls: Vec::new(), turn: None }
    }

    fn ended(answer: Option<Message>, refused: Vec<Message>, limit: AgentLimit) -> Self {
        let turn = Some(AgentTurn::ended(AgentEnd::Limit(limit)));
        Self { answer, refused, route: AnswerRoute::Forced, calls: Vec::new(), turn }
    }
}

/// Decides how the agent continues after a reply.
fn follow<S, C>(
    agent: &AgentDef<S, C>,
    state: &S,
    (response, unfound): (ChatResponse, &BTreeSet<String>),
    iteration: u32,
) -> Result<AnswerPlan, NodeError>
where
    S: Values + Contains<BaseState>,
{
    let base = state.part();
    let ChatResponse { message: answer, finish, .. } = response;
    if finish == Some(FinishReason::ContentFilter) {
        // A repeated request would be refused again.
        return Ok(AnswerPlan::ended(None, Vec::new(), AgentLimit::Filtered));
    }
    let calls = answer.tool_calls().to_vec();
    let is_cut_off = finish == Some(FinishReason::Length);
    if is_cut_off && calls.is_empty() && answer.text().trim().is_empty() {
        return Ok(AnswerPlan::ended(None, Vec::new(), AgentLimit::Length));
    }
    let cut_off = base.agent_turn.cut_off_with(is_cut_off && (calls.is_empty() || calls.iter().any(is_fragment)));
    if cut_off > MOST_CUT_OFF {
        let refused = calls.iter().map(|call| prompts::refusal(call, prompts::CUT_OFF)).collect();
        return Ok(AnswerPlan::ended(Some(answer), refused, AgentLimit::Length));
    }
    let route = route_answer(agent, state, &calls, (iteration, base.max_iterations)).map_err(permanent)?;
    let mut followed = match route {
        AnswerRoute::Calls(made) => partition_calls(agent.max_repeats, base, (answer, calls, made), unfound),
        route => AnswerPlan::new(answer, route),
    };
    if followed.turn.is_none() && cut_off != base.agent_turn.cut_off {
        followed.turn = Some(AgentTurn { cut_off, ..base.agent_turn.clone() });
    }
    Ok(followed)
}

/// Plans the calls, except calls that are repeated too often and calls of tools that the model has not found.
fn partition_calls(
    most: u32,
    base: &BaseState,
    (answer, calls, mut callees): (Message, Vec<ToolCall>, Vec<Callee>),
    unfound: &BTreeSet<String>,
) -> AnswerPlan {
    let earlier = EarlierAnswers { messages: &base.messages, answers: base.iteration_number, users_count: false, most };
    let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
    let parted = partition(&earlier, calls);
    if parted.is_stuck {
        return AnswerPlan::ended(Some(answer), parted.refused, AgentLimit::Repeats(most));
    }
    let (more, calls) = refuse_unfound(unfound, parted.made);
    let refused = parted.refused.into_iter().chain(more).collect();
    let is_made = |id: &String| calls.iter().any(|call| call.id == *id);
    let mut made = ids.iter().map(is_made);
    callees.retain(|_| made.next().unwrap_or_default());
    let route = if callees.is_empty() { AnswerRoute::Again } else { AnswerRoute::Calls(callees) };
    AnswerPlan { answer: Some(answer), refused, route, calls, turn: None }
}

fn follow_route<S: Values, C>(
    agent: &AgentDef<S, C>,
    command: Command<S>,
    route: AnswerRoute,
    calls: Vec<ToolCall>,
) -> Command<S> {
    match route {
        AnswerRoute::Again => command.goto(names::REASONING),
        AnswerRoute::Forced => command.goto(names::FORCED_EXIT),
        AnswerRoute::Refused(by) => command.goto(by),
        AnswerRoute::Ended { .. } => command.goto(names::EMPTY_BACK),
        // A node finds a single call in the conversation itself. Several calls are sent separately.
        AnswerRoute::Calls(made) if made.len() == 1 => command.goto(agent.node_of(made[0])),
        AnswerRoute::Calls(made) => {
            let sends = made.into_iter().zip(calls);
            sends.fold(command, |command, (callee, call)| command.send(agent.node_of(callee), call))
        }
    }
}

impl<S: Values, C> AgentDef<S, C> {
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
pub(super) fn scheduled<S: Values, C>(agent: &AgentDef<S, C>, base: &BaseState, made: &[Callee]) -> Option<Progress> {
    let mut counts: BTreeMap<&Arc<str>, CallCounts> = BTreeMap::new();
    for callee in made {
        if let Callee::Subagent(number) = callee {
            let name = &agent.subagents[*number].name;
            counts.entry(name).or_insert_with(|| base.progress.get(name)).scheduled += 1;
        }
    }
    (!counts.is_empty()).then(|| counts.into_iter().map(|(name, calls)| (name.clone(), calls)).collect())
}
