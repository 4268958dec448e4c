//! Model requests in custom nodes: `run.model()?.ask(messages).await?`.

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use futures_core::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::call::model::{ModelCaller, node_error};
use crate::coercion::{self, SchemaFault};
use crate::layer::{CallLayers, InheritedLayers, ModelOutcome, StateProjection};
use crate::model::{ChatModel, ChatRequest, ModelError, OutputSpec, ToolSpec};
use crate::options::ModelOptions;
use crate::prompts;
use crate::schema::ObjectSchema;
use crate::state::base::BaseState;
use crate::state::context::{AgentContext, BaseContext};
use crate::tool::catalogue::list_toolset;
use crate::tool::toolset::Toolset;
use hier_checkpoint::message::{self, ChatResponse, FinishReason, Message, Messages};
use hier_core::{NodeError, Run};

/// Gives a node access to models. The run's context must hold a [`BaseContext`]: `C: AsRef<BaseContext>`.
///
/// Requests made here are streamed to [`StreamMode::Messages`](hier_core::StreamMode::Messages), counted in the budget
/// of the run and traced, like those of an agent.
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
    /// Returns the context's own model, [`BaseContext::model`].
    ///
    /// # Errors
    ///
    /// The context has no model.
    fn model(&self) -> Result<ModelHandle<'_, C>, NodeError>
    where
        C: AgentContext;

    /// Returns a handle to another model: `run.using(&run.context().smart).ask(…)`.
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

/// A model in a run: see [`RunModel`].
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
    /// Returns a handle to another model in the same run.
    #[must_use]
    pub fn with(self, model: &'a impl ChatModel) -> Self {
        Self { model, ..self }
    }

    /// Prepares a request for the next message of a conversation. It takes one message, a list of messages,
    /// `&state.messages`, or a text, which becomes a user message. The request is sent when it is awaited.
    pub fn ask(self, messages: impl Into<Messages>) -> ModelRequest<'a, C> {
        let request = ChatRequest::new(messages);
        ModelRequest {
            run: self.run,
            model: self.model,
            request,
            toolsets: Vec::new(),
            system: None,
            attempts: ATTEMPTS,
            step: None,
            shape: None,
            answer: PhantomData,
        }
    }
}

const ATTEMPTS: u32 = 3;

/// A request to a model, sent when it is awaited. It resolves to a [`ChatResponse`], or to the type given to
/// [`output`](Self::output).
///
/// Cancel safety: if the future is dropped early, only the budget has changed.
#[must_use = "a request does nothing until it is awaited"]
pub struct ModelRequest<'a, C, T = ChatResponse> {
    run: &'a Run<C>,
    model: &'a dyn ChatModel,
    request: ChatRequest,
    toolsets: Vec<&'a dyn Toolset>,
    system: Option<String>,
    attempts: u32,
    /// The step name under which each answer is recorded.
    step: Option<String>,
    shape: Option<ObjectSchema>,
    answer: PhantomData<fn() -> T>,
}

impl<C, T> fmt::Debug for ModelRequest<'_, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest").field("request", &self.request).finish_non_exhaustive()
    }
}

impl<'a, C, T> ModelRequest<'a, C, T> {
    /// Sets the instructions, a system message in front of the conversation.
    pub fn system(self, text: impl Into<String>) -> Self {
        Self { system: Some(text.into()), ..self }
    }

    /// Sets the tools that the model may call: `.tools(tools![lookup, refund])`, or their specs. The answer contains
    /// the calls ([`Message::tool_calls`]); a node `tools![…]` makes them.
    pub fn tools(self, tools: impl Into<Arc<[ToolSpec]>>) -> Self {
        Self { request: self.request.tools(tools), ..self }
    }

    /// Adds the tools of a [`Toolset`], which is listed when the request is sent.
    pub fn toolset(mut self, set: &'a impl Toolset) -> Self {
        self.toolsets.push(set);
        self
    }

    /// Sets the options of the request.
    pub fn options(self, options: ModelOptions) -> Self {
        Self { request: self.request.options(options), ..self }
    }

    /// Sets how many times the model is asked if its answers do not fit the [`output`](Self::output). Defaults to 3.
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Makes the request a durable step of this name, as [`Run::step`] does. Each answer of the model is recorded with
    /// the task before it is returned. If the task runs again after a retry, an interrupt or a crash, an equal request
    /// returns the recorded answer. The model is not asked again, nothing is streamed again, and the budget is not
    /// charged.
    ///
    /// The key consists of the name, the messages without their ids, the tools, the options and the answer schema. A
    /// request that differs in any of these is sent. Answers that do not fit the [`output`](Self::output) are recorded
    /// too; failures are not.
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
        Self { step: Some(name.into()), ..self }
    }

    /// Requests a value of this type. The model receives the schema. If an answer does not fit, the model is asked
    /// again with a description of each wrong field. After the last of the [`attempts`](Self::attempts), the request
    /// fails with an error that quotes the answer.
    pub fn output<O: JsonSchema + DeserializeOwned>(self) -> ModelRequest<'a, C, TypedOutput<O>> {
        let Self { run, model, request, toolsets, system, attempts, step, .. } = self;
        // Providers accept only object schemas.
        let shape = ObjectSchema::of_type::<O>();
        let request = request.output(OutputSpec { name: name_of::<O>(), schema: shape.schema().clone() });
        let answer = PhantomData;
        ModelRequest { run, model, request, toolsets, system, attempts, step, shape: Some(shape), answer }
    }
}

/// Marks a [`ModelRequest`] that resolves to a value of the type `T`.
#[derive(Debug)]
pub struct TypedOutput<T>(PhantomData<fn() -> T>);

/// Returns a schema name for a type: ASCII letters, digits and `_`.
fn name_of<T>() -> String {
    let name = std::any::type_name::<T>().split('<').next().unwrap_or_default();
    let name = name.rsplit("::").next().unwrap_or_default();
    let name: String =
        name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(60).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

/// Returns the key of a recorded request: everything except the message ids, which differ each time a message is
/// created.
fn request_key(request: &ChatRequest) -> Result<Value, NodeError> {
    let mut key = serde_json::to_value(request).map_err(|error| {
        NodeError::permanent(format!("the request to the model cannot be serialized to JSON: {error}"))
    })?;
    for message in key.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = message.as_object_mut() {
            fields.remove("id");
        }
    }
    Ok(key)
}

/// The state that layers see: a custom node has no agent state.
static NO_AGENT: LazyLock<BaseState> = LazyLock::new(BaseState::default);

impl<C: AsRef<BaseContext> + Send + Sync + 'static, T> ModelRequest<'_, C, T> {
    async fn send_or_replay(&self, messages: Messages) -> Result<ChatResponse, NodeError> {
        let tools = self.all_tools().await?;
        let request = ChatRequest { messages, tools, ..self.request.clone() };
        match &self.step {
            Some(name) => self.run.step_of(name, &request_key(&request)?, self.send(request)).await,
            None => self.send(request).await,
        }
    }

    async fn send(&self, request: ChatRequest) -> Result<ChatResponse, NodeError> {
        let caller = ModelCaller::<BaseState, C> {
            run: self.run,
            state: &*NO_AGENT,
            agent: self.run.graph(),
            budget: self.run.context().as_ref().budget.as_deref(),
            layers: CallLayers { outer: InheritedLayers::around(self.run, false), own: &[] },
            projection: StateProjection { base: |state| Cow::Borrowed(state), lift: None },
        };
        match caller.call_model(self.model, request, None).await?.into_parts().0 {
            ModelOutcome::Answer(response) => Ok(response),
            ModelOutcome::End(limit) => Err(NodeError::permanent(format!("the model was not asked: {limit}"))),
        }
    }

    async fn all_tools(&self) -> Result<Arc<[ToolSpec]>, NodeError> {
        if self.toolsets.is_empty() {
            return Ok(self.request.tools.clone());
        }
        let own = self.request.tools.iter();
        let mut known = own.map(|tool| (tool.name.clone(), format!("the node's own tool `{}`", tool.name))).collect();
        let mut offered = self.request.tools.to_vec();
        for set in &self.toolsets {
            offered.extend_from_slice(&list_toolset(*set, &mut known).await?);
        }
        Ok(offered.into())
    }

    /// Returns the conversation with the instructions in front.
    fn messages(&mut self) -> Messages {
        let messages = std::mem::take(&mut self.request.messages);
        match self.system.take() {
            Some(system) => [Message::system(system)].into_iter().chain(messages.iter().cloned()).collect(),
            None => messages,
        }
    }
}

impl<C: AsRef<BaseContext> + Send + Sync + 'static, T: DeserializeOwned> ModelRequest<'_, C, TypedOutput<T>> {
    /// Reads the value from the model's text, or returns everything that does not fit.
    fn read(&self, text: &str) -> Result<T, String> {
        let given = message::read::<Value>(text)?;
        let Some(shape) = &self.shape else { return message::read(text) };
        let given = match shape.argument() {
            Some(argument) if given.get(argument).is_none() => json!({ argument: given }),
            _ => given,
        };
        let argument = shape.argument().unwrap_or_default();
        if let Some(value) = shape.value(&given).and_then(|value| T::deserialize(value).ok()) {
            return Ok(value);
        }
        let mut fitted = given;
        let faults = coercion::coerce(&mut fitted, shape.schema());
        let value = shape.value(&fitted).unwrap_or(&Value::Null);
        serde_path_to_error::deserialize(value).map_err(|error| {
            let faults: Vec<String> = match &*coercion::add_type_error(faults, &error, argument) {
                [_] => vec![SchemaFault::from_error(&error, argument).to_string()],
                faults => faults.iter().map(SchemaFault::to_string).collect(),
            };
            faults.join("; ")
        })
    }

    /// Asks until an answer fits or the attempts are used up.
    async fn ask_until_fitting(mut self) -> Result<T, NodeError> {
        let mut messages = self.messages();
        let mut attempt = 1;
        loop {
            let response = self.send_or_replay(messages.clone()).await?;
            if response.finish == Some(FinishReason::ContentFilter) {
                let (model, reason) = (self.model.name().to_owned(), prompts::WITHHELD.to_owned());
                return Err(node_error(ModelError::Refused { model, reason }));
            }
            let text = response.text();
            let mistake = match self.read(&text) {
                Ok(value) if response.message.tool_calls().is_empty() => return Ok(value),
                Ok(_) => "it also has tool calls".to_owned(),
                Err(_) if !response.message.tool_calls().is_empty() => "it calls tools instead of answering".to_owned(),
                Err(mistake) => mistake,
            };
            if attempt >= self.attempts {
                let reason = format!("{mistake}; the model answered {}", message::quoted(&render(&response.message)));
                return Err(node_error(ModelError::BadAnswer { model: self.model.name().to_owned(), reason }));
            }
            let refused =
                response.message.tool_calls().iter().map(|call| Message::tool_error(call, prompts::ONLY_ANSWER));
            let again = [Message::user(prompts::no_fit(&mistake))];
            let more = refused.collect::<Vec<_>>().into_iter().chain(again);
            messages = messages.iter().cloned().chain([response.message.clone()]).chain(more).collect();
            attempt += 1;
        }
    }
}

/// Renders the text and the calls of a message.
fn render(message: &Message) -> String {
    let calls = message.tool_calls().iter().map(|call| format!("{}({})", call.name, call.args));
    let text = Some(message.text()).filter(|text| !text.is_empty());
    text.into_iter().chain(calls).collect::<Vec<_>>().join(" ")
}

impl<'a, C: AsRef<BaseContext> + Send + Sync + 'static> IntoFuture for ModelRequest<'a, C> {
    type Output = Result<ChatResponse, NodeError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let messages = self.messages();
            self.send_or_replay(messages).await
        })
    }
}

impl<'a, C, T> IntoFuture for ModelRequest<'a, C, TypedOutput<T>>
where
    C: AsRef<BaseContext> + Send + Sync + 'static,
    T: DeserializeOwned + Send + 'a,
{
    type Output = Result<T, NodeError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask_until_fitting())
    }
}
