//! The nodes that refuse calls, and the nodes that end an agent.

use crate::prompts;
use crate::react::agent::{AgentDef, writing};
use crate::react::request::stop_reason;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::state::todo::TodoLists;
use crate::state::turn::{AgentEnd, AgentLimit, AgentTurn};
use hier_checkpoint::message::{Message, ToolCall};
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values};

pub(super) fn refuse_open_calls<S: Values + Contains<BaseState>>(state: &S, reason: &str) -> Command<S> {
    writing(answers(state.part(), &|call| prompts::refusal(call, reason)).map(|answers| messages::<S>(answers)))
}

/// Returns answers to the open calls, or `None` if there are none.
fn answers(base: &BaseState, answer: &dyn Fn(&ToolCall) -> Message) -> Option<Vec<Message>> {
    let calls = base.open_calls();
    (!calls.is_empty()).then(|| calls.into_iter().map(answer).collect())
}

fn messages<S: Values + Contains<BaseState>>(messages: Vec<Message>) -> S::Write {
    BaseState::channels().messages.write::<S>(messages)
}

/// The node `empty_back`. The report was written with the model's reply. This node answers the call of the tool for
/// reports, so that the conversation can continue, and copies the report to other channels.
pub(super) fn answer_report<S, C>(agent: &AgentDef<S, C>, task: &Task<S, C>) -> Command<S>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    let base = task.state().part();
    let mut writes: Vec<S::Write> = Vec::new();
    writes.extend(answers(base, &|call| prompts::answer(call, prompts::REPORTED)).map(messages::<S>));
    if let Some(into) = &agent.report_into {
        writes.extend(into(base.current_agent_report.clone()));
    }
    if agent.todo.is_some() && !base.todo_list.is_empty() {
        let lists = TodoLists::from_iter([(agent.name.clone(), base.todo_list.clone())]);
        writes.push(BaseState::channels().todo_lists.write::<S>(lists));
    }
    writing(writes)
}

/// The node `forced_exit`: ends the agent at a limit.
pub(super) fn force_exit<S, C>(_: &AgentDef<S, C>, task: &Task<S, C>) -> Command<S>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let base = task.state().part();
    let partial = &base.current_agent_report;
    let (report, end) = match stop_reason(task) {
        Some(reason) if base.is_cancelled => (prompts::over(&reason, partial), AgentEnd::Cancelled),
        Some(reason) => (prompts::over(&reason, partial), AgentEnd::Limit(AgentLimit::Budget(reason))),
        None if let Some(end @ AgentEnd::Limit(_)) = base.ending() => (prompts::ended(end, partial), end.clone()),
        None => (
            prompts::forced_exit(base.max_iterations, base.iteration_number, partial),
            AgentEnd::Limit(AgentLimit::Iterations(base.max_iterations)),
        ),
    };
    let turn = BaseState::channels().agent_turn.write::<S>(AgentTurn::ended(end));
    let refused = answers(base, &|call| prompts::refusal(call, prompts::REPORT_NOW)).map(messages::<S>);
    writing([BaseState::channels().current_agent_report.write::<S>(report), turn].into_iter().chain(refused))
}
