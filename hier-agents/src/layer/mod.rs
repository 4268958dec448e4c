//! Layers around the calls of models and tools.
//!
//! A layer receives a call and the [`next`](NextModel) layers. It may change the call, pass it on any number of times,
//! and change the reply. An agent lists its layers, the outermost first:
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
//! A call passes through the layers [inherited](Inherited) from the agents around, the outermost agent's first, and
//! then through the agent's own layers in the order of the list. The reply passes back in the opposite order. A tool
//! call goes through these steps:
//! 1. [`Layer::check`] of all layers, in the same order.
//! 2. Approval by the operator, if the tool needs it.
//! 3. [`Layer::check`] again, if the operator changed the arguments.
//! 4. The call itself, through [`Layer::tool_call`] of all layers.
//!
//! [`Redact`] is an exception: it redacts before the first layer and after the last one, where the model and the tool
//! are called. It also redacts what other layers write.
//!
//! # Streaming
//!
//! A layer sees the same call with and without a client that streams: [`NextModel::call`] returns the whole answer.
//! Meanwhile, chunks are sent to [`StreamMode::Messages`](hier_core::StreamMode::Messages), through the [`ChunkFilter`]
//! that the layers added to the call. The last chunk, the whole answer, is sent after all layers have seen it. If a
//! layer answers without the model, its answer is sent in chunks at the end.
//!
//! # Repeated execution
//!
//! A layer runs in the task that makes the call. A request to a model is one task, and each tool call is another.
//! Committed work never runs again. A task that stops at a question starts again with the answer:
//! * If a call needs approval, `check` runs again before the same question, and `tool_call` runs for the first time.
//! * If the tool itself asks, `tool_call` starts again.
//!
//! A task that was cut off by a crash also starts again. A layer with external side effects uses
//! [`Run::step`](hier_core::Run::step) or [`Run::idempotency_key`](hier_core::Run::idempotency_key), as a node does.
//! The writes of a layer are stored together with the results of the call, or not at all.

mod answers;
mod around;
mod chunks;
mod compact;
mod counters;
mod emulate;
mod fallback;
mod guard;
mod inherited;
mod limit;
mod model_call;
mod outer;
mod redact;
mod redact_chunks;
mod retry;
mod tool_call;
mod writes;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::state::base::BaseState;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::internals::Repeat;
use hier_core::state::Values;

pub use crate::redaction::{CardNumbers, Emails, Find, IpAddresses, Redact, Texts};
pub use chunks::ChunkFilter;
pub use emulate::Emulate;
pub use fallback::Fallback;
pub use guard::Guard;
pub use inherited::Inherited;
pub use limit::Limit;
pub use model_call::{CallSite, ModelCall, ModelOutcome, ModelReply};
pub use tool_call::{ToolReply, ToolResult, ToolUse};

pub(crate) use answers::{AnswerCounter, Answers};
pub(crate) use around::{CallLayers, StateProjection, around_model, around_tool, check_layers};
pub(crate) use chunks::{ChunkPipeline, StreamState};
pub(crate) use compact::compaction_conflict;
pub(crate) use model_call::OutputTool;
pub(crate) use outer::InheritedLayers;
pub(crate) use redact::redactor;
pub(crate) use redact_chunks::ChunkRedactor;
pub(crate) use writes::unite_writes;

use writes::sign_writes;

/// A layer around the calls of models and tools of agents over `S` with the context `C`. Implement it with
/// [`async_trait`](hier_core::async_trait). Each method defaults to passing the call on.
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
/// /// Instructs the model how to speak, and counts its words.
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
///         let instruction = format!("Be {}. The customer is {}.", self.tone, call.state().mood);
///         call.request.messages = [Message::system(instruction)].into_iter().chain(call.request.messages.iter().cloned()).collect();
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
    message = "`{Self}` is not a layer of agents over `{S}` with the context `{C}`",
    label = "not a layer of agents over `{S}` with the context `{C}`",
    note = "a layer implements `Layer<{S}, {C}>`: `hier::agent::layer` has the built-in ones; a layer for another context cannot be listed here"
)]
#[async_trait]
pub trait Layer<S: Values, C>: Send + Sync + 'static {
    /// Returns the layer's name for errors and drawings. Defaults to the name of its type.
    fn name(&self) -> Cow<'static, str> {
        short(std::any::type_name::<Self>())
    }

    /// Returns the layer for the agents below and for the nodes below that ask a model, or none if they do not inherit
    /// it. It sees the [`BaseState`] of the caller and the context of the agent that lists the layer. [`Inherited`]
    /// implements this for any layer.
    fn inherited(&self) -> Option<Arc<dyn Layer<BaseState, C>>> {
        None
    }

    /// Describes a mistake in the layer's options. [`AgentBuilder`](crate::AgentBuilder) rejects such a layer.
    fn mistake(&self) -> Option<String> {
        None
    }

    /// Returns true if the layer decides which part of the conversation is sent, as [`Compact`](crate::Compact) does.
    /// If a call passes through several such layers, the innermost decides, and the others pass the call on unchanged:
    /// see [`NextModel::compacts`].
    fn compacts(&self) -> bool {
        false
    }

    /// Returns the layer if it redacts. Redacting layers are outside all others, whatever their position in the list.
    #[doc(hidden)]
    fn redacts(&self) -> Option<&Redact> {
        None
    }

    /// Handles a model call.
    async fn model_call(&self, call: ModelCall<'_, S, C>, next: NextModel<'_, S, C>) -> Result<ModelReply<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        next.call(call).await
    }

    /// Decides whether a tool may be called. It runs before a person is asked for approval. If the person changes the
    /// arguments, it runs again with the new arguments, and no second approval is requested. It may run several times
    /// for one call, and must have no side effects.
    ///
    /// Calls of subagents and of built-in tools (`read_earlier`, `report_to_supervisor`, `todo_write`, …) are not tool
    /// calls: neither this nor [`tool_call`](Self::tool_call) sees them.
    async fn check(&self, call: &ToolCall, site: CallSite<'_, S, C>) -> Result<Verdict, NodeError>
    where
        C: Send + Sync + 'static,
    {
        let _ = (call, site);
        Ok(Verdict::Allow)
    }

    /// Handles a tool call that was checked and approved.
    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        next.call(call).await
    }
}

/// A layer's decision about a tool call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// The tool may be called.
    Allow,
    /// The tool must not be called. The model receives the reason.
    Deny(String),
    /// The tool may be called with these arguments.
    Revise(Value),
}

fn short(name: &'static str) -> Cow<'static, str> {
    let name = name.split('<').next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or_default().into()
}

/// A layer at its position in the list of an agent.
pub(crate) struct ListedLayer<S, C> {
    /// The agent's name, the position and the layer's name: equal in every process.
    key: Arc<str>,
    layer: Arc<dyn Layer<S, C>>,
}

impl<S, C> Clone for ListedLayer<S, C> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), layer: self.layer.clone() }
    }
}

impl<S, C> fmt::Debug for ListedLayer<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedLayer").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<S: Values, C: 'static> ListedLayer<S, C> {
    pub(crate) fn new(agent: &str, place: usize, layer: Arc<dyn Layer<S, C>>) -> Self {
        Self { key: format!("{agent}/{place}:{}", layer.name()).into(), layer }
    }

    /// Returns the form of the layer that the agents below inherit.
    pub(crate) fn inherited(&self) -> Option<ListedLayer<BaseState, C>> {
        Some(ListedLayer { key: self.key.clone(), layer: self.layer.inherited()? })
    }

    /// Returns the layer's name for drawings.
    pub(crate) fn name(&self) -> String {
        let name = self.layer.name();
        if self.layer.inherited().is_some() { format!("Inherited({name})") } else { name.into_owned() }
    }
}

/// The innermost end of the layers, which calls the model.
#[async_trait]
pub(crate) trait ModelEnd<S: Values, C>: Send + Sync {
    async fn call(&self, call: ModelCall<'_, S, C>) -> Result<ModelReply<S>, NodeError>
    where
        C: Send + Sync + 'static;

    /// Returns true if a layer behind it [compacts](Layer::compacts).
    fn compacts(&self) -> bool {
        false
    }
}

/// The inner layers, then the model.
pub struct NextModel<'a, S: Values, C> {
    layers: &'a [ListedLayer<S, C>],
    end: &'a dyn ModelEnd<S, C>,
    repeat: &'a Repeat,
}

impl<S: Values, C> Clone for NextModel<'_, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Values, C> Copy for NextModel<'_, S, C> {}

impl<S: Values, C> fmt::Debug for NextModel<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextModel").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl<S: Values, C: Send + Sync + 'static> NextModel<'_, S, C> {
    /// Returns true if one of the inner layers [compacts](Layer::compacts).
    pub fn compacts(&self) -> bool {
        self.layers.iter().any(|listed| listed.layer.compacts()) || self.end.compacts()
    }

    /// Passes the call on, any number of times. If the call failed or was dropped and is passed on again, the inner
    /// layers keep their steps and questions, and recorded steps are not repeated. After a successful call, the next
    /// one gets new steps and questions.
    ///
    /// Cancel safety: dropping this future drops the call.
    pub async fn call(&self, call: ModelCall<'_, S, C>) -> Result<ModelReply<S>, NodeError> {
        let run = call.site.run;
        let passed = async {
            let Some((first, layers)) = self.layers.split_first() else { return self.end.call(call).await };
            let (mut site, repeat) = (call.site, Repeat::default());
            site.key = &first.key;
            let next = NextModel { layers, end: self.end, repeat: &repeat };
            let mut reply = first.layer.model_call(call.at_site(site), next).await?;
            sign_writes::<S>(&mut reply.writes, &first.key);
            Ok(reply)
        };
        self.repeat.call(run, passed).await
    }
}

/// The innermost end of the layers, which calls the tool.
#[async_trait]
pub(crate) trait ToolEnd<S: Values, C>: Send + Sync {
    async fn call(&self, call: ToolUse<'_, S, C>) -> Result<ToolReply<S>, NodeError>
    where
        C: Send + Sync + 'static;
}

/// The inner layers, then the tool.
pub struct NextTool<'a, S: Values, C> {
    layers: &'a [ListedLayer<S, C>],
    end: &'a dyn ToolEnd<S, C>,
    repeat: &'a Repeat,
}

impl<S: Values, C> Clone for NextTool<'_, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Values, C> Copy for NextTool<'_, S, C> {}

impl<S: Values, C> fmt::Debug for NextTool<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextTool").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl<S: Values, C: Send + Sync + 'static> NextTool<'_, S, C> {
    /// Passes the call on. If the call failed or was dropped and is passed on again, the tool keeps its steps and
    /// questions, and recorded steps are not repeated. After a successful call, the next one gets new steps and
    /// questions. If a tool asks a question, this returns a signal ([`NodeError::is_signal`]), which the layer must
    /// return unchanged.
    ///
    /// Cancel safety: dropping this future drops the call.
    pub async fn call(&self, call: ToolUse<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        let run = call.site.run;
        let passed = async {
            let Some((first, layers)) = self.layers.split_first() else { return self.end.call(call).await };
            let (mut site, repeat) = (call.site, Repeat::default());
            site.key = &first.key;
            let next = NextTool { layers, end: self.end, repeat: &repeat };
            let mut reply = first.layer.tool_call(call.at_site(site), next).await?;
            sign_writes::<S>(&mut reply.writes, &first.key);
            Ok(reply)
        };
        self.repeat.call(run, passed).await
    }
}
