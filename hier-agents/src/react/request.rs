//! Requests to an agent's model.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::agent::{AgentDef, budget};
use crate::call::model::ModelCaller;
use crate::compact::read_earlier;
use crate::layer::{ModelReply, OutputTool, StateProjection};
use crate::model::{ChatRequest, ToolSpec};
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::tool::catalogue::ToolCatalogue;
use hier_checkpoint::message::Messages;
use hier_core::NodeError;
use hier_core::graph::Task;
use hier_core::state::{Contains, Values};

/// Returns why no model may be asked, if the run was cancelled or the budget is used up.
pub(super) fn stop_reason<S, C>(task: &Task<S, C>) -> Option<String>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext>,
{
    if task.state().part().is_cancelled {
        return Some("the run was cancelled".to_owned());
    }
    budget(task).and_then(|budget| budget.used_up())
}

/// A request to the agent's model.
pub(super) struct ModelQuestion {
    /// The whole conversation, as it is sent.
    pub(super) messages: Messages,
    pub(super) tools: Arc<[ToolSpec]>,
    /// The request for a typed answer.
    pub(super) output: Option<OutputTool>,
}

/// The reply to a request.
pub(super) struct ModelAnswer<S: Values> {
    pub(super) reply: ModelReply<S>,
    /// The fingerprints of the toolset tools that the answer calls, as they were sent to the model.
    pub(super) fingerprints: BTreeMap<String, String>,
}

/// Asks the model. Returns none if the run was cancelled. Every request of an agent passes through this function.
pub(super) async fn ask_model<S, C>(
    agent: &AgentDef<S, C>,
    task: &Task<S, C>,
    question: ModelQuestion,
) -> Result<Option<ModelAnswer<S>>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    if task.state().part().is_cancelled {
        return Ok(None);
    }
    let context = task.run().context();
    let model = match &agent.model {
        Some(choose) => choose(context),
        None => &**context.as_ref().model()?,
    };
    let ModelQuestion { messages, tools, output } = question;
    // Boxed to keep the future of an agent without toolsets small.
    let catalogue = if agent.toolsets.is_empty() { None } else { Some(Box::pin(agent.catalogue(context)).await?) };
    let listed = catalogue.iter().flat_map(ToolCatalogue::specs).cloned();
    let earlier = task.state().part().compaction.is_some().then(read_earlier::spec);
    let more: Vec<ToolSpec> = listed.chain(earlier).collect();
    let extended = |tools: Arc<[ToolSpec]>| match &*more {
        [] => tools,
        more => tools.iter().chain(more).cloned().collect(),
    };
    let output =
        output.map(|OutputTool { shape, tools, all }| OutputTool { shape, tools: extended(tools), all: extended(all) });
    let tools = output.as_ref().map_or_else(|| extended(tools), |output| output.all.clone());
    let request = ChatRequest { messages, tools, output: None, options: agent.options.clone() };
    let caller = ModelCaller {
        run: task.run(),
        state: task.state(),
        agent: &agent.name,
        budget: budget(task).map(|budget| &**budget),
        layers: agent.layers(task.run()),
        projection: StateProjection::of_agent(),
    };
    let reply = caller.call_model(model, request, output.as_ref()).await?;
    let made = reply.response().map(|response| response.message.tool_calls()).unwrap_or_default();
    let fingerprints = catalogue.map(|catalogue| catalogue.fingerprints(made)).unwrap_or_default();
    Ok(Some(ModelAnswer { reply, fingerprints }))
}
