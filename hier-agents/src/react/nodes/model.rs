//! The node `model` of an `Agent`: asks the model, and continues as its reply requires.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hier_spec::agent::FINAL_ANSWER;

use super::reasoning::scheduled;
use crate::agent_error::AgentFailed;
use crate::layer::{ModelOutcome, OutputTool, unite_writes};
use crate::prompts;
use crate::react::agent::{AgentDef, Callee, writing};
use crate::react::answer::TypedAnswer;
use crate::react::repeats::{EarlierAnswers, partition};
use crate::react::request::{ModelAnswer, ModelQuestion, ask_model};
use crate::react::searching::refuse_unfound;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::state::turn::{AgentEnd, AgentLimit, AgentTurn, MOST_CUT_OFF, RejectedAnswer, is_fragment};
use hier_checkpoint::message::{Body, ChatResponse, FinishReason, Message, ToolCall};
use hier_core::graph::{Command, END, Task};
use hier_core::state::{Contains, State, Values};
use hier_core::{NodeError, NodeErrorKind};

pub(super) async fn run_model_node<S, C>(
    agent: &Arc<AgentDef<S, C>>,
    task: &Task<S, C>,
) -> Result<Command<S>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let base = task.state().part();
    let (state, iteration) = (task.state(), base.iteration_number.saturating_add(1));
    let mut turn = ModelStep { agent, state, iteration, most: agent.max_iterations(state), unfound: BTreeSet::new() };
    if iteration > turn.most {
        return turn.followed(task, turn.end_at_limit(AgentLimit::Iterations(turn.most), Vec::new())).await;
    }
    let Some(ModelAnswer { reply, fingerprints, unfound, found }) = ask_model(agent, task, turn.question()).await?
    else {
        return turn.followed(task, turn.end_cancelled()).await;
    };
    turn.unfound = unfound;
    let (reply, writes) = reply.into_parts();
    let reply = match reply {
        ModelOutcome::Answer(answer) => StepOutcome { fingerprints, ..turn.follow(answer)? },
        ModelOutcome::End(limit) => turn.end_at_limit(limit, Vec::new()),
    };
    let mut command = turn.followed(task, reply).await?;
    if !found.is_empty() {
        command.writes.push(BaseState::channels().found_tools.write::<S>(found));
    }
    let writes = unite_writes(writes, std::mem::take(&mut command.writes), task.channels())?;
    Ok(command.with_writes(writes))
}

/// One request of a turn.
struct ModelStep<'a, S: Values, C> {
    agent: &'a AgentDef<S, C>,
    state: &'a S,
    /// The number of the request in the turn, from 1.
    iteration: u32,
    most: u32,
    /// The tools that the reply calls although the model has not found them.
    unfound: BTreeSet<String>,
}

/// The consequences of a reply.
struct StepOutcome<S: Values> {
    /// The messages that are added to the conversation.
    messages: Vec<Message>,
    /// The agent's state for the turn, if it changes.
    turn: Option<AgentTurn>,
    answer: Option<S::Write>,
    /// The fingerprints of the toolset tools that are called.
    fingerprints: BTreeMap<String, String>,
    next: NextNode,
}

enum NextNode {
    Model,
    Calls(Vec<(Callee, ToolCall)>),
    /// The turn ends with this report.
    End(String),
}

impl<S: Values> StepOutcome<S> {
    fn next(messages: Vec<Message>, next: NextNode) -> Self {
        Self { messages, turn: None, answer: None, fingerprints: BTreeMap::new(), next }
    }
}

impl<S: Values + Contains<BaseState>, C> ModelStep<'_, S, C> {
    fn base(&self) -> &BaseState {
        self.state.part()
    }

    /// Returns the request: the system prompt, which is not stored, and the conversation.
    fn question(&self) -> ModelQuestion {
        let base = self.base();
        let is_last = self.iteration == self.most && self.iteration > 1;
        let system =
            [self.agent.system.text(self.state), if is_last { prompts::LAST.to_owned() } else { String::new() }];
        let system = system.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
        let conversation = base.agent_turn.with_drafts(&base.messages);
        let system = (!system.is_empty()).then(|| Message::system(system));
        let output = self.agent.answer.as_ref();
        let output = output.map(|answer| OutputTool { shape: answer.output(), tool: answer.tool() });
        ModelQuestion { messages: conversation.preceded_by(system), tools: self.agent.ending_specs.clone(), output }
    }

    fn follow(&self, response: ChatResponse) -> Result<StepOutcome<S>, NodeError> {
        let ChatResponse { message, finish, .. } = response;
        if finish == Some(FinishReason::ContentFilter) {
            // A repeated request would be refused again.
            return Ok(self.end_at_limit(AgentLimit::Filtered, Vec::new()));
        }
        let is_cut_off = finish == Some(FinishReason::Length);
        if !message.tool_calls().is_empty() {
            return self.follow_calls(message, is_cut_off);
        }
        let text = message.text();
        if text.trim().is_empty() {
            return if is_cut_off {
                Ok(self.end_at_limit(AgentLimit::Length, Vec::new()))
            } else {
                self.ask_again(prompts::NOTHING, Vec::new(), None, "")
            };
        }
        let Some(answer) = &self.agent.answer else {
            return Ok(if is_cut_off {
                self.end_cut_off(message)
            } else {
                let report = if self.base().current_tool_call.is_some() { message.text_with_sources() } else { text };
                self.end(AgentEnd::Text, vec![message], report)
            });
        };
        match answer.read_text(&text) {
            Ok((value, write)) => {
                let report = answer.report(&value);
                Ok(StepOutcome { answer: Some(write), ..self.end(AgentEnd::Answer, vec![message], report) })
            }
            Err(mistake) => {
                let mistake = if is_cut_off { prompts::cut_off(&mistake) } else { mistake };
                let correction = Message::user(prompts::no_answer(&mistake));
                self.ask_again(&mistake, Vec::new(), Some([message, correction]), &text)
            }
        }
    }

    /// Handles a reply with tool calls. Ends the turn if calls were cut off too often.
    fn follow_calls(&self, message: Message, is_cut_off: bool) -> Result<StepOutcome<S>, NodeError> {
        let calls = message.tool_calls().to_vec();
        let cut_off = self.base().agent_turn.cut_off_with(is_cut_off && calls.iter().any(is_fragment));
        if cut_off > MOST_CUT_OFF {
            let messages = [message].into_iter().chain(refusals(&calls, prompts::CUT_OFF)).collect();
            return Ok(self.end_at_limit(AgentLimit::Length, messages));
        }
        let reply = self.follow_complete_calls(message, &calls)?;
        let before = &self.base().agent_turn;
        if reply.turn.is_some() || before.cut_off == cut_off {
            return Ok(reply);
        }
        Ok(StepOutcome { turn: Some(AgentTurn { cut_off, ..before.clone() }), ..reply })
    }

    /// Decides how the agent continues after a reply with tool calls.
    fn follow_complete_calls(&self, message: Message, calls: &[ToolCall]) -> Result<StepOutcome<S>, NodeError> {
        let is_answer = |call: &ToolCall| self.agent.answer.is_some() && call.name == FINAL_ANSWER;
        if calls.iter().all(is_answer) {
            return self.follow_answer_calls(message, calls);
        }
        if self.iteration >= self.most {
            let messages = [message].into_iter().chain(refusals(calls, prompts::LIMIT_REACHED)).collect();
            return Ok(self.end_at_limit(AgentLimit::Iterations(self.most), messages));
        }
        if calls.len() > 1 && calls.iter().any(|call| self.agent.runs_alone(call)) {
            let messages = [message].into_iter().chain(refusals(calls, prompts::ALONE)).collect();
            return Ok(StepOutcome::next(messages, NextNode::Model));
        }
        let (early, made): (Vec<_>, Vec<_>) = calls.iter().cloned().partition(is_answer);
        let early = refusals(&early, prompts::ANSWER_EARLY);
        let parted = partition(&self.earlier(), made);
        let (unfound, made) = refuse_unfound(&self.unfound, parted.made);
        let messages = [message].into_iter().chain(early).chain(parted.refused).chain(unfound).collect();
        if parted.is_stuck {
            return Ok(self.end_at_limit(AgentLimit::Repeats(self.agent.max_repeats), messages));
        }
        if made.is_empty() {
            return Ok(StepOutcome::next(messages, NextNode::Model));
        }
        let made = made.into_iter().map(|call| (self.agent.callee_for(&call), call)).collect();
        Ok(StepOutcome::next(messages, NextNode::Calls(made)))
    }

    fn earlier(&self) -> EarlierAnswers<'_> {
        let (messages, answers) = (&self.base().messages, self.base().iteration_number);
        EarlierAnswers { messages, answers, users_count: true, most: self.agent.max_repeats }
    }

    fn follow_answer_calls(&self, message: Message, calls: &[ToolCall]) -> Result<StepOutcome<S>, NodeError> {
        // The tool exists only with a typed answer.
        let Some(answer) = &self.agent.answer else { return self.ask_again("", Vec::new(), None, "") };
        let read: Vec<Result<S::Write, String>> = calls.iter().map(|call| answer.read_arguments(&call.args)).collect();
        let mut fitting = calls.iter().zip(&read).filter(|(_, read)| read.is_ok()).map(|(call, _)| call);
        let first = fitting.next();
        let differ = first.is_some_and(|first| fitting.any(|other| other.args != first.args));
        let result = |(call, read): (&ToolCall, &Result<S::Write, String>)| match read {
            Err(mistake) => prompts::refusal(call, mistake),
            Ok(_) if differ => prompts::refusal(call, prompts::ANSWERS_DIFFER),
            Ok(_) => prompts::answer(call, prompts::ANSWERED),
        };
        let messages = [message].into_iter().chain(calls.iter().zip(&read).map(result)).collect();
        let report = first.map(|first| answer.report(&first.args));
        let mistake = read.iter().find_map(|read| read.as_ref().err().cloned());
        let write = read.into_iter().find_map(Result::ok);
        match (write, report) {
            (Some(write), Some(report)) if !differ => {
                Ok(StepOutcome { answer: Some(write), ..self.end(AgentEnd::Answer, messages, report) })
            }
            _ => {
                let shown = calls.first().map(|call| call.args.to_string()).unwrap_or_default();
                self.ask_again(mistake.as_deref().unwrap_or(prompts::ANSWERS_DIFFER), messages, None, &shown)
            }
        }
    }

    /// Asks the model again after an unusable reply, as often as the agent allows.
    fn ask_again(
        &self,
        mistake: &str,
        messages: Vec<Message>,
        draft: Option<[Message; 2]>,
        shown: &str,
    ) -> Result<StepOutcome<S>, NodeError> {
        let mut turn = self.base().agent_turn.clone();
        turn.misfits = turn.misfits.saturating_add(1);
        if turn.misfits >= self.agent.attempts {
            let reason = prompts::attempts(mistake, turn.misfits);
            return self.fail(reason, messages, shown);
        }
        if let Some([answer, correction]) = draft {
            let after = self.base().messages.last().and_then(|message| message.id.clone());
            turn.drafts.push(RejectedAnswer { after, answer, correction });
        }
        Ok(StepOutcome { turn: Some(turn), ..StepOutcome::next(messages, NextNode::Model) })
    }

    /// Ends an agent without an answer. A supervisor receives a report; the run of a root fails.
    fn fail(&self, reason: String, messages: Vec<Message>, shown: &str) -> Result<StepOutcome<S>, NodeError> {
        let is_sealed = self.is_sealed();
        let (reason, shown) = if is_sealed { (prompts::NO_USABLE_ANSWER.to_owned(), "") } else { (reason, shown) };
        let failed = AgentFailed::new(&self.agent.name, reason, shown);
        if self.base().current_tool_call.is_none() {
            return Err(NodeError::from_kind(NodeErrorKind::Source(Box::new(failed)), false));
        }
        let report = failed.to_string();
        Ok(self.end(AgentEnd::Failed(failed.reason), messages, report))
    }

    /// Returns true if no text of the model may reach the supervisor, because the answer is text-free.
    fn is_sealed(&self) -> bool {
        let is_text_free = self.agent.answer.as_ref().is_some_and(TypedAnswer::is_text_free);
        is_text_free && self.base().current_tool_call.is_some()
    }

    fn end_cancelled(&self) -> StepOutcome<S> {
        self.end(AgentEnd::Cancelled, Vec::new(), prompts::stopped(&AgentEnd::Cancelled, &self.last_words()))
    }

    fn end_at_limit(&self, limit: AgentLimit, messages: Vec<Message>) -> StepOutcome<S> {
        let end = AgentEnd::Limit(limit);
        let report = prompts::stopped(&end, &self.last_words());
        self.end(end, messages, report)
    }

    /// Ends the turn with a truncated reply. A person sees the text of the reply. A supervisor is informed about the
    /// truncation.
    fn end_cut_off(&self, message: Message) -> StepOutcome<S> {
        let (end, text) = (AgentEnd::Limit(AgentLimit::Length), message.text());
        let text = if self.is_sealed() { String::new() } else { text };
        let report = if self.base().current_tool_call.is_some() { prompts::stopped(&end, &text) } else { text };
        self.end(end, vec![message], report)
    }

    /// Returns the last text of the model in this turn. Considers only replies that are certainly part of the
    /// conversation.
    fn last_words(&self) -> String {
        if self.is_sealed() {
            return String::new();
        }
        let (base, messages) = (self.base(), self.base().messages.iter().rev());
        let answers = base.iteration_number.saturating_sub(base.agent_turn.misfits);
        let own = messages.filter(|message| matches!(message.body, Body::Assistant { .. }));
        let own = own.take(usize::try_from(answers).unwrap_or(usize::MAX));
        own.map(Message::text).find(|text| !text.is_empty()).unwrap_or_default()
    }

    fn end(&self, end: AgentEnd, messages: Vec<Message>, report: String) -> StepOutcome<S> {
        let turn = AgentTurn { end: Some(end), misfits: self.base().agent_turn.misfits, ..AgentTurn::default() };
        StepOutcome { turn: Some(turn), ..StepOutcome::next(messages, NextNode::End(report)) }
    }

    /// Returns the writes of the node and its targets. An agent that ends cancels its background subagents.
    async fn followed(&self, task: &Task<S, C>, reply: StepOutcome<S>) -> Result<Command<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        let is_over = matches!(reply.next, NextNode::End(_));
        let mut command = self.command(reply);
        if is_over {
            self.agent.background.end_all(task, &mut command).await?;
        }
        Ok(command)
    }

    fn command(&self, reply: StepOutcome<S>) -> Command<S> {
        let (agent, base, channels) = (self.agent, self.base(), BaseState::channels());
        let StepOutcome { messages, mut turn, answer, fingerprints, next } = reply;
        if matches!(next, NextNode::Calls(_)) && fingerprints != base.agent_turn.tools {
            turn.get_or_insert_with(|| base.agent_turn.clone()).tools = fingerprints;
        }
        let is_done = turn.as_ref().is_some_and(|turn| turn.end.as_ref().is_some_and(AgentEnd::is_success));
        let mut writes = vec![channels.iteration_number.write::<S>(self.iteration.min(self.most))];
        writes.extend((base.max_iterations != self.most).then(|| channels.max_iterations.write::<S>(self.most)));
        writes.extend((!messages.is_empty()).then(|| channels.messages.write::<S>(messages)));
        writes.extend(turn.map(|turn| channels.agent_turn.write::<S>(turn)));
        writes.extend(answer);
        match next {
            NextNode::Model => writing(writes).goto(hier_spec::agent::MODEL),
            NextNode::Calls(calls) => {
                let made: Vec<Callee> = calls.iter().map(|(callee, _)| *callee).collect();
                writes.extend(scheduled(agent, base, &made).map(|progress| channels.progress.write::<S>(progress)));
                let sends = calls.into_iter();
                sends.fold(writing(writes), |command, (callee, call)| command.send(agent.node_of(callee), call))
            }
            NextNode::End(report) => {
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

fn refusals(calls: &[ToolCall], reason: &str) -> Vec<Message> {
    calls.iter().map(|call| prompts::refusal(call, reason)).collect()
}
