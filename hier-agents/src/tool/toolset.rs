//! Tools that are known only at run time, such as those of a server or a plugin.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use hier_spec::trust::TrustLabels;

use crate::model::ToolSpec;
use hier_checkpoint::message::{Content, ToolCall};
use hier_core::NodeError;
use hier_core::Run;

/// A set of tools that is listed at run time, such as the tools of an MCP server. A toolset is part of the context, and
/// an agent selects it with a closure: `tools: [|shop| &shop.till]`.
///
/// ```
/// use hier_agents::{ToolAnswer, ToolSpec, Toolset};
/// use hier_core::async_trait;
/// use hier_agents::prelude::*;
/// use hier_core::message::ToolCall;
/// use hier_testkit::ScriptedModel;
/// use serde_json::json;
///
/// /// The commands of a shop's till.
/// struct Till {
///     commands: Vec<&'static str>,
/// }
///
/// #[async_trait]
/// impl Toolset for Till {
///     fn name(&self) -> &str {
///         "till"
///     }
///
///     async fn tools(&self) -> hier_core::Result<Arc<[ToolSpec]>> {
///         let parameters = json!({"type": "object", "properties": {}});
///         let spec = |name: &&str| ToolSpec { name: name.to_string(), description: String::new(), parameters: parameters.clone() };
///         Ok(self.commands.iter().map(spec).collect())
///     }
///
///     async fn call(&self, call: &ToolCall, _: &Run) -> hier_core::Result<ToolAnswer> {
///         Ok(ToolAnswer::Content(format!("{}: done", call.name).into()))
///     }
/// }
///
/// struct Shop {
///     base: BaseContext,
///     till: Till,
/// }
/// # use std::sync::Arc;
/// # impl AsRef<BaseContext> for Shop {
/// #     fn as_ref(&self) -> &BaseContext {
/// #         &self.base
/// #     }
/// # }
///
/// graph! {
///     Clerk<BaseState, Shop> = Agent { tools: [|shop| &shop.till] }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let model = ScriptedModel::new([Message::call("open_drawer", json!({})), Message::assistant("It is open.")]);
/// let shop = Shop { base: BaseContext::new(model), till: Till { commands: vec!["open_drawer"] } };
/// let out = Clerk::compile().invoke(Message::user("Open it.")).context(shop).await?;
/// assert_eq!(out.state().messages.iter().nth(2).map(Message::text).as_deref(), Some("open_drawer: done"));
/// # Ok(())
/// # }
/// ```
///
/// * The agent lists the tools before each model request, and before each call of a tool of a toolset. A remote toolset
///   should therefore cache its list.
/// * If two tools or subagents of an agent have the same name, the run fails with an error that names both. Use
///   [`prefixed`](Self::prefixed) to avoid this.
/// * If the [`parameters`](ToolSpec::parameters) of a tool have changed since the model received them, the agent does
///   not make the call. The model receives the new parameters and can call the tool again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a toolset",
    label = "not a toolset",
    note = "a closure among `tools` chooses a `Toolset` of the context: `tools: [lookup, |desk| &desk.crm]`"
)]
#[async_trait]
pub trait Toolset: Send + Sync + 'static {
    /// Returns the name of the toolset, for errors.
    fn name(&self) -> &str;

    /// Returns the current tools. Models receive the tools in the returned order. Keep the order stable, so that
    /// providers can cache the prompt.
    async fn tools(&self) -> Result<Arc<[ToolSpec]>, NodeError>;

    /// Returns true if a person must approve every call of this tool. Defaults to false.
    fn needs_approval(&self, tool: &str) -> bool {
        let _ = tool;
        false
    }

    /// Returns the trust labels of a tool. Defaults to [`TrustLabels::UNTRUSTED`] with [`TrustLabels::SENDS`], because
    /// a tool of a server may return untrusted text, and its calls send data to the server. An agent can replace the
    /// labels: `tools: [|desk| &desk.crm { labels: [private] }]`.
    fn labels(&self, tool: &str) -> TrustLabels {
        let _ = tool;
        TOOLSET_LABELS
    }

    /// Calls a tool.
    ///
    /// To ask a question, call [`Run::interrupt`] and return its error. After the answer, the agent calls the tool
    /// again and [`Run::interrupt`] returns the answer. If the tool has side effects before the question, put them in a
    /// [`Run::step`], so that they do not happen twice.
    ///
    /// Cancel safety: hier drops the future if the run is cancelled.
    ///
    /// # Errors
    ///
    /// Fails if the tool fails. The agent's [`ToolErrors`](crate::ToolErrors) decides if the run then fails. If the
    /// model can correct its call, return [`ToolAnswer::Refused`] instead of an error.
    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError>;

    /// Adds a prefix to the names of the tools: with `crm_`, `lookup` becomes `crm_lookup`. The prefix may contain
    /// ASCII letters, digits, `_` and `-`.
    fn prefixed(self, prefix: impl Into<String>) -> Prefixed<Self>
    where
        Self: Sized,
    {
        Prefixed { prefix: prefix.into(), set: self }
    }
}

/// The default labels of the tools of a toolset.
pub(crate) const TOOLSET_LABELS: TrustLabels = TrustLabels::UNTRUSTED.with(TrustLabels::SENDS);

/// The result of a [`Toolset`] call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolAnswer {
    /// The result for the model.
    Content(Content),
    /// The reason why the call failed. The model receives this reason, even with
    /// [`ToolErrors::Raise`](crate::ToolErrors::Raise).
    Refused(String),
}

/// A [`Toolset`] whose tools have a prefix in their names. [`Toolset::prefixed`] creates it.
#[derive(Clone, Debug)]
pub struct Prefixed<T> {
    prefix: String,
    set: T,
}

impl<T> Prefixed<T> {
    /// Returns the toolset without the prefix.
    pub fn inner(&self) -> &T {
        &self.set
    }
}

#[async_trait]
impl<T: Toolset> Toolset for Prefixed<T> {
    fn name(&self) -> &str {
        self.set.name()
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>, NodeError> {
        let tools = self.set.tools().await?;
        let named = |spec: &ToolSpec| ToolSpec { name: format!("{}{}", self.prefix, spec.name), ..spec.clone() };
        Ok(tools.iter().map(named).collect())
    }

    fn needs_approval(&self, tool: &str) -> bool {
        tool.strip_prefix(&self.prefix).is_some_and(|tool| self.set.needs_approval(tool))
    }

    fn labels(&self, tool: &str) -> TrustLabels {
        tool.strip_prefix(&self.prefix).map_or(TOOLSET_LABELS, |tool| self.set.labels(tool))
    }

    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError> {
        let Some(name) = call.name.strip_prefix(&self.prefix) else {
            return Ok(ToolAnswer::Refused(format!("`{}` is not a tool of this set", call.name)));
        };
        self.set.call(&ToolCall { name: name.to_owned(), ..call.clone() }, run).await
    }
}

macro_rules! through {
    ($($pointer:ident),+) => {$(
        #[async_trait]
        impl<T: Toolset + ?Sized> Toolset for $pointer<T> {
            fn name(&self) -> &str {
                (**self).name()
            }

            async fn tools(&self) -> Result<Arc<[ToolSpec]>, NodeError> {
                (**self).tools().await
            }

            fn needs_approval(&self, tool: &str) -> bool {
                (**self).needs_approval(tool)
            }

            fn labels(&self, tool: &str) -> TrustLabels {
                (**self).labels(tool)
            }

            async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError> {
                (**self).call(call, run).await
            }
        }
    )+};
}

through!(Arc, Box);

impl fmt::Debug for dyn Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolset").field("name", &self.name()).finish_non_exhaustive()
    }
}
