//! The toolsets of an agent or of a node `tools![…]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::toolset::{ToolAnswer, Toolset};
use super::{Tool, ToolOutput};
use crate::model::ToolSpec;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::graph::Task;
use hier_core::state::Values;

pub(crate) type ChooseToolset<C> = Arc<dyn for<'a> Fn(&'a C) -> &'a (dyn Toolset + 'static) + Send + Sync>;

/// Wraps the choice of a toolset. Used by the macro.
#[doc(hidden)]
pub fn toolset_of<C, T: Toolset>(choose: impl for<'a> Fn(&'a C) -> &'a T + Send + Sync + 'static) -> ToolsetOf<C> {
    ToolsetOf(Arc::new(move |context| choose(context)))
}

/// The choice of a toolset of the context.
#[doc(hidden)]
pub struct ToolsetOf<C>(pub(crate) ChooseToolset<C>);

pub(crate) struct Toolsets<C>(pub(crate) Vec<ChooseToolset<C>>);

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
    tools: Vec<(ChooseToolset<C>, ToolSpec)>,
}

impl<C: Send + Sync + 'static> Toolsets<C> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lists the toolsets. `known` maps the names that are already used to descriptions of their owners.
    pub(crate) async fn list<'n>(
        &self,
        context: &C,
        known: impl Iterator<Item = (&'n str, String)>,
    ) -> Result<ToolCatalogue<C>, NodeError> {
        let mut known: BTreeMap<String, String> = known.map(|(name, what)| (name.to_owned(), what)).collect();
        let mut tools = Vec::new();
        for choose in &self.0 {
            let listed = list_toolset(choose(context), &mut known).await?;
            tools.extend(listed.iter().map(|spec| (choose.clone(), spec.clone())));
        }
        Ok(ToolCatalogue { tools })
    }
}

impl<C: Send + Sync + 'static> ToolCatalogue<C> {
    pub(crate) fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|(_, spec)| spec)
    }

    /// Returns the fingerprints of the tools that these calls call.
    pub(crate) fn fingerprints(&self, calls: &[ToolCall]) -> BTreeMap<String, String> {
        let called = |spec: &&ToolSpec| calls.iter().any(|call| call.name == spec.name);
        self.specs().filter(called).map(|spec| (spec.name.clone(), fingerprint(&spec.parameters))).collect()
    }

    /// Returns the tool of this name. `sent` is the fingerprint of the tool as it was sent to the model, if known.
    pub(crate) fn find(self, name: &str, sent: Option<&String>, context: &C) -> Option<ToolsetTool<C>> {
        let (choose, spec) = self.tools.into_iter().find(|(_, spec)| spec.name == name)?;
        let is_changed = sent.map(|sent| *sent != fingerprint(&spec.parameters));
        let needs_approval = choose(context).needs_approval(name);
        Some(ToolsetTool { choose, spec, needs_approval, is_changed })
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
    /// True if its parameters differ from those that the model received, none if they are unknown.
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
