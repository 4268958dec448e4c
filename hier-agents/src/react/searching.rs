//! The search for tools of an agent with many of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::agent::{AgentDef, Callee, writing};
use crate::call::tool::ToolCaller;
use crate::model::{ChatModel, ToolSpec};
use crate::options::ToolChoice;
use crate::prompts;
use crate::state::base::BaseState;
use crate::state::found::FoundTools;
use crate::tool::catalogue::ToolCatalogue;
use crate::tool::search::{self, ProviderSearch, SearchableTools};
use hier_checkpoint::message::{Message, ToolCall};
use hier_core::NodeError;
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values};

/// The way in which a model gets to the tools of its agent.
pub(super) enum ToolAccess<'a> {
    /// The model receives all tools.
    All,
    /// The model receives the names of the tools, and calls `search_tools`.
    Names(SearchableTools<'a>),
    /// The model's provider receives all tools, and searches them.
    Provider(ProviderSearch<'a>),
}

impl<'a> ToolAccess<'a> {
    /// Returns the names, if the model receives them in place of the tools.
    pub(super) fn names(&self) -> Option<&SearchableTools<'a>> {
        if let Self::Names(tools) = self { Some(tools) } else { None }
    }

    pub(super) fn provider(&self) -> Option<&ProviderSearch<'a>> {
        if let Self::Provider(search) = self { Some(search) } else { None }
    }

    /// Returns the called tools that need a search which the model has not made.
    pub(super) fn unfound(&self, calls: &[ToolCall], found: &FoundTools) -> BTreeSet<String> {
        let is_hidden = |call: &&ToolCall| match self {
            Self::All => false,
            Self::Names(tools) => tools.hide(&call.name, found),
            Self::Provider(search) => search.hide(&call.name),
        };
        calls.iter().filter(is_hidden).map(|call| call.name.clone()).collect()
    }

    /// Returns the called tools that the provider found and that are new to the conversation.
    pub(super) fn newly_found(&self, calls: &[ToolCall]) -> FoundTools {
        let is_new = |call: &&ToolCall| self.provider().is_some_and(|search| search.has_found(&call.name));
        calls.iter().filter(is_new).map(|call| &*call.name).collect()
    }
}

impl<S: Values, C: Send + Sync + 'static> AgentDef<S, C> {
    pub(super) fn tool_access<'a>(
        &'a self,
        catalogue: Option<&'a ToolCatalogue<C>>,
        model: &dyn ChatModel,
        found: &'a FoundTools,
    ) -> ToolAccess<'a> {
        match self.searchable(catalogue) {
            None => ToolAccess::All,
            Some(tools) if model.searches_tools() => ToolAccess::Provider(ProviderSearch::new(tools, found)),
            Some(tools) => ToolAccess::Names(tools),
        }
    }

    /// Returns the tools that the model must find before it calls them, or `None` if it receives all tools.
    fn searchable<'a>(&'a self, catalogue: Option<&'a ToolCatalogue<C>>) -> Option<SearchableTools<'a>> {
        let search = self.search?;
        let tools = self.all_tools(catalogue);
        tools.exceed(search).then_some(tools)
    }

    /// Returns the tools that are sent: the tools that the model has found, and the tool that the options force it to
    /// call.
    pub(super) fn sent_tools(&self, found: &FoundTools) -> FoundTools {
        let mut sent = found.clone();
        if let Some(name) = self.forced_tool().filter(|_| self.search.is_some()) {
            sent.add(name.to_owned());
        }
        sent
    }

    /// Returns the tool that the options force the model to call.
    pub(super) fn forced_tool(&self) -> Option<&str> {
        if let Some(ToolChoice::Tool(name)) = &self.options.tool_choice { Some(name) } else { None }
    }

    /// Returns the specs without the agent's own tools.
    pub(super) fn without_tools<'a>(&'a self, specs: &'a [ToolSpec]) -> impl Iterator<Item = &'a ToolSpec> {
        specs.iter().filter(|spec| !self.is_own_tool(spec))
    }

    fn all_tools<'a>(&'a self, catalogue: Option<&'a ToolCatalogue<C>>) -> SearchableTools<'a> {
        let mut own = self.specs.iter().filter(|spec| self.is_own_tool(spec));
        SearchableTools::new(&mut own, &mut catalogue.into_iter().flat_map(ToolCatalogue::specs))
    }

    fn is_own_tool(&self, spec: &ToolSpec) -> bool {
        matches!(self.callee(&spec.name), Callee::Tool(_))
    }

    /// Returns the answer to a call of a tool that does not exist.
    pub(super) fn no_such_tool(&self, name: &str, catalogue: Option<&ToolCatalogue<C>>) -> String {
        if let Some(tools) = self.searchable(catalogue) {
            let mut listed = self.without_tools(&self.specs).map(|spec| &*spec.name).chain(tools.names());
            return prompts::unknown_among_many(name, &mut listed);
        }
        self.unknown_tool(name, catalogue.map(ToolCatalogue::names).unwrap_or_default())
    }
}

/// Splits calls into the refusals of tools that the model has not found, and the calls that may be made.
pub(super) fn refuse_unfound(unfound: &BTreeSet<String>, calls: Vec<ToolCall>) -> (Vec<Message>, Vec<ToolCall>) {
    let (refused, made): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| unfound.contains(&call.name));
    let refusal = |call: &ToolCall| prompts::refusal(call, &prompts::not_found_yet(&call.name));
    (refused.iter().map(refusal).collect(), made)
}

/// Makes a call of `search_tools`. Returns `None` if the agent has no search.
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
    let query = match search::query(call) {
        Ok(query) => query,
        Err(mistake) => return Ok(Some(caller.refuse(call, &mistake))),
    };
    let catalogue = agent.catalogue(task.run().context()).await?;
    let store = task.run().store().ok().map(|store| &**store);
    let found = agent.all_tools(Some(&catalogue)).search(search, &query, store).await;
    let channels = BaseState::channels();
    let text = prompts::found_tools(&query, &found.names().collect::<Vec<_>>());
    let result = channels.messages.write::<S>([prompts::answer(call, text)]);
    let found = (!found.is_empty()).then(|| channels.found_tools.write::<S>(found));
    Ok(Some(writing([result].into_iter().chain(found))))
}
