//! The search of a provider for the tools of an agent, and its replacement for a model whose provider has no search.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::SearchableTools;
use crate::model::{ChatModel, ChatRequest, ToolSpec};
use crate::state::found::FoundTools;

/// The deferred tools of a request. A layer may direct the request to a model whose provider has no search. That model
/// receives the names of the tools, and the tools that were found.
pub(crate) struct ProviderSearch<'a> {
    tools: SearchableTools<'a>,
    found: &'a FoundTools,
    /// True if the model that was asked last has received only the names.
    has_names: AtomicBool,
}

impl<'a> ProviderSearch<'a> {
    pub(crate) fn new(tools: SearchableTools<'a>, found: &'a FoundTools) -> Self {
        Self { tools, found, has_names: AtomicBool::new(false) }
    }

    /// Returns the names of the tools that the provider finds: all tools except the tool that the model is forced to
    /// call.
    pub(crate) fn deferred(&self, forced: Option<&str>) -> BTreeSet<String> {
        self.tools.names().filter(|name| Some(*name) != forced).map(str::to_owned).collect()
    }

    /// Returns true if the calls of this tool need a search that the model has not made.
    pub(crate) fn hide(&self, name: &str) -> bool {
        self.has_names.load(Ordering::Relaxed) && self.tools.hide(name, self.found)
    }

    /// Returns true for a tool that the provider found and that is new to the conversation.
    pub(crate) fn has_found(&self, name: &str) -> bool {
        !self.has_names.load(Ordering::Relaxed) && self.tools.hide(name, self.found)
    }

    /// Adapts a request to the model that receives it.
    pub(crate) fn adapt(&self, request: &mut ChatRequest, model: &dyn ChatModel) {
        if request.deferred.is_empty() {
            return;
        }
        let searches = model.searches_tools();
        self.has_names.store(!searches, Ordering::Relaxed);
        if searches {
            return;
        }
        let deferred = std::mem::take(&mut request.deferred);
        let others = request.tools.iter().filter(|tool| !deferred.contains(&tool.name)).cloned();
        let found = self.found.names().filter_map(|name| request.tools.iter().find(|tool| tool.name == name));
        let found = found.filter(|tool| deferred.contains(&tool.name)).cloned();
        let tools: Arc<[ToolSpec]> = others.chain([super::spec()]).chain(found).collect();
        request.messages = request.messages.preceded_by(Some(self.tools.listing()));
        request.tools = tools;
    }
}
