//! The search for tools of an agent with many of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::agent::{AgentDef, Callee, writing};
use crate::call::tool::ToolCaller;
use crate::model::ToolSpec;
use crate::options::ToolChoice;
use crate::prompts;
use crate::state::base::BaseState;
use crate::state::found::FoundTools;
use crate::tool::catalogue::ToolCatalogue;
use crate::tool::search::SearchableTools;
use hier_checkpoint::message::{Message, ToolCall};
use hier_core::NodeError;
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values};

impl<S: Values, C: Send + Sync + 'static> AgentDef<S, C> {
    /// Returns the tools that the model must find before it calls them, or none if it receives all tools.
    pub(super) fn searchable<'a>(&'a self, catalogue: Option<&'a ToolCatalogue<C>>) -> Option<SearchableTools<'a>> {
        let search = self.search?;
        let tools = self.all_tools(catalogue);
        tools.exceed(search).then_some(tools)
    }

    /// Returns the tools that are sent: those that the model has found, and one that the options force it to call.
    pub(super) fn sent_tools(&self, found: &FoundTools) -> FoundTools {
        let mut sent = found.clone();
        if let (Some(_), Some(ToolChoice::Tool(name))) = (self.search, &self.options.tool_choice) {
            sent.merge(FoundTools::from_iter([name]));
        }
        sent
    }

    /// Returns the specs without the agent's own tools.
    pub(super) fn without_tools<'a>(&'a self, specs: &'a [ToolSpec]) -> impl Iterator<Item = &'a ToolSpec> {
        specs.iter().filter(|spec| !self.is_own_tool(spec))
    }

    fn all_tools<'a>(&'a self, catalogue: Option<&'a ToolCatalogue<C>>) -> SearchableTools<'a> {
        let own = self.specs.iter().filter(|spec| self.is_own_tool(spec));
        SearchableTools::new(own, catalogue.into_iter().flat_map(ToolCatalogue::specs))
    }

    fn is_own_tool(&self, spec: &ToolSpec) -> bool {
        matches!(self.callee(&spec.name), Callee::Tool(_))
    }

    /// Returns the answer to a call of a tool that does not exist.
    pub(super) fn no_such_tool(&self, name: &str, catalogue: Option<&ToolCatalogue<C>>) -> String {
        if let Some(tools) = self.searchable(catalogue) {
            let listed = self.without_tools(&self.specs).map(|spec| &*spec.name).chain(tools.names());
            return prompts::unknown_among_many(name, listed);
        }
        let listed = catalogue.into_iter().flat_map(ToolCatalogue::specs).map(|spec| spec.name.clone());
        self.unknown_tool(name, listed.collect())
    }
}

/// Splits calls into the refusals of tools that the model has not found, and the calls that may be made.
pub(super) fn refuse_unfound(unfound: &BTreeSet<String>, calls: Vec<ToolCall>) -> (Vec<Message>, Vec<ToolCall>) {
    let (refused, made): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| unfound.contains(&call.name));
    let refusal = |call: &ToolCall| prompts::refusal(call, &prompts::not_found_yet(&call.name));
    (refused.iter().map(refusal).collect(), made)
}

/// Makes a call of `search_tools`. Returns none if the agent has no search.
pub(super) async fn search_tools<S, C>(
    agent: &Arc<AgentDef<S, C>>,
    caller: &ToolCaller<'_, S, C>,
    call: &ToolCall,
    task: &Task<S, C>,
) -> Result<Option<Command<S>>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    let Some(search) = agent.search.filter(|_| call.name == hier_spec::agent::SEARCH_TOOLS) else { return Ok(None) };
    let catalogue = agent.catalogue(task.run().context()).await?;
    Ok(Some(match agent.all_tools(Some(&catalogue)).search(search, call) {
        Err(mistake) => caller.refuse(call, &mistake),
        Ok((found, text)) => {
            let channels = BaseState::channels();
            let result = channels.messages.write::<S>([prompts::answer(call, text)]);
            let found = (!found.is_empty()).then(|| channels.found_tools.write::<S>(found));
            writing([result].into_iter().chain(found))
        }
    }))
}
