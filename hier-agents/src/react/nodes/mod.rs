mod ending;
mod model;
mod reasoning;
mod system;
mod tool;

pub(crate) use tool::call_of;

use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::agent::{AgentDef, budget};
use crate::prompts;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use hier_core::NodeError;
use hier_core::graph::{Command, NodeDef, NodeResult, Output, Task};
use hier_core::internals::body;
use hier_core::state::{Contains, Values};

impl<S, C> AgentDef<S, C>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    /// Returns the nodes of an agent of this kind, in the order of [`AgentKind::nodes`].
    pub(crate) fn nodes(self: &Arc<Self>) -> Vec<NodeDef<S, C>> {
        if self.converses() {
            return vec![
                self.asynchronous(|agent, task| {
                    Box::pin(async move { model::run_model_node(&agent, task).await.map(Output::from) })
                }),
                self.asynchronous(|agent, task| {
                    Box::pin(async move { tool::run_tool_node(&agent, task).await.map(Output::from) })
                }),
            ];
        }
        let mut nodes = vec![
            self.synchronous(system::write_system_prompt),
            self.asynchronous(|agent, task| {
                Box::pin(async move { reasoning::run_reasoning_node(&agent, task).await.map(Output::from) })
            }),
            self.asynchronous(|agent, task| {
                Box::pin(async move { tool::run_tool_node(&agent, task).await.map(Output::from) })
            }),
            self.last(ending::answer_report),
            self.synchronous(|_, _| Command::new()),
            Self::refusal(prompts::REPORT_ALONE),
            Self::refusal(prompts::PARALLEL),
            Self::refusal(prompts::REPORT_NOW),
            self.last(ending::force_exit),
        ];
        nodes.extend(self.todo.as_ref().map(|todo| Self::refusal(&todo.refusal)));
        nodes
    }

    fn asynchronous(self: &Arc<Self>, code: AsyncNode<S, C>) -> NodeDef<S, C> {
        let agent = self.clone();
        let code = body(move |task: &Task<S, C>| {
            count_step(task);
            match agent.background.keep_running(task) {
                Ok(()) => code(agent.clone(), task),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            }
        });
        NodeDef::from_body(code, None)
    }

    fn synchronous(self: &Arc<Self>, code: fn(&Self, &Task<S, C>) -> Command<S>) -> NodeDef<S, C> {
        let agent = self.clone();
        let code = body(move |task: &Task<S, C>| {
            count_step(task);
            Box::pin(std::future::ready(Ok(Output::from(code(&agent, task)))))
        });
        NodeDef::from_body(code, None)
    }

    /// Creates a node that ends the agent and cancels its background subagents.
    fn last(self: &Arc<Self>, code: fn(&Self, &Task<S, C>) -> Command<S>) -> NodeDef<S, C> {
        let agent = self.clone();
        let code = body(move |task: &Task<S, C>| {
            count_step(task);
            let agent = agent.clone();
            Box::pin(async move {
                let mut command = code(&agent, task);
                agent.background.end_all(task, &mut command).await?;
                Ok::<_, NodeError>(Output::from(command))
            })
        });
        NodeDef::from_body(code, None)
    }

    fn refusal(reason: &str) -> NodeDef<S, C> {
        let reason = reason.to_owned();
        let code = body(move |task: &Task<S, C>| {
            count_step(task);
            let command = ending::refuse_open_calls(task.state(), &reason);
            Box::pin(std::future::ready(Ok(Output::from(command))))
        });
        NodeDef::from_body(code, None)
    }
}

type AsyncNode<S, C> = for<'a> fn(Arc<AgentDef<S, C>>, &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>;

fn count_step<S: Values + Contains<BaseState>, C: AsRef<BaseContext>>(task: &Task<S, C>) {
    if let Some(budget) = budget(task) {
        budget.count_step();
    }
}
