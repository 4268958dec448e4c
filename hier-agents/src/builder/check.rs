//! The rules for agents that are built at run time. The macro reports the same rules as compile errors.

use hier_spec::agent::{BACKGROUND_TOOLS, SEARCH_TOOLS};

use crate::builder::AgentBuilder;
use crate::hierarchy::subagent::Subagent;
use crate::layer::compaction_conflict;
use hier_core::state::Values;

impl<S: Values, C: Send + Sync + 'static> AgentBuilder<S, C> {
    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut mistakes = self.mistakes.clone();
        // An agent can be a node of another graph under its own name.
        let name = &self.agent.name;
        mistakes.extend(hier_spec::names::graph(name).or_else(|| hier_spec::names::node(name)));
        if self.agent.max_iterations == 0 {
            mistakes
                .push("`max_iterations` is 0, so the agent could not ask its model: set it to at least 1".to_owned());
        }
        if self.agent.max_repeats == 0 {
            mistakes.push("`max_repeats` is 0, so the agent could not call a tool: set it to at least 1".to_owned());
        }
        if self.agent.attempts == 0 {
            mistakes.push("`attempts` is 0, so the agent could not accept a reply: set it to at least 1".to_owned());
        }
        mistakes.extend(compaction_conflict(&self.agent.layers));
        mistakes.extend(self.search_mistake());
        let tools = self.agent.tools.iter().map(|tool| ("tool", tool.spec().name));
        let subagents = self.subagents.iter().map(|subagent| ("subagent", subagent.name.to_string()));
        let reserved =
            |what: &'static str, names: &'static [&str]| names.iter().map(move |name| (what, (*name).to_owned()));
        let kind = self.agent.kind;
        let mut known: Vec<(&str, String)> = reserved("built-in tool", kind.reserved_tools()).collect();
        known.extend(reserved("node of every agent", kind.reserved_nodes()));
        known.extend(self.agent.search.map(|_| ("built-in tool", SEARCH_TOOLS.to_owned())));
        if self.subagents.iter().any(Subagent::is_background) {
            known.extend(reserved("built-in tool", &BACKGROUND_TOOLS));
        }
        for (kind, name) in tools.chain(subagents) {
            mistakes.extend(hier_spec::names::callable(kind, &name));
            // A tool is not a node, and may therefore have the name of a node.
            let other =
                known.iter().find(|(what, other)| *other == name && (kind == "subagent" || !what.starts_with("node")));
            if let Some((what, _)) = other {
                mistakes.push(format!("the {kind} `{name}` has the name of a {what}: rename one"));
            }
            known.push((kind, name));
        }
        for subagent in self.subagents.iter().filter(|_| self.agent.parallel) {
            let name = &subagent.name;
            let Some(policy) = &subagent.policy else {
                mistakes.push(format!(
                    "the subagent `{name}` runs in parallel with others but has no policy: give each subagent a policy"
                ));
                continue;
            };
            let plain =
                |field: &&str| self.channels.iter().any(|spec| spec.name == **field && spec.kind.single_writer());
            mistakes.extend(policy.merged().filter(plain).map(|field| {
                format!(
                    "the channel `{field}`, which `{name}` merges, has no reducer, but several subagents may write it in one \
                     superstep: give the channel a reducer, or do not run the subagents in parallel"
                )
            }));
        }
        for stage in self.front.iter().chain(&self.back).filter(|stage| stage.asks_model) {
            mistakes.push(format!(
                "the stage `{}` asks a model, itself or in a nested graph, which front and back stages must not do: make it a subagent",
                stage.name
            ));
        }
        for stage in self.front.iter().chain(&self.back).filter(|stage| stage.is_background()) {
            mistakes.push(format!(
                "the stage `{}` has `background`, but stages run one after the other: remove it, or make it a subagent",
                stage.name
            ));
        }
        let outer: Vec<&str> = self.channels.iter().map(|channel| &*channel.name).collect();
        for stage in self.subagents.iter().chain(&self.front).chain(&self.back) {
            let inner: Vec<&str> = stage.channels.iter().map(|channel| &*channel.name).collect();
            let found = stage.policy.iter().flat_map(|policy| policy.mistakes(&outer, &inner));
            mistakes.extend(found.map(|mistake| format!("subagent `{}`: {mistake}", stage.name)));
        }
        mistakes.extend(self.leaks());
        mistakes
    }
}
