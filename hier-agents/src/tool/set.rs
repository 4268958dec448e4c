//! Tools that are known at run time only: those of a server, of a registry, of a plugin.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::model::ToolSpec;
use hier_checkpoint::message::{Content, ToolCall};
use hier_core::NodeError;
use hier_core::Run;

/// Tools that are listed at run time: a connection to an MCP server, or whatever else knows its tools only then. It lives in
/// the context, and an agent has it by a closure among its `tools:`.
///
/// The agent lists the tools each time before it asks its model, so a set that has to ask somebody keeps its list for a
/// while. A tool whose name another tool or subagent of the agent has is an error that names both; [`prefixed`](Self::prefixed)
/// sets them apart. A call is made only if its tool takes the arguments that the model was told of: where the
/// [`parameters`](ToolSpec::parameters) have changed since, the model is told so and can call it again.
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
    message = "`{Self}` is no set of tools",
    label = "no set of tools",
    note = "a closure among `tools` chooses a `Toolset` of the context: `tools: [lookup, |desk| &desk.crm]`"
)]
#[async_trait]
pub trait Toolset: Send + Sync + 'static {
    /// What it is called in errors.
    fn name(&self) -> &str;

    /// The tools that there are now, in an order that does not change from call to call: models are told in this order.
    async fn tools(&self) -> Result<Arc<[ToolSpec]>, NodeError>;

    /// Whether a person must approve each call of this tool before it is made.
    fn needs_approval(&self, tool: &str) -> bool {
        let _ = tool;
        false
    }

    /// Calls one of its tools. Where the call has to ask somebody it returns the error of [`Run::interrupt`]; it is then called
    /// again with the answer, and what it did before must be a step ([`Run::step`]). An error is a failure of the set's, and is
    /// handled as one of any tool ([`ToolErrors`](crate::ToolErrors)); what the model can mend is [`ToolAnswer::Refused`].
    ///
    /// Cancel safety: it is dropped where the run is cancelled.
    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError>;

    /// The same tools under names that begin with this: `crm_` makes `crm_lookup` of `lookup`. Letters, digits, `_` and `-`.
    fn prefixed(self, prefix: impl Into<String>) -> Prefixed<Self>
    where
        Self: Sized,
    {
        Prefixed { prefix: prefix.into(), set: self }
    }
}

/// What a tool of a [`Toolset`] answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolAnswer {
    /// The result.
    Content(Content),
    /// The tool did not do it, and why: the model is told that the call failed, whatever the error policy.
    Refused(String),
}

/// A [`Toolset`] whose tools have other names: [`Toolset::prefixed`].
#[derive(Clone, Debug)]
pub struct Prefixed<T> {
    prefix: String,
    set: T,
}

impl<T> Prefixed<T> {
    /// The set itself.
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

    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError> {
        let Some(name) = call.name.strip_prefix(&self.prefix) else {
            return Ok(ToolAnswer::Refused(format!("`{}` is none of its tools", call.name)));
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
