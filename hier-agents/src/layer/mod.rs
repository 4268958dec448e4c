//! Layers around model and tool calls.
//!
//! A layer receives a call, and a handle ([`NextModel`] or [`NextTool`]) to the layers inside it. The layer can change
//! the call, pass the call on any number of times, and change the reply. An agent lists its layers, outermost first:
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
//! A call passes through the [inherited](Inherited) layers of the outer agents, outermost agent first, and then through
//! the agent's own layers in the order of the list. The reply passes back in the opposite order. A tool call goes
//! through these steps:
//! 1. [`Layer::check`] of all layers.
//! 2. Approval by the operator, if the tool needs it.
//! 3. [`Layer::check`] again, if the operator changed the arguments.
//! 4. The call itself, through [`Layer::tool_call`] of all layers.
//!
//! The layer [`Redact`] is an exception. Its position in the list does not matter: it also redacts the text that other
//! layers add.
//!
//! # Streaming
//!
//! [`NextModel::call`] returns the whole reply, even if a client streams the run. In the meantime, the chunks of the
//! reply pass through the [`ChunkFilter`]s that layers added to the call, and then to
//! [`StreamMode::Messages`](hier_core::StreamMode::Messages). The last chunk contains the whole reply. The client
//! receives the last chunk after all layers have returned. If a layer replies without the model, the client receives
//! the chunks of this reply at the end.
//!
//! # Repeated execution
//!
//! Each model request of an agent is a task, and so is each tool call. The layers run inside the task. Once the task
//! has ended and its result is stored, the task never runs again. If a question or a crash stops a task, the task later
//! starts again from its beginning:
//! * If a call needs approval, `check` runs once before the question and again after the answer. Then `tool_call` runs
//!   for the first time.
//! * If the tool itself asks a question, `check` and `tool_call` start again after the answer.
//!
//! A layer with external side effects should use [`Run::step`](hier_core::Run::step) or
//! [`Run::idempotency_key`](hier_core::Run::idempotency_key), as a node does. The writes of a layer are stored together
//! with the result of the call, or not at all.

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

/// A layer around the model and tool calls of agents with the state `S` and the context `C`. Implement it with
/// [`async_trait`](hier_core::async_trait). By default, each method passes the call on.
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
    /// Returns the name of the layer, for errors and drawings. Defaults to the name of its type.
    fn name(&self) -> Cow<'static, str> {
        short(std::any::type_name::<Self>())
    }

    /// Returns the layer that hier applies to the subagents, at any depth, of an agent that lists this layer. Returns
    /// `None` if this layer applies only to the agent that lists it. Defaults to `None`.
    ///
    /// Instead of implementing this method, you can wrap a layer in [`Inherited`]. See [`Inherited`] for the state and
    /// the context that the layer sees.
    fn inherited(&self) -> Option<Arc<dyn Layer<BaseState, C>>> {
        None
    }

    /// Returns a description of a mistake in the layer's options, or `None` if the options are valid. If there is a
    /// mistake, [`AgentBuilder`](crate::AgentBuilder) rejects the layer. Defaults to `None`.
    fn mistake(&self) -> Option<String> {
        None
    }

    /// Returns true if the layer decides which part of the conversation is sent, as [`Compact`](crate::Compact) does.
    /// If a call passes through several such layers, only the innermost should act. The layer must therefore pass the
    /// call on unchanged if [`NextModel::compacts`] returns true. Defaults to false.
    fn compacts(&self) -> bool {
        false
    }

    /// Returns the [`Redact`] layer if this layer is one, and otherwise `None`. Redacting layers are outside all
    /// others, whatever their position in the list.
    #[doc(hidden)]
    fn redacts(&self) -> Option<&Redact> {
        None
    }

    /// Handles a model call. To pass the call on, call `next`. By default, the layer passes the call on unchanged.
    async fn model_call(&self, call: ModelCall<'_, S, C>, next: NextModel<'_, S, C>) -> Result<ModelReply<S>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        next.call(call).await
    }

    /// Decides if a tool may be called. This method runs before the run asks a person for approval. If the person
    /// changes the arguments, the method runs again with the new arguments, and the person is not asked again. The
    /// method can run several times for one call, so it must have no side effects. Defaults to [`Verdict::Allow`].
    ///
    /// hier calls neither this method nor [`tool_call`](Self::tool_call) if the model calls a subagent, or a built-in
    /// tool such as `read_earlier`, `report_to_supervisor` or `todo_write`.
    async fn check(&self, call: &ToolCall, site: CallSite<'_, S, C>) -> Result<Verdict, NodeError>
    where
        C: Send + Sync + 'static,
    {
        let _ = (call, site);
        Ok(Verdict::Allow)
    }

    /// Handles a tool call that has been checked and, if necessary, approved. To pass the call on, call `next`. By
    /// default, the layer passes the call on unchanged.
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
    /// The tool must not be called. The model receives the string as the reason.
    Deny(String),
    /// The tool may be called, but with these arguments instead of the model's.
    Revise(Value),
}

fn short(name: &'static str) -> Cow<'static, str> {
    let name = name.split('<').next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or_default().into()
}

/// A layer at its position in the list of an agent.
pub(crate) struct ListedLayer<S, C> {
    /// The agent's name, the position and the layer's name. The key is equal in every process.
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

    /// Returns true if a further layer behind this end [compacts](Layer::compacts).
    fn compacts(&self) -> bool {
        false
    }
}

/// A handle with which a layer passes a model call on: to the layers inside this layer, and then to the model.
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
    /// Returns true if one of the layers inside this layer [compacts](Layer::compacts) the conversation.
    pub fn compacts(&self) -> bool {
        self.layers.iter().any(|listed| listed.layer.compacts()) || self.end.compacts()
    }

    /// Passes the call on. A layer can call this method any number of times.
    ///
    /// If the previous call of this method failed or was dropped, the next call repeats it: the inner layers keep the
    /// answers to their questions, and their stored steps do not run again. If the previous call succeeded, the next
    /// call asks all questions and runs all steps again.
    ///
    /// Cancel safety: if the future is dropped, the call is aborted.
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

/// A handle with which a layer passes a tool call on: to the layers inside this layer, and then to the tool.
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
    /// Passes the call on. A layer can call this method any number of times.
    ///
    /// If the previous call of this method failed or was dropped, the next call repeats it: the tool keeps the answers
    /// to its questions, and its stored steps do not run again. If the previous call succeeded, the next call asks all
    /// questions and runs all steps again.
    ///
    /// # Errors
    ///
    /// Fails if the tool fails. If the tool asks a question, the error is [control flow](NodeError::is_signal). The
    /// layer must return such an error unchanged.
    ///
    /// Cancel safety: if the future is dropped, the call is aborted.
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
