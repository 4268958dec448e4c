//! The toolsets of an agent or of a node `tools![…]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::future::BoxFuture;
use hier_spec::trust::{ToolTrust, TrustLabels};
use serde_json::Value;

use super::approval::{ApprovalMode, ApprovalRule};
use super::toolset::{TOOLSET_LABELS, ToolAnswer, Toolset};
use super::{Tool, ToolOutput};
use crate::model::ToolSpec;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::graph::Task;
use hier_core::state::Values;

pub(crate) type ChooseToolset<C> = Arc<dyn for<'a> Fn(&'a C) -> &'a (dyn Toolset + 'static) + Send + Sync>;

/// Wraps the function that selects a toolset in the context. Code that `graph!` generates calls this function.
#[doc(hidden)]
pub fn toolset_of<C, T: Toolset>(choose: impl for<'a> Fn(&'a C) -> &'a T + Send + Sync + 'static) -> ToolsetOf<C> {
    ToolsetOf { choose: Arc::new(move |context| choose(context)), options: ToolsetOptions::new() }
}

/// A function that selects a toolset in the context, and the options that an agent sets for this toolset.
#[doc(hidden)]
pub struct ToolsetOf<C> {
    choose: ChooseToolset<C>,
    options: ToolsetOptions<C>,
}

impl<C> Clone for ToolsetOf<C> {
    fn clone(&self) -> Self {
        Self { choose: self.choose.clone(), options: self.options.clone() }
    }
}

impl<C> ToolsetOf<C> {
    /// Sets the options of the toolset.
    #[must_use]
    pub fn with(self, options: ToolsetOptions<C>) -> Self {
        Self { options, ..self }
    }

    pub(crate) fn trust(&self) -> ToolTrust {
        self.options.trust()
    }
}

/// Options of a [`Toolset`] in the list of an agent's tools. In `graph!`, write `|desk| &desk.crm { labels: [private],
/// approve: tainted }`.
#[must_use = "options do nothing until they are given to a toolset"]
pub struct ToolsetOptions<C> {
    labels: Option<TrustLabels>,
    rule: ApprovalRule<C>,
}

impl<C> Clone for ToolsetOptions<C> {
    fn clone(&self) -> Self {
        Self { labels: self.labels, rule: self.rule.clone() }
    }
}

impl<C> Default for ToolsetOptions<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> std::fmt::Debug for ToolsetOptions<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolsetOptions").field("labels", &self.labels).field("rule", &self.rule).finish()
    }
}

impl<C> ToolsetOptions<C> {
    /// Creates options that change neither the toolset's own labels nor its approvals.
    pub fn new() -> Self {
        Self { labels: None, rule: ApprovalRule::default() }
    }

    /// Sets the trust labels of all tools in the set. These labels replace those that [`Toolset::labels`] returns.
    pub fn labels(self, labels: TrustLabels) -> Self {
        Self { labels: Some(labels), ..self }
    }

    /// Sets a rule that decides which calls need approval. Calls of a tool for which [`Toolset::needs_approval`]
    /// returns true always need approval.
    pub fn approve(self, rule: ApprovalRule<C>) -> Self {
        Self { rule, ..self }
    }
}

impl<C> ToolsetOptions<C> {
    fn trust(&self) -> ToolTrust {
        ToolTrust::new(self.labels.unwrap_or(TOOLSET_LABELS), self.rule.is_set())
    }
}

pub(crate) struct Toolsets<C>(pub(crate) Vec<ToolsetOf<C>>);

/// Lists a toolset. Invalid names, and names that are already known, are errors.
pub(crate) async fn list_toolset(
    set: &dyn Toolset,
    known: &mut BTreeMap<String, String>,
) -> Result<Arc<[ToolSpec]>, NodeError> {
    let specs = set.tools().await?;
    for spec in specs.iter() {
        if let Some(mistake) = hier_spec::names::callable("tool", &spec.name) {
            return Err(NodeError::permanent(format!("the toolset `{}`: {mistake}", set.name())));
        }
        let what = format!("the tool `{}` of the toolset `{}`", spec.name, set.name());
        if let Some(other) = known.insert(spec.name.clone(), what.clone()) {
            return Err(NodeError::permanent(format!(
                "{what} has the name of {other}: give the toolset a prefix, `Toolset::prefixed`, or rename one"
            )));
        }
    }
    Ok(specs)
}

/// The tools of the toolsets at the time when they were listed.
pub(crate) struct ToolCatalogue<C> {
    tools: Vec<(ToolsetOf<C>, ToolSpec)>,
}

impl<C> Toolsets<C> {
    /// Returns the labels of a tool that no toolset lists any more: the labels of all toolsets.
    pub(crate) fn labels(&self) -> TrustLabels {
        self.0.iter().fold(TOOLSET_LABELS, |labels, set| labels.with(set.trust().labels))
    }
}

impl<C: Send + Sync + 'static> Toolsets<C> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lists the toolsets. `known` maps the names that are already used to descriptions of their owners.
    pub(crate) async fn list(
        &self,
        context: &C,
        mut known: BTreeMap<String, String>,
    ) -> Result<ToolCatalogue<C>, NodeError> {
        let mut tools = Vec::new();
        for set in &self.0 {
            let listed = list_toolset((set.choose)(context), &mut known).await?;
            for spec in &*listed {
                tools.push((set.clone(), spec.clone()));
            }
        }
        Ok(ToolCatalogue { tools })
    }
}

impl<C: Send + Sync + 'static> ToolCatalogue<C> {
    pub(crate) fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|(_, spec)| spec)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.specs().map(|spec| spec.name.clone()).collect()
    }

    pub(crate) fn fingerprints(&self, calls: &[ToolCall]) -> BTreeMap<String, String> {
        let called = |spec: &&ToolSpec| calls.iter().any(|call| call.name == spec.name);
        self.specs().filter(called).map(|spec| (spec.name.clone(), fingerprint(&spec.parameters))).collect()
    }

    /// Returns the tool of this name. `sent` is the fingerprint of the tool as it was sent to the model, if known.
    pub(crate) fn find(&self, name: &str, sent: Option<&String>, context: &C) -> Option<ToolsetTool<C>> {
        let (toolset, spec) = self.tools.iter().find(|(_, spec)| spec.name == name)?.clone();
        let ToolsetOf { choose, options } = toolset;
        let is_changed = sent.map(|sent| *sent != fingerprint(&spec.parameters));
        let needs_approval = choose(context).needs_approval(name);
        let labels = options.labels.unwrap_or_else(|| choose(context).labels(name));
        Some(ToolsetTool { choose, spec, needs_approval, labels, rule: options.rule, is_changed })
    }
}

/// Returns a hash of the parameters that does not depend on the order of fields.
fn fingerprint(parameters: &Value) -> String {
    hier_core::internals::hash(parameters).unwrap_or_default()
}

pub(crate) struct ToolsetTool<C> {
    choose: ChooseToolset<C>,
    spec: ToolSpec,
    needs_approval: bool,
    labels: TrustLabels,
    rule: ApprovalRule<C>,
    /// True if the tool's parameters differ from the parameters that the model received. `None` if it is not known
    /// which parameters the model received.
    is_changed: Option<bool>,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Tool<S, C> for ToolsetTool<C> {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    fn labels(&self) -> TrustLabels {
        self.labels
    }

    fn approval(&self) -> ApprovalMode {
        if self.needs_approval { ApprovalMode::Always } else { self.rule.mode() }
    }

    fn must_approve<'a>(
        &'a self,
        call: &'a ToolCall,
        task: &'a Task<S, C>,
        labels: TrustLabels,
    ) -> BoxFuture<'a, Result<bool, NodeError>> {
        Box::pin(self.rule.asks(call, task.run().context(), labels))
    }

    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError> {
        if let Some(is_changed) = self.is_changed {
            // A recorded check stays valid, so that a call that waits for an answer survives a new list.
            let mut refused = false;
            let same = async {
                refused = is_changed;
                if refused { Err(NodeError::permanent("the parameters of the tool have changed")) } else { Ok(true) }
            };
            let checked = task.run().step_of(&format!("toolset {}", call.name), &call.id, same).await;
            if refused {
                return Ok(ToolOutput::Invalid(format!(
                    "not called: `{}` now takes other arguments. Call it again with these: {}",
                    call.name, self.spec.parameters
                )));
            }
            checked?;
        }
        let run = task.run().narrowed(|_| ());
        Ok(match (self.choose)(task.run().context()).call(call, &run).await? {
            ToolAnswer::Content(content) => ToolOutput::Content(content),
            ToolAnswer::Refused(why) => ToolOutput::Invalid(why),
        })
    }
}
