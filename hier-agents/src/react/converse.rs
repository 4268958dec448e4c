//! The node `model` of an `Agent`: asks the model, and continues as its answer requires.

use std::collections::BTreeMap;
use std::sync::Arc;

use hier_spec::agent::FINAL_ANSWER;

use super::ask::{Answered, Question, ask};
use super::reasoning::scheduled;
use super::repeats::{Earlier, parted};
use super::{Agent, Callee, writing};
use crate::failed::AgentFailed;
use crate::layer::{Offer, Reply as Asked, united};
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::state::turn::{AgentEnd, AgentLimit, AgentTurn, Draft, MOST_CUT_OFF, is_fragment};
use crate::words;
use hier_checkpoint::message::{Body, ChatResponse, FinishReason, Message, ToolCall};
use hier_core::graph::{Command, END, Task};
use hier_core::state::{Contains, State, Values};
use hier_core::{NodeError, NodeErrorKind};

pub(super) async fn run<S, C>(agent: &Arc<Agent<S, C>>, task: &Task<S, C>) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let base = task.state().part();
    let (state, iteration) = (task.state(), base.iteration_number.saturating_add(1));
    let turn = Turn { agent, state, iteration, most: agent.max_iterations(state) };
    if iteration > turn.most {
        return Ok(turn.command(turn.limited(AgentLimit::Iterations(turn.most), Vec::new())));
    }
    let Some(Answered { reply, told }) = ask(agent, task, turn.question()).await? else {
        return Ok(turn.command(turn.cancelled()));
    };
    let (reply, writes) = reply.into_parts();
    let reply = match reply {
        Asked::Answer(answer) => Reply { told, ..turn.follow(answer)? },
        Asked::End(limit) => turn.limited(limit, Vec::new()),
    };
    let mut command = turn.command(reply);
    let writes = united(writes, std::mem::take(&mut command.writes), task.channels())?;
    Ok(command.with_writes(writes))
}

/// One request of a turn.
struct Turn<'a, S: Values, C> {
    agent: &'a Agent<S, C>,
    state: &'a S,
    /// The number of the request in the turn, from 1.
    iteration: u32,
    /// The maximum number of requests.
    most: u32,
}

/// The consequences of an answer.
struct Reply<S: Values> {
    /// The messages that are added to the conversation.
    said: Vec<Message>,
    /// The agent's state for the turn, if it changes.
    turn: Option<AgentTurn>,
    /// The write of the typed answer.
    answer: Option<S::Write>,
    /// The fingerprints of the toolset tools that are called.
    told: BTreeMap<String, String>,
    next: Next,
}

enum Next {
    /// The model is asked again.
    Model,
    /// The calls are made.
    Calls(Vec<(Callee, ToolCall)>),
    /// The turn ends with this report.
    End(String),
}

impl<S: Values> Reply<S> {
    fn next(said: Vec<Message>, next: Next) -> Self {
        Self { said, turn: None, answer: None, told: BTreeMap::new(), next }
    }
}

impl<S: Values + Contains<BaseState>, C> Turn<'_, S, C> {
    fn base(&self) -> &BaseState {
        self.state.part()
    }

    /// Returns the request: the system prompt, which is not stored, and the conversation.
    fn question(&self) -> Question {
        let base = self.base();
        let is_last = self.iteration == self.most && self.iteration > 1;
        let system = [self.agent.system.text(self.state), if is_last { words::LAST.to_owned() } else { String::new() }];
        let system = system.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
        let conversation = base.agent_turn.shown(&base.messages);
        let system = (!system.is_empty()).then(|| Message::system(system));
        let (tools, all) = (&self.agent.specs, &self.agent.ending_specs);
        let offer = self.agent.answer.as_ref();
        let offer = offer.map(|answer| Offer { shape: answer.output(), tools: tools.clone(), all: all.clone() });
        Question { messages: conversation.preceded_by(system), tools: all.clone(), offer }
    }

    fn follow(&self, response: ChatResponse) -> Result<Reply<S>, NodeError> {
        let ChatResponse { message, finish, .. } = response;
        if finish == Some(FinishReason::ContentFilter) {
            // A repeated request would be refused again.
            return Ok(self.limited(AgentLimit::Filtered, Vec::new()));
        }
        let is_cut_off = finish == Some(FinishReason::Length);
        if !message.tool_calls().is_empty() {
            return self.called(message, is_cut_off);
        }
        let text = message.text();
        if text.trim().is_empty() {
            return if is_cut_off {
                Ok(self.limited(AgentLimit::Length, Vec::new()))
            } else {
                self.again(words::NOTHING, Vec::new(), None, "")
            };
        }
        let Some(answer) = &self.agent.answer else {
            return Ok(if is_cut_off {
                self.cut_off(message)
            } else {
                self.ended(AgentEnd::Text, vec![message], text)
            });
        };
        match answer.parse(&text) {
            Ok((value, write)) => {
                let report = answer.report(&value);
                Ok(Reply { answer: Some(write), ..self.ended(AgentEnd::Answer, vec![message], report) })
            }
            Err(mistake) => {
                let mistake = if is_cut_off { words::cut_off(&mistake) } else { mistake };
                let told = Message::user(words::no_answer(&mistake));
                self.again(&mistake, Vec::new(), Some([message, told]), &text)
            }
        }
    }

    /// Handles an answer with tool calls.
    fn called(&self, message: Message, is_cut_off: bool) -> Result<Reply<S>, NodeError> {
        let calls = message.tool_calls().to_vec();
        let refused = |reason: &str| calls.iter().map(|call| words::refusal(call, reason)).collect::<Vec<_>>();
        let cut_off = self.base().agent_turn.cut_off_with(is_cut_off && calls.iter().any(is_fragment));
        if cut_off > MOST_CUT_OFF {
            let said = [message].into_iter().chain(refused(words::CUT_OFF)).collect();
            return Ok(self.limited(AgentLimit::Length, said));
        }
        let reply = self.led_to(message, &calls)?;
        let before = &self.base().agent_turn;
        if reply.turn.is_some() || before.cut_off == cut_off {
            return Ok(reply);
        }
        Ok(Reply { turn: Some(AgentTurn { cut_off, ..before.clone() }), ..reply })
    }

    /// Decides how the agent continues after an answer with tool calls.
    fn led_to(&self, message: Message, calls: &[ToolCall]) -> Result<Reply<S>, NodeError> {
        let is_answer = |call: &ToolCall| self.agent.answer.is_some() && call.name == FINAL_ANSWER;
        if calls.iter().all(is_answer) {
            return self.answered(message, calls);
        }
        let refused = |reason: &str| calls.iter().map(|call| words::refusal(call, reason)).collect::<Vec<_>>();
        if self.iteration >= self.most {
            let said = [message].into_iter().chain(refused(words::LIMIT_REACHED)).collect();
            return Ok(self.limited(AgentLimit::Iterations(self.most), said));
        }
        let is_subagent = |call: &ToolCall| matches!(self.agent.callee(&call.name), Callee::Subagent(_));
        if calls.len() > 1 && !self.agent.parallel && calls.iter().any(is_subagent) {
            let said = [message].into_iter().chain(refused(words::ALONE)).collect();
            return Ok(Reply::next(said, Next::Model));
        }
        let (early, made): (Vec<_>, Vec<_>) = calls.iter().cloned().partition(is_answer);
        let early = early.iter().map(|call| words::refusal(call, words::ANSWER_EARLY));
        let parted = parted(&self.earlier(), made);
        let said = [message].into_iter().chain(early).chain(parted.refused).collect();
        if parted.is_stuck {
            return Ok(self.limited(AgentLimit::Repeats(self.agent.max_repeats), said));
        }
        if parted.made.is_empty() {
            return Ok(Reply::next(said, Next::Model));
        }
        let made = parted.made.into_iter().map(|call| (self.agent.callee_for(&call), call)).collect();
        Ok(Reply::next(said, Next::Calls(made)))
    }

    fn earlier(&self) -> Earlier<'_> {
        let (messages, answers) = (&self.base().messages, self.base().iteration_number);
        Earlier { messages, answers, users_count: true, most: self.agent.max_repeats }
    }

    /// Handles one or several calls of the answer tool.
    fn answered(&self, message: Message, calls: &[ToolCall]) -> Result<Reply<S>, NodeError> {
        // The tool exists only with a typed answer.
        let Some(answer) = &self.agent.answer else { return self.again("", Vec::new(), None, "") };
        let read: Vec<Result<S::Write, String>> = calls.iter().map(|call| answer.take(&call.args)).collect();
        let mut fitting = calls.iter().zip(&read).filter(|(_, read)| read.is_ok()).map(|(call, _)| call);
        let first = fitting.next();
        let differ = first.is_some_and(|first| fitting.any(|other| other.args != first.args));
        let told = |(call, read): (&ToolCall, &Result<S::Write, String>)| match read {
            Err(mistake) => words::refusal(call, mistake),
            Ok(_) if differ => words::refusal(call, words::ANSWERS_DIFFER),
            Ok(_) => words::answer(call, words::ANSWERED),
        };
        let said = [message].into_iter().chain(calls.iter().zip(&read).map(told)).collect();
        let report = first.map(|first| answer.report(&first.args));
        let mistake = read.iter().find_map(|read| read.as_ref().err().cloned());
        let write = read.into_iter().find_map(Result::ok);
        match (write, report) {
            (Some(write), Some(report)) if !differ => {
                Ok(Reply { answer: Some(write), ..self.ended(AgentEnd::Answer, said, report) })
            }
            _ => {
                let shown = calls.first().map(|call| call.args.to_string()).unwrap_or_default();
                self.again(mistake.as_deref().unwrap_or(words::ANSWERS_DIFFER), said, None, &shown)
            }
        }
    }

    /// Asks the model again after an unusable answer, as often as the agent allows.
    fn again(
        &self,
        mistake: &str,
        said: Vec<Message>,
        draft: Option<[Message; 2]>,
        shown: &str,
    ) -> Result<Reply<S>, NodeError> {
        let mut turn = self.base().agent_turn.clone();
        turn.misfits = turn.misfits.saturating_add(1);
        if turn.misfits >= self.agent.attempts {
            let reason = words::attempts(mistake, turn.misfits);
            return self.failed(reason, said, shown);
        }
        if let Some([said, told]) = draft {
            let after = self.base().messages.last().and_then(|message| message.id.clone());
            turn.drafts.push(Draft { after, said, told });
        }
        Ok(Reply { turn: Some(turn), ..Reply::next(said, Next::Model) })
    }

    /// Ends an agent without an answer. A supervisor receives a report; the run of a root fails.
    fn failed(&self, reason: String, said: Vec<Message>, shown: &str) -> Result<Reply<S>, NodeError> {
        let failed = AgentFailed::new(&self.agent.name, reason, shown);
        if self.base().current_tool_call.is_none() {
            return Err(NodeError::from_kind(NodeErrorKind::Source(Box::new(failed)), false));
        }
        let report = failed.to_string();
        Ok(self.ended(AgentEnd::Failed(failed.reason), said, report))
    }

    fn cancelled(&self) -> Reply<S> {
        self.ended(AgentEnd::Cancelled, Vec::new(), words::stopped(&AgentEnd::Cancelled, &self.last_words()))
    }

    fn limited(&self, limit: AgentLimit, said: Vec<Message>) -> Reply<S> {
        let end = AgentEnd::Limit(limit);
        let report = words::stopped(&end, &self.last_words());
        self.ended(end, said, report)
    }

    /// Ends the turn with a truncated answer. A person sees its text; a supervisor is informed about the truncation.
    fn cut_off(&self, message: Message) -> Reply<S> {
        let (end, text) = (AgentEnd::Limit(AgentLimit::Length), message.text());
        let report = if self.base().current_tool_call.is_some() { words::stopped(&end, &text) } else { text };
        self.ended(end, vec![message], report)
    }

    /// Returns the last text of the model in this turn. Considers only answers that are certainly part of the conversation.
    fn last_words(&self) -> String {
        let (base, messages) = (self.base(), self.base().messages.iter().rev());
        let answers = base.iteration_number.saturating_sub(base.agent_turn.misfits);
        let own = messages.filter(|message| matches!(message.body, Body::Assistant { .. }));
        let own = own.take(usize::try_from(answers).unwrap_or(usize::MAX));
        own.map(Message::text).find(|text| !text.is_empty()).unwrap_or_default()
    }

    fn ended(&self, end: AgentEnd, said: Vec<Message>, report: String) -> Reply<S> {
        let turn = AgentTurn { end: Some(end), misfits: self.base().agent_turn.misfits, ..AgentTurn::default() };
        Reply { turn: Some(turn), ..Reply::next(said, Next::End(report)) }
    }

    /// Returns the writes of the node and its targets.
    fn command(&self, reply: Reply<S>) -> Command<S> {
        let (agent, base, channels) = (self.agent, self.base(), BaseState::channels());
        let Reply { said, mut turn, answer, told, next } = reply;
        if matches!(next, Next::Calls(_)) && told != base.agent_turn.tools {
            turn.get_or_insert_with(|| base.agent_turn.clone()).tools = told;
        }
        let is_done = turn.as_ref().is_some_and(|turn| turn.end.as_ref().is_some_and(AgentEnd::is_success));
        let mut writes = vec![channels.iteration_number.write::<S>(self.iteration.min(self.most))];
        writes.extend((base.max_iterations != self.most).then(|| channels.max_iterations.write::<S>(self.most)));
        writes.extend((!said.is_empty()).then(|| channels.messages.write::<S>(said)));
        writes.extend(turn.map(|turn| channels.agent_turn.write::<S>(turn)));
        writes.extend(answer);
        match next {
            Next::Model => writing(writes).goto(hier_spec::agent::MODEL),
            Next::Calls(calls) => {
                let made: Vec<Callee> = calls.iter().map(|(callee, _)| *callee).collect();
                writes.extend(scheduled(agent, base, &made).map(|progress| channels.progress.write::<S>(progress)));
                let sends = calls.into_iter();
                sends.fold(writing(writes), |command, (callee, call)| command.send(agent.node_of(callee), call))
            }
            Next::End(report) => {
                writes.extend(agent.report_into.iter().flat_map(|into| into(report.clone())));
                writes.push(channels.current_agent_report.write::<S>(report));
                let whole = is_done && base.current_tool_call.is_none();
                writes.extend(whole.then(|| channels.is_finished.write::<S>(true)));
                match &agent.exit {
                    Some(stage) => writing(writes).goto(&**stage),
                    None => writing(writes).goto(END),
                }
            }
        }
    }
}
