//! Tools that are known only at run time, such as those of a server or a plugin.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use hier_spec::trust::TrustLabels;

use crate::model::ToolSpec;
use hier_checkpoint::message::{Content, ToolCall};
use hier_core::NodeError;
use hier_core::Run;

/// A set of tools that is listed at run time, for example those of an MCP server. It is a part of the context, and an
/// agent selects it with a closure in its `tools:`.
///
/// The agent lists the tools before each request to its model, so a remote set should cache its list. If two tools or
/// subagents of an agent have the same name, the run fails with an error that names both; [`prefixed`](Self::prefixed)
/// avoids this. A call is made only if the tool still takes the arguments that were sent to the model. If its
/// [`parameters`](ToolSpec::parameters) have changed, the model receives the new ones and can call it again.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a toolset",
    label = "not a toolset",
    note = "a closure among `tools` chooses a `Toolset` of the context: `tools: [lookup, |desk| &desk.crm]`"
)]
#[async_trait]
pub trait Toolset: Send + Sync + 'static {
    /// Returns the name for errors.
    fn name(&self) -> &str;

    /// Returns the current tools, in a stable order. Models receive them in this order.
    async fn tools(&self) -> Result<Arc<[ToolSpec]>, NodeError>;

    /// Returns true if a person must approve each call of this tool.
    fn needs_approval(&self, tool: &str) -> bool {
        let _ = tool;
        false
    }

    /// Returns what this tool reads, and whether it sends. Defaults to untrusted text and sending, because the tools of
    /// a server can do both. An agent can declare other labels: `tools: [|desk| &desk.crm { labels: [private] }]`.
    fn labels(&self, tool: &str) -> TrustLabels {
        let _ = tool;
        TOOLSET_LABELS
    }

    /// Calls a tool. To ask a question, it returns the error of [`Run::interrupt`] and is called again with the answer;
    /// earlier side effects must be in a [`Run::step`]. An error is handled as the failure of any tool
    /// ([`ToolErrors`](crate::ToolErrors)). Errors that the model can fix are [`ToolAnswer::Refused`].
    ///
    /// Cancel safety: the future is dropped if the run is cancelled.
    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError>;

    /// Prefixes the names of the tools: with `crm_`, `lookup` becomes `crm_lookup`. The prefix may contain ASCII
    /// letters, digits, `_` and `-`.
    fn prefixed(self, prefix: impl Into<String>) -> Prefixed<Self>
    where
        Self: Sized,
    {
        Prefixed { prefix: prefix.into(), set: self }
    }
}

/// The default labels of the tools of a toolset.
pub(crate) const TOOLSET_LABELS: TrustLabels = TrustLabels::UNTRUSTED.with(TrustLabels::SENDS);

/// The result of a call of a [`Toolset`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolAnswer {
    /// The result.
    Content(Content),
    /// The reason why the call failed. The model receives it, whatever the error policy.
    Refused(String),
}

/// A [`Toolset`] with prefixed names: see [`Toolset::prefixed`].
#[derive(Clone, Debug)]
pub struct Prefixed<T> {
    prefix: String,
    set: T,
}

impl<T> Prefixed<T> {
    /// Returns the set without the prefix.
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
