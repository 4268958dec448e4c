use crate::builder::AgentBuilder;
use crate::tool::search::IntoToolSearch;
use hier_core::state::Values;

impl<S: Values, C: Send + Sync + 'static> AgentBuilder<S, C> {
    /// Lets the model search for tools if the agent has many tools. Accepts a `bool` or a
    /// [`ToolSearch`](crate::ToolSearch). Defaults to `false`, with which each request contains all tools.
    ///
    /// ```
    /// # use hier_agents::AgentBuilder;
    /// # use hier_agents::prelude::*;
    /// let agent = AgentBuilder::<BaseState>::new("support").search(true);
    /// # let _ = agent;
    /// ```
    pub fn search(mut self, search: impl IntoToolSearch) -> Self {
        self.agent.search = search.into_tool_search();
        self
    }

    pub(super) fn search_mistake(&self) -> Option<String> {
        let finds_nothing = self.agent.search.is_some_and(|search| search.results == 0);
        finds_nothing.then(|| "a search for tools with `results` 0 finds nothing: write at least 1".to_owned())
    }
}
