//! The trust of agents that are built at run time.

use std::sync::Arc;

use hier_spec::trust::{GraphTrust, ToolTrust, TrustLabels, TrustSource, leak_message, leaks};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builder::AgentBuilder;
use crate::react::{AnswerChannel, TypedAnswer};
use crate::state::labels::ConversationLabels;
use crate::text_free::TextFree;
use crate::tool::approval::ApprovalMode;
use crate::tool::catalogue::{ToolsetOptions, toolset_of};
use crate::tool::toolset::Toolset;
use hier_core::graph::Parts;
use hier_core::state::{Contains, Values, Writes};

/// Returns `parts`, changed so that the graph labels its conversation as untrusted with each new input. Has no effect
/// if the state does not record labels. Code that `graph!` generates calls this function.
#[doc(hidden)]
pub fn untrusted_input<S: Values, C>(parts: Parts<S, C>) -> Parts<S, C> {
    let labels = ConversationLabels::new(TrustLabels::UNTRUSTED);
    parts.mark_input(Arc::new(move |state: &S, _, input: Writes<S>| {
        labels.added_to(state).into_iter().chain(input).collect::<Writes<S>>()
    }))
}

/// The declarations of an agent about its messages, and the risk that it accepts.
#[derive(Default)]
pub(super) struct TrustDeclarations {
    pub(super) is_input_untrusted: bool,
    allowed: Option<String>,
}

impl<S: Values, C: Send + Sync + 'static> AgentBuilder<S, C> {
    /// Adds the tools of the [`Toolset`] that `choose` selects in the context. `options` sets the labels of the tools
    /// and the rule for approval: `.toolset_with(|desk| &desk.crm,
    /// ToolsetOptions::new().labels(TrustLabels::PRIVATE))`.
    pub fn toolset_with<T: Toolset>(
        mut self,
        choose: impl for<'a> Fn(&'a C) -> &'a T + Send + Sync + 'static,
        options: ToolsetOptions<C>,
    ) -> Self {
        self.agent.toolsets.0.push(toolset_of(choose).with(options));
        self
    }

    /// Declares that the input messages are untrusted, because strangers may have written them. In `graph!`, write
    /// `input: untrusted`.
    pub fn untrusted_input(mut self) -> Self {
        self.declared.is_input_untrusted = true;
        self
    }

    /// Allows an agent that reads private data, reads untrusted text, and sends data without approval. Without this
    /// declaration, [`compile`](Self::compile) rejects such an agent. hier does not use `reason`, which is a note for
    /// readers of the code. In `graph!`, write `allow: trifecta("…")`.
    pub fn allow_trifecta(mut self, reason: impl Into<String>) -> Self {
        self.declared.allowed = Some(reason.into());
        self
    }

    /// Sets the channel for the typed answer, as [`answer`](Self::answer) does. The type of the channel must be
    /// text-free. With such an answer, a subagent cannot pass untrusted text to its supervisor.
    ///
    /// After the agent has read untrusted text, it can return a result only with this answer. If one of its nodes or
    /// tools returns a [`Command::parent`](hier_core::graph::Command::parent) instead, the run fails.
    pub fn text_free_answer<K: AnswerChannel<Value: TextFree + Serialize>>(self, channel: &'static K) -> Self
    where
        S: Contains<K::State>,
    {
        self.answer(channel).sealed_answer::<K::Value>()
    }

    /// Marks the answer as text-free.
    pub(super) fn sealed_answer<T: JsonSchema + DeserializeOwned + Serialize>(mut self) -> Self {
        self.agent.answer = self.agent.answer.take().map(TypedAnswer::text_free::<T>);
        self
    }

    /// Returns the tools, toolsets, members and inputs of the agent with their trust. `names` contains the names of the
    /// tools.
    fn sources<'a>(&'a self, names: &'a [String]) -> Vec<TrustSource<'a>> {
        let tools = self.agent.tools.iter().zip(names).map(|(tool, name)| {
            let is_approved = tool.approval() != ApprovalMode::Never;
            TrustSource::tool(name, ToolTrust::new(tool.labels(), is_approved))
        });
        let sets = self.agent.toolsets.0.iter().map(|set| TrustSource::tool("a toolset", set.trust()));
        let members = self.subagents.iter().chain(&self.front).chain(&self.back).map(|member| member.trust_source());
        let input = self.declared.is_input_untrusted.then(TrustSource::input);
        tools.chain(sets).chain(members).chain(input).collect()
    }

    /// Returns an error for each part of the agent that could leak private data. If the builder allows the leak, only a
    /// missing reason is an error.
    pub(super) fn leaks(&self) -> Vec<String> {
        if self.declared.allowed.is_some() {
            let has_reason = self.declared.allowed.as_ref().is_some_and(|reason| !reason.trim().is_empty());
            let missing = "`allow_trifecta` needs a reason: write why the agent cannot leak";
            return if has_reason { Vec::new() } else { vec![missing.to_owned()] };
        }
        let names: Vec<String> = self.agent.tools.iter().map(|tool| tool.spec().name).collect();
        let sources = self.sources(&names);
        let places = (0..sources.len()).filter(|place| leaks(&sources, *place));
        places.map(|place| leak_message(&sources, place).as_str().to_owned()).collect()
    }

    /// Returns the trust of the agent for its supervisors.
    pub(super) fn trust(&self) -> GraphTrust {
        let names: Vec<String> = self.agent.tools.iter().map(|tool| tool.spec().name).collect();
        let is_text_free = self.back.is_empty() && self.agent.answer.as_ref().is_some_and(TypedAnswer::is_text_free);
        GraphTrust::of(&self.sources(&names), self.declared.allowed.is_some(), is_text_free)
    }
}
