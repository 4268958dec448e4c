//! Model requests in custom nodes: `run.model()?.ask(messages).await?`.

mod prepared;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::model::{ChatModel, ChatRequest, OutputSpec, ToolSpec};
use crate::options::ModelOptions;
use crate::schema::ObjectSchema;
use crate::state::context::AgentContext;
use crate::tool::toolset::Toolset;
use hier_checkpoint::message::{ChatResponse, Messages};
use hier_core::{NodeError, Run};

use prepared::{ATTEMPTS, PreparedRequest};

/// Methods of [`Run`] with which a node asks a model. The context `C` of the run must implement `AsRef<BaseContext>`
/// ([`BaseContext`](crate::BaseContext)).
///
/// hier treats these requests as it treats requests of agents: it streams the replies as
/// [`StreamMode::Messages`](hier_core::StreamMode::Messages), counts the requests in the budget of the run, and traces
/// them.
///
/// ```
/// use hier_agents::prelude::*;
/// use hier_testkit::ScriptedModel;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Trip {
///     wish: String,
///     steps: Vec<String>,
///     summary: String,
/// }
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Plan {
///     steps: Vec<String>,
/// }
///
/// graph! {
///     Planner<Trip, BaseContext> = Graph {
///         nodes: [plan, sum_up],
///         edges: [START >> plan >> sum_up >> END],
///     }
/// }
///
/// async fn plan(state: &Trip, run: &Run<BaseContext>) -> hier_core::Result<TripUpdate> {
///     let plan = run.model()?.ask(&*state.wish).system("You plan trips.").output::<Plan>().await?;
///     Ok(Trip::update().steps(plan.steps))
/// }
///
/// async fn sum_up(state: &Trip, run: &Run<BaseContext>) -> hier_core::Result<TripUpdate> {
///     let answer = run.model()?.ask(format!("Sum up: {:?}", state.steps)).await?;
///     Ok(Trip::update().summary(answer.text()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let model = ScriptedModel::new([Message::assistant(r#"{"steps": ["pack", "go"]}"#), Message::assistant("Pack and go.")]);
/// let trip = Trip::update().wish("To the sea");
/// let out = Planner::compile().invoke(trip).context(BaseContext::new(model)).await?;
/// assert_eq!(out.state().summary, "Pack and go.");
/// # Ok(())
/// # }
/// ```
pub trait RunModel<C> {
    /// Returns a handle to the context's default model, [`BaseContext::model`](crate::BaseContext::model).
    ///
    /// # Errors
    ///
    /// Fails if the context has no model.
    fn model(&self) -> Result<ModelHandle<'_, C>, NodeError>
    where
        C: AgentContext;

    /// Returns a handle to the given model: `run.using(&run.context().smart).ask(…)`.
    fn using<'a>(&'a self, model: &'a impl ChatModel) -> ModelHandle<'a, C>
    where
        C: AgentContext;
}

impl<C> RunModel<C> for Run<C> {
    fn model(&self) -> Result<ModelHandle<'_, C>, NodeError>
    where
        C: AgentContext,
    {
        Ok(ModelHandle { run: self, model: &**self.context().as_ref().model()? })
    }

    fn using<'a>(&'a self, model: &'a impl ChatModel) -> ModelHandle<'a, C>
    where
        C: AgentContext,
    {
        ModelHandle { run: self, model }
    }
}

/// A handle to a model, with which a node creates requests. [`RunModel::model`] and [`RunModel::using`] return handles.
pub struct ModelHandle<'a, C> {
    run: &'a Run<C>,
    model: &'a dyn ChatModel,
}

impl<C> Clone for ModelHandle<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for ModelHandle<'_, C> {}

impl<C> fmt::Debug for ModelHandle<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelHandle").field("model", &self.model.name()).finish_non_exhaustive()
    }
}

impl<'a, C> ModelHandle<'a, C> {
    /// Returns a handle that asks `model` instead of this handle's model, in the same run.
    #[must_use]
    pub fn with(self, model: &'a impl ChatModel) -> Self {
        Self { model, ..self }
    }

    /// Creates a request for the next message of a conversation. Accepts a message, a list of messages,
    /// `&state.messages`, or a string, which becomes a user message. Await the request to send it.
    pub fn ask(self, messages: impl Into<Messages>) -> ModelRequest<'a, C>
    where
        C: AgentContext + Send + Sync + 'static,
    {
        let Self { run, model } = self;
        let request = ChatRequest::new(messages);
        let (toolsets, system, step, shape) = (Vec::new(), None, None, None);
        let prepared = PreparedRequest { run, model, request, toolsets, system, attempts: ATTEMPTS, step, shape };
        ModelRequest { prepared, send: |prepared| Box::pin(prepared.ask_once()), answer: None }
    }
}

/// A request to a model. To send the request, await this value. The result is a [`ChatResponse`], or a value of the
/// type that [`output`](Self::output) has set.
///
/// Cancel safety: if the future is dropped early, the reply is lost, but the request still counts in the budget.
#[must_use = "a request is not sent before it is awaited: add `.await`"]
pub struct ModelRequest<'a, C, T = ChatResponse> {
    prepared: PreparedRequest<'a, C>,
    send: SendFn<'a, C, T>,
    /// None until the request is first polled.
    answer: Option<BoxFuture<'a, Result<T, NodeError>>>,
}

/// A function that sends a request. `ModelRequest` has no bound on `T`, so that the compiler accepts the request as a
/// future before it knows the type of the answer.
type SendFn<'a, C, T> = fn(PreparedRequest<'a, C>) -> BoxFuture<'a, Result<T, NodeError>>;

impl<C, T> fmt::Debug for ModelRequest<'_, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest").field("request", &self.prepared.request).finish_non_exhaustive()
    }
}

impl<'a, C, T> ModelRequest<'a, C, T> {
    fn set(mut self, change: impl FnOnce(&mut PreparedRequest<'a, C>)) -> Self {
        change(&mut self.prepared);
        self
    }

    /// Sets the system prompt, which precedes the conversation.
    pub fn system(self, text: impl Into<String>) -> Self {
        self.set(|prepared| prepared.system = Some(text.into()))
    }

    /// Sets the tools that the model may call. Pass `tools![lookup, refund]` or a list of [`ToolSpec`]s. The request
    /// does not run the tools. Read the model's calls from the reply with
    /// [`Message::tool_calls`](crate::Message::tool_calls), or route to a `tools![…]` node, which makes the calls.
    pub fn tools(self, tools: impl Into<Arc<[ToolSpec]>>) -> Self {
        self.set(|prepared| prepared.request.tools = tools.into())
    }

    /// Adds the tools of a [`Toolset`]. When you await the request, hier calls [`Toolset::tools`] to list these tools.
    pub fn toolset(self, set: &'a impl Toolset) -> Self {
        self.set(|prepared| prepared.toolsets.push(set))
    }

    /// Sets the options of the request.
    pub fn options(self, options: ModelOptions) -> Self {
        self.set(|prepared| prepared.request.options = options)
    }

    /// Sets the maximum number of times that the request asks the model for a value of the [`output`](Self::output)
    /// type. If a reply does not fit the type, the request asks the model again. Defaults to 3.
    pub fn attempts(self, attempts: u32) -> Self {
        self.set(|prepared| prepared.attempts = attempts)
    }

    /// Makes the request a durable step with this name, as [`Run::step`] does. If the task runs again after a retry, an
    /// interrupt or a crash, an equal request returns the stored reply. Such a request does not ask the model, does not
    /// stream, and does not charge the budget.
    ///
    /// Requests are equal if they have the same step name, messages, tools, options and output schema. The ids of
    /// messages are not compared. Replies that do not fit the [`output`](Self::output) type are stored too. Errors are
    /// not stored.
    ///
    /// ```
    /// # use hier_agents::prelude::*;
    /// # use hier_core::checkpoint::MemorySaver;
    /// # use hier_testkit::ScriptedModel;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Letter { text: String }
    /// # graph! { Office<Letter, BaseContext> = Graph { nodes: [draft], edges: [START >> draft >> END] } }
    /// async fn draft(run: &Run<BaseContext>) -> hier_core::Result<LetterUpdate> {
    ///     let draft = run.model()?.ask("Write the letter.").step("draft").await?;
    ///     // The node runs again after the answer, and gets the same draft.
    ///     let send: bool = run.interrupt(&draft.text()).await?;
    ///     Ok(Letter::update().text(if send { draft.text() } else { String::new() }))
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// # let context = BaseContext::new(ScriptedModel::new([Message::assistant("Dear all")]));
    /// # let office = Office::compile().checkpointer(MemorySaver::new());
    /// # office.invoke(Letter::update()).thread("t").context(context.clone()).await?;
    /// # let sent = office.invoke(Command::resume(true)).thread("t").context(context).await?;
    /// # assert_eq!(sent.state().text, "Dear all");
    /// # Ok(())
    /// # }
    /// ```
    pub fn step(self, name: impl Into<String>) -> Self {
        self.set(|prepared| prepared.step = Some(name.into()))
    }

    /// Requests a value of type `O`. The model receives the schema of the type. If the model's reply does not fit the
    /// type, the request asks the model again and describes each invalid field.
    ///
    /// If no reply within the [`attempts`](Self::attempts) fits the type, the request fails with an error that quotes
    /// the last reply.
    pub fn output<O>(self) -> ModelRequest<'a, C, O>
    where
        C: AgentContext + Send + Sync + 'static,
        O: JsonSchema + DeserializeOwned + Send + 'a,
    {
        let mut prepared = self.prepared;
        // Providers accept only object schemas.
        let shape = ObjectSchema::of_type::<O>();
        prepared.request.output = Some(OutputSpec { name: name_of::<O>(), schema: shape.schema().clone() });
        prepared.shape = Some(shape);
        ModelRequest { prepared, send: |prepared| Box::pin(prepared.ask_until_fitting()), answer: None }
    }
}

impl<C, T> Future for ModelRequest<'_, C, T> {
    type Output = Result<T, NodeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { prepared, send, answer } = &mut *self;
        answer.get_or_insert_with(|| send(prepared.take())).as_mut().poll(context)
    }
}

/// No field is pinned.
impl<C, T> Unpin for ModelRequest<'_, C, T> {}

/// Returns a schema name for a type: ASCII letters, digits and `_`.
fn name_of<T>() -> String {
    let name = std::any::type_name::<T>().split('<').next().unwrap_or_default();
    let name = name.rsplit("::").next().unwrap_or_default();
    let name: String =
        name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(60).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}
