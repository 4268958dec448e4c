//! Layers around the calls of models and tools.
//!
//! A layer is given a call and what comes [`next`](NextModel): it may change the call, pass it on (once, several times or not at
//! all), and change what comes back. Those of an agent are listed with it, the outermost first:
//!
//! ```
//! use hier_agents::prelude::*;
//! use hier_agents::layer::{Limit, Redact};
//! use hier_agents::layer::Emails;
//!
//! graph! {
//!     Support<BaseState> = Agent {
//!         system: "You answer customers.",
//!         layers: [Limit { model_calls: 50 }, Redact(Emails)],
//!     }
//! }
//! # let _ = Support::compile();
//! ```
//!
//! # Order
//!
//! A call goes through the layers that were [inherited](Inherited) from the agents around, the outermost agent's first, then through
//! the agent's own, in the order of the list; what comes back goes the other way. Before a tool is called, all layers are asked whether
//! it may be ([`Layer::check`]), in the same order; then a person, if the tool needs approval; the layers once more, if the person
//! changed the arguments; then the call is made, through the layers again ([`Layer::tool_call`]).
//!
//! [`Redact`] is an exception: it redacts before the first layer and after the last one, where the model and the tool are called. It also
//! redacts what other layers write.
//!
//! # Pieces
//!
//! A layer sees a call in the same way whether somebody listens or not: [`NextModel::call`] returns the whole answer. The pieces go out
//! to [`StreamMode::Messages`](hier_core::StreamMode::Messages) meanwhile, through the [`Pieces`] that layers gave the call on its way in.
//! The last piece, the whole answer, goes out when all layers have seen it. An answer of which no piece went out, because a layer gave
//! it itself, goes out in pieces then.
//!
//! # What runs again
//!
//! A layer runs with the task that makes the call: asking a model is one task, each call of a tool another. What is committed never runs
//! again. A task that stops at a question is begun again with the answer: of a call that needs approval `check` runs again, before the
//! same question, and `tool_call` runs for the first time; where the tool asks itself, `tool_call` begins again with it. A task that
//! was cut off by a crash begins again, too. A layer that does something outside uses [`Run::step`](hier_core::Run::step) or
//! [`Run::idempotency_key`](hier_core::Run::idempotency_key), as a node does. What a layer writes into the state is stored together with
//! what the call led to, or not at all.

mod call;
mod chain;
mod compact;
mod emulate;
mod fallback;
mod guard;
mod heirs;
mod inherited;
mod limit;
mod listed;
mod pieces;
mod redact;
mod retry;
mod tool;

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::state::base::BaseState;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::state::Values;

pub use crate::redaction::{CardNumbers, Emails, Find, IpAddresses, Texts};
pub use call::{CallSite, ModelCall, ModelReply, Reply};
pub use chain::NextModel;
pub use emulate::Emulate;
pub use fallback::Fallback;
pub use guard::Guard;
pub use inherited::Inherited;
pub use limit::Limit;
pub use pieces::Pieces;
pub use redact::Redact;
pub use tool::{NextTool, Said, ToolReply, ToolUse};

pub(crate) use call::{Offer, Voice};
pub(crate) use chain::ModelEnd;
pub(crate) use heirs::{Above, Heirs, Lens, around_model, around_tool, check, site};
pub(crate) use listed::{Listed, mistake as mistake_of, united};
pub(crate) use pieces::Line;
pub(crate) use redact::{Held, redactor};
pub(crate) use tool::ToolEnd;

/// Something around the calls of models and tools of agents over `S` with the context `C`. Written with
/// [`async_trait`](hier_core::async_trait); each method passes the call on unless it is given.
///
/// ```
/// use hier_agents::layer::{ModelCall, ModelReply, NextModel};
/// use hier_core::async_trait;
/// use hier_agents::prelude::*;
/// use hier_agents::layer::Layer;
/// use hier_testkit::ScriptedModel;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Chat {
///     #[state(flatten)]
///     base: BaseState,
///     mood: String,
///     #[reducer(sum)]
///     words: u64,
/// }
///
/// /// Tells the model how to speak, and counts its words.
/// struct Tone {
///     tone: &'static str,
/// }
///
/// #[async_trait]
/// impl Layer<Chat, BaseContext> for Tone {
///     async fn model_call(
///         &self,
///         mut call: ModelCall<'_, Chat, BaseContext>,
///         next: NextModel<'_, Chat, BaseContext>,
///     ) -> hier_core::Result<ModelReply<Chat>> {
///         let told = format!("Be {}. The customer is {}.", self.tone, call.state().mood);
///         call.request.messages = [Message::system(told)].into_iter().chain(call.request.messages.iter().cloned()).collect();
///         let reply = next.call(call).await?;
///         let words = reply.text().map_or(0, |text| text.split_whitespace().count());
///         Ok(reply.write(Chat::update().words(words as u64)))
///     }
/// }
///
/// graph! {
///     Support<Chat> = Agent { layers: [Tone { tone: "brief" }] }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let model = ScriptedModel::new([Message::assistant("It is on its way.")]);
/// let asked = Chat::update().mood("angry").messages(Message::user("Where is my parcel?"));
/// let out = Support::compile().invoke(asked).context(BaseContext::new(model.clone())).await?;
/// assert_eq!(out.state().words, 5);
/// assert_eq!(model.requests()[0].messages.get(0).unwrap().text(), "Be brief. The customer is angry.");
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no layer of agents over `{S}` with the context `{C}`",
    label = "no layer of agents over `{S}` with the context `{C}`",
    note = "a layer implements `Layer<{S}, {C}>`: `hier::agent::layer` has the ready ones; one that is for another context cannot be listed here"
)]
#[async_trait]
pub trait Layer<S: Values, C>: Send + Sync + 'static {
    /// The layer's name, for errors and drawings: that of its type, unless given.
    fn name(&self) -> Cow<'static, str> {
        short(std::any::type_name::<Self>())
    }

    /// The layer as the agents below have it, and the nodes that ask a model in graphs below; none: they do not. It sees the
    /// [`BaseState`] of whoever makes the call, and the context of the agent that lists the layer. [`Inherited`] does this for any
    /// layer.
    fn inherited(&self) -> Option<Arc<dyn Layer<BaseState, C>>> {
        None
    }

    /// What is wrong with how the layer was made, if something is: [`AgentBuilder`](crate::AgentBuilder) refuses it.
    fn mistake(&self) -> Option<String> {
        None
    }

    /// Whether the layer says which part of the conversation is sent, as [`Compact`](crate::Compact) does. Of several that a
    /// call goes through the innermost does so, and those around it, such as inherited ones, let the call pass:
    /// [`NextModel::compacts`].
    fn compacts(&self) -> bool {
        false
    }

    /// The layer as one that redacts: these are around all others, wherever they stand in the list.
    #[doc(hidden)]
    fn redacts(&self) -> Option<&Redact> {
        None
    }

    /// Around a call of a model.
    async fn model_call(&self, call: ModelCall<'_, S, C>, next: NextModel<'_, S, C>) -> Result<ModelReply<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        next.call(call).await
    }

    /// Decides whether a tool may be called. It runs before a person is asked for approval. If the person changes the arguments, it runs
    /// again with the new arguments, and no second approval is requested. It may run several times for one call, and must have no side
    /// effects.
    ///
    /// Calls of subagents and of built-in tools (`read_earlier`, `report_to_supervisor`, `todo_write`, …) are not tool calls: neither
    /// this nor [`tool_call`](Self::tool_call) sees them.
    async fn check(&self, call: &ToolCall, site: CallSite<'_, S, C>) -> Result<Verdict, NodeError>
    where
        C: Send + Sync + 'static,
    {
        let _ = (call, site);
        Ok(Verdict::Allow)
    }

    /// Around a call of a tool, which nothing is in the way of any more.
    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        next.call(call).await
    }
}

/// Whether a tool may be called.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not: the model is told why.
    Deny(String),
    /// It may, with these arguments.
    Revise(Value),
}

/// The last part of a type's path, without its parameters.
fn short(name: &'static str) -> Cow<'static, str> {
    let name = name.split('<').next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or_default().into()
}
