//! The toolsets of an agent or of a node `tools![…]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::model::ToolSpec;
use super::tool::set::{ToolAnswer, Toolset};
use super::tool::{Tool, ToolOutput};
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::graph::Task;
use hier_core::state::Values;

pub(super) type ChooseToolset<C> = Arc<dyn for<'a> Fn(&'a C) -> &'a (dyn Toolset + 'static) + Send + Sync>;

/// Wraps the choice of a toolset. Used by the macro.
#[doc(hidden)]
pub fn toolset_of<C, T: Toolset>(choose: impl for<'a> Fn(&'a C) -> &'a T + Send + Sync + 'static) -> ToolsetOf<C> {
    ToolsetOf(Arc::new(move |context| choose(context)))
}

/// The choice of a toolset of the context.
#[doc(hidden)]
pub struct ToolsetOf<C>(pub(super) ChooseToolset<C>);

pub(super) struct Toolsets<C>(pub(super) Vec<ChooseToolset<C>>);

/// Lists a toolset. Invalid names, and names that are already known, are errors.
pub(super) async fn listed(
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
pub(super) struct Catalogue<C> {
    tools: Vec<(ChooseToolset<C>, ToolSpec)>,
}

impl<C: Send + Sync + 'static> Toolsets<C> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lists the toolsets. `known` maps the names that are already used to descriptions of their owners.
    pub(super) async fn list<'n>(
        &self,
        context: &C,
        known: impl Iterator<Item = (&'n str, String)>,
    ) -> Result<Catalogue<C>, NodeError> {
        let mut known: BTreeMap<String, String> = known.map(|(name, what)| (name.to_owned(), what)).collect();
        let mut tools = Vec::new();
        for choose in &self.0 {
            let listed = listed(choose(context), &mut known).await?;
            tools.extend(listed.iter().map(|spec| (choose.clone(), spec.clone())));
        }
        Ok(Catalogue { tools })
    }
}

impl<C: Send + Sync + 'static> Catalogue<C> {
    pub(super) fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|(_, spec)| spec)
    }

    /// Returns the fingerprints of the tools that these calls call.
    pub(super) fn fingerprints(&self, calls: &[ToolCall]) -> BTreeMap<String, String> {
        let called = |spec: &&ToolSpec| calls.iter().any(|call| call.name == spec.name);
        self.specs().filter(called).map(|spec| (spec.name.clone(), fingerprint(&spec.parameters))).collect()
    }

    /// Returns the tool of this name. `told` is the fingerprint of the tool as it was sent to the model, if known.
    pub(super) fn find(self, name: &str, told: Option<&String>) -> Option<Listed<C>> {
        let (choose, spec) = self.tools.into_iter().find(|(_, spec)| spec.name == name)?;
        let is_changed = told.map(|told| *told != fingerprint(&spec.parameters));
        Some(Listed { choose, spec, is_changed })
    }
}

/// Returns a hash of the parameters that does not depend on the order of fields.
fn fingerprint(parameters: &Value) -> String {
    hier_core::internals::hash(parameters).unwrap_or_default()
}

/// A tool of a toolset.
pub(super) struct Listed<C> {
    choose: ChooseToolset<C>,
    spec: ToolSpec,
    /// True if its parameters differ from those that the model received, none if they are unknown.
    is_changed: Option<bool>,
}

impl<C> Listed<C> {
    fn set<'a>(&self, context: &'a C) -> &'a (dyn Toolset + 'static) {
        (self.choose)(context)
    }

    pub(super) fn within(self, context: &C) -> ListedTool<C> {
        let needs_approval = self.set(context).needs_approval(&self.spec.name);
        ListedTool { listed: self, needs_approval }
    }
}

pub(super) struct ListedTool<C> {
    listed: Listed<C>,
    needs_approval: bool,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Tool<S, C> for ListedTool<C> {
    fn spec(&self) -> ToolSpec {
        self.listed.spec.clone()
    }

    fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError> {
        let Listed { spec, is_changed, .. } = &self.listed;
        if let Some(is_changed) = *is_changed {
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
                    call.name, spec.parameters
                )));
            }
            checked?;
        }
        let run = task.run().narrowed(|_| ());
        Ok(match self.listed.set(task.run().context()).call(call, &run).await? {
            ToolAnswer::Content(content) => ToolOutput::Content(content),
            ToolAnswer::Refused(why) => ToolOutput::Invalid(why),
        })
    }
}
