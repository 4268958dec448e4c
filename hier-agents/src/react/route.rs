//! Decides where a reply of the model leads.

use serde_json::Value;

use super::agent::{AgentDef, Callee};
use crate::agent_error::AgentStuck;
use crate::prompts;
use crate::state::base::BaseState;
use crate::state::turn::is_fragment;
use hier_checkpoint::message::ToolCall;
use hier_core::state::{Contains, Values};

/// Number of iterations beyond the maximum before an agent is forced to exit.
const GRACE: u32 = 5;

/// The tools that may still be called after the last iteration.
const LAST_WORDS: [&str; 3] = [REPORT, FINISH, RAISE];

pub(super) const REPORT: &str = "report_to_supervisor";
pub(super) const FINISH: &str = "finish_task";
pub(super) const RAISE: &str = "raise_exception";

#[derive(Debug)]
pub(super) enum AnswerRoute {
    /// The reply has no call: the model is asked again.
    Again,
    /// The agent has exceeded its iterations by [`GRACE`].
    Forced,
    /// This node refuses all calls.
    Refused(&'static str),
    /// The report ends the agent.
    Ended { report: String, finished: bool },
    /// These callees make the calls, in the order of the calls.
    Calls(Vec<Callee>),
}

/// Decides where the calls of a reply lead, in iteration `iteration` of `max`. The first rule that applies counts.
pub(super) fn route_answer<S, C>(
    agent: &AgentDef<S, C>,
    state: &S,
    calls: &[ToolCall],
    (iteration, max): (u32, u32),
) -> Result<AnswerRoute, AgentStuck>
where
    S: Values + Contains<BaseState>,
{
    if iteration >= max.saturating_add(GRACE) {
        return Ok(AnswerRoute::Forced);
    }
    let Some(first) = calls.first() else { return Ok(AnswerRoute::Again) };
    if iteration >= max && !LAST_WORDS.contains(&&*first.name) {
        return Ok(AnswerRoute::Refused(hier_spec::agent::REJECT));
    }
    let alone = calls.len() == 1;
    if !alone && calls.iter().any(|call| agent.runs_alone(call)) {
        return Ok(AnswerRoute::Refused(hier_spec::agent::INVALID_PARALLEL));
    }
    let mut made = Vec::with_capacity(calls.len());
    for call in calls {
        match &*call.name {
            RAISE if !is_fragment(call) => return Err(agent_stuck(agent, call)),
            REPORT | FINISH if agent.holds_back(state) => {
                return Ok(AnswerRoute::Refused(hier_spec::agent::TODO_INCOMPLETE));
            }
            REPORT | FINISH if !alone => return Ok(AnswerRoute::Refused(hier_spec::agent::INVALID_REPORT)),
            REPORT | FINISH => {
                if let Some(report) = report(call) {
                    return Ok(AnswerRoute::Ended { report, finished: call.name == FINISH });
                }
            }
            _ => {}
        }
        made.push(agent.callee_for(call));
    }
    Ok(AnswerRoute::Calls(made))
}

fn report(call: &ToolCall) -> Option<String> {
    let text = |name: &str| call.args.get(name).and_then(Value::as_str);
    if call.name == FINISH {
        return text("result").map(str::to_owned);
    }
    let report = text("report").filter(|report| !report.is_empty())?;
    Some(match call.args.get("request_iterations").and_then(Value::as_u64) {
        Some(iterations) if iterations > 0 => prompts::more_iterations(report, iterations),
        _ => report.to_owned(),
    })
}

fn agent_stuck<S: Values, C>(agent: &AgentDef<S, C>, call: &ToolCall) -> AgentStuck {
    let text = |name: &str| call.args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    AgentStuck {
        reason: text("reason").unwrap_or("No reason provided").to_owned(),
        reporting_agent: agent.name.to_string(),
        subject_agent: text("subject_agent").unwrap_or_default().to_owned(),
    }
}
