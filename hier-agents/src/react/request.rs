use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::agent::{AgentDef, budget};
use crate::call::model::ModelCaller;
use crate::compact::read_earlier;
use crate::layer::{ModelReply, OutputTool, StateProjection};
use crate::model::{ChatRequest, ToolSpec};
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::state::found::FoundTools;
use crate::tool::catalogue::ToolCatalogue;
use hier_checkpoint::message::Messages;
use hier_core::NodeError;
use hier_core::graph::Task;
use hier_core::state::{Contains, Values};

/// Returns the reason why the model must not be asked: the run was cancelled, or the budget is used up.
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

pub(super) struct ModelQuestion {
    /// The whole conversation, as it is sent.
    pub(super) messages: Messages,
    pub(super) tools: Arc<[ToolSpec]>,
    pub(super) output: Option<OutputTool>,
}

pub(super) struct ModelAnswer<S: Values> {
    pub(super) reply: ModelReply<S>,
    /// The fingerprints of the toolset tools that the reply calls, as they were sent to the model.
    pub(super) fingerprints: BTreeMap<String, String>,
    /// The tools that the reply calls although the model has not found them. Their calls are not made.
    pub(super) unfound: BTreeSet<String>,
    /// The tools that the reply calls because the provider found them. Another model of the thread may call them, too.
    pub(super) found: FoundTools,
}

/// Asks the model. Returns `None` if the run was cancelled. Every request of an agent passes through this function.
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
    let earlier = task.state().part().compaction.is_some().then(read_earlier::spec);
    let found = &agent.sent_tools(&task.state().part().found_tools);
    let access = agent.tool_access(catalogue.as_ref(), model, found);
    let (messages, tools) = match access.names() {
        Some(searched) => {
            let more = searched.sent_specs(earlier, found);
            (messages.preceded_by(Some(searched.listing())), joined(&mut agent.without_tools(&tools), &more))
        }
        None if catalogue.is_none() && earlier.is_none() => (messages, tools),
        None => {
            let mut first = tools.iter().chain(catalogue.iter().flat_map(ToolCatalogue::specs));
            (messages, joined(&mut first, earlier.as_slice()))
        }
    };
    let deferred = access.provider().map(|search| search.deferred(agent.forced_tool())).unwrap_or_default();
    let request = ChatRequest { messages, tools, deferred, output: None, options: agent.options.clone() };
    let caller = ModelCaller {
        run: task.run(),
        state: task.state(),
        agent: &agent.name,
        budget: budget(task).map(|budget| &**budget),
        layers: agent.layers(task.run()),
        projection: StateProjection::of_agent(),
        search: access.provider(),
    };
    let reply = caller.call_model(model, request, output.as_ref()).await?;
    let made = reply.response().map(|response| response.message.tool_calls()).unwrap_or_default();
    let (unfound, found) = (access.unfound(made, found), access.newly_found(made));
    let fingerprints = catalogue.as_ref().map(|catalogue| catalogue.fingerprints(made)).unwrap_or_default();
    Ok(Some(ModelAnswer { reply, fingerprints, unfound, found }))
}

fn joined<'a>(first: &mut dyn Iterator<Item = &'a ToolSpec>, more: &'a [ToolSpec]) -> Arc<[ToolSpec]> {
    first.chain(more).cloned().collect()
}
