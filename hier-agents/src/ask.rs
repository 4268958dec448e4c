//! Asking a model in a node of one's own: `run.model()?.ask(messages).await?`.

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use futures_core::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::call::{Caller, failed};
use super::fit;
use super::layer::{Heirs, Lens, Reply};
use super::model::{ChatModel, ChatRequest, ModelError, OutputSpec, ToolSpec};
use super::options::ModelOptions;
use super::schema::Shape;
use super::state::base::BaseState;
use super::state::context::{AgentContext, BaseContext};
use super::tool::set::Toolset;
use super::toolsets::listed;
use super::words;
use hier_checkpoint::message::{self, ChatResponse, FinishReason, Message, Messages};
use hier_core::NodeError;
use hier_core::Run;

/// Asking a model in a node of one's own, whose context has one: `C: AsRef<BaseContext>`.
///
/// What is asked here is streamed to [`StreamMode::Messages`](hier_core::StreamMode::Messages), counts into the budget of the run and is
/// traced, as what an agent asks.
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
    /// The model of the context: [`BaseContext::model`]. An error if it has none.
    fn model(&self) -> Result<ModelHandle<'_, C>, NodeError>
    where
        C: AgentContext;

    /// Another model: `run.using(&run.context().smart).ask(…)`.
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

/// A model, in a run: see [`RunModel`].
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
    /// The same run with another model.
    #[must_use]
    pub fn with(self, model: &'a impl ChatModel) -> Self {
        Self { model, ..self }
    }

    /// Asks for the next message of a conversation: messages, a list of them, `&state.messages`, or a text, which is a message
    /// of the user. Nothing is asked before it is awaited.
    pub fn ask(self, messages: impl Into<Messages>) -> Ask<'a, C> {
        let request = ChatRequest::new(messages);
        Ask {
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

/// How often a model may give an answer that does not fit, unless it is said.
const ATTEMPTS: u32 = 3;

/// A question to a model, asked once it is awaited. The answer is a [`ChatResponse`], or what [`output`](Self::output) says.
///
/// Cancel safety: dropped before its end, it has changed nothing but the budget.
#[must_use = "nothing is asked before it is awaited"]
pub struct Ask<'a, C, T = ChatResponse> {
    run: &'a Run<C>,
    model: &'a dyn ChatModel,
    request: ChatRequest,
    toolsets: Vec<&'a dyn Toolset>,
    system: Option<String>,
    attempts: u32,
    /// The name of the step that each answer is recorded as.
    step: Option<String>,
    /// Of the answer, if it is of a type.
    shape: Option<Shape>,
    answer: PhantomData<fn() -> T>,
}

impl<C, T> fmt::Debug for Ask<'_, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("model", &self.model.name()).field("request", &self.request).finish_non_exhaustive()
    }
}

impl<'a, C, T> Ask<'a, C, T> {
    /// What the model is told to be: a message of the system in front of the conversation.
    pub fn system(self, text: impl Into<String>) -> Self {
        Self { system: Some(text.into()), ..self }
    }

    /// The tools that the model may call: `.tools(tools![lookup, refund])`, or their specs. Its calls are in the answer
    /// ([`Message::tool_calls`]); a node `tools![…]` makes them.
    pub fn tools(self, tools: impl Into<Arc<[ToolSpec]>>) -> Self {
        Self { request: self.request.tools(tools), ..self }
    }

    /// A [`Toolset`], whose tools the model may call as well. They are listed when it is asked.
    pub fn toolset(mut self, set: &'a impl Toolset) -> Self {
        self.toolsets.push(set);
        self
    }

    /// How the model is to answer.
    pub fn options(self, options: ModelOptions) -> Self {
        Self { request: self.request.options(options), ..self }
    }

    /// How often the model is asked at most, if its answers do not fit the [`output`](Self::output): 3 times unless it is said.
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Makes it a durable step of this name, as [`Run::step`] does with what it runs: each answer of the model is recorded with the
    /// task before it is returned, and when the task runs again (after a retry, an interrupt, a kill) the same question has the
    /// recorded answer. The model is not asked again then, nothing is streamed again and nothing counts into the budget.
    ///
    /// The key is the name and all that is asked: messages without their ids, tools, options, shape of the answer. Whatever is
    /// asked differently is asked anew. An answer that does not fit the [`output`](Self::output) is recorded, too; a failure is not.
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
    ///     // The node runs again with the answer of the person, and has the same draft.
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

    /// The answer is a value of this type. The model is told its schema; if an answer does not fit, it is told what is wrong with
    /// which field, and asked again. After the last of the [`attempts`](Self::attempts) it is an error, with what it said.
    pub fn output<O: JsonSchema + DeserializeOwned>(self) -> Ask<'a, C, Output<O>> {
        let Self { run, model, request, toolsets, system, attempts, step, .. } = self;
        // An object, of whatever type the value is: providers take no other shape.
        let shape = Shape::of::<O>();
        let request = request.output(OutputSpec { name: name_of::<O>(), schema: shape.schema().clone() });
        let answer = PhantomData;
        Ask { run, model, request, toolsets, system, attempts, step, shape: Some(shape), answer }
    }
}

/// Marks a question whose answer is of a type.
#[derive(Debug)]
pub struct Output<T>(PhantomData<fn() -> T>);

/// A name for the shape of a type: letters, digits and `_`.
fn name_of<T>() -> String {
    let name = std::any::type_name::<T>().split('<').next().unwrap_or_default();
    let name = name.rsplit("::").next().unwrap_or_default();
    let name: String =
        name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(60).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

/// By what a question is known again: all of it but the ids of its messages, which are new whenever a message is made.
fn key(request: &ChatRequest) -> Result<Value, NodeError> {
    let mut key = serde_json::to_value(request)
        .map_err(|error| NodeError::permanent(format!("what the model is asked has no JSON: {error}")))?;
    for message in key.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = message.as_object_mut() {
            fields.remove("id");
        }
    }
    Ok(key)
}

/// What layers see of the state of a node that asks: it has no agent's.
static NOBODY: LazyLock<BaseState> = LazyLock::new(BaseState::default);

impl<C: AsRef<BaseContext> + Send + Sync + 'static, T> Ask<'_, C, T> {
    /// Asks once, or takes what was answered before.
    async fn once(&self, messages: Messages) -> Result<ChatResponse, NodeError> {
        let tools = self.offered().await?;
        let request = ChatRequest { messages, tools, ..self.request.clone() };
        match &self.step {
            Some(name) => self.run.step_of(name, &key(&request)?, self.send(request)).await,
            None => self.send(request).await,
        }
    }

    async fn send(&self, request: ChatRequest) -> Result<ChatResponse, NodeError> {
        let caller = Caller::<BaseState, C> {
            run: self.run,
            state: &*NOBODY,
            agent: self.run.graph(),
            budget: self.run.context().as_ref().budget.as_deref(),
            layers: (Heirs::of(self.run, false), &[]),
            lens: Lens { base: |state| Cow::Borrowed(state), lift: None },
        };
        match caller.call(self.model, request, None).await?.into_parts().0 {
            Reply::Answer(response) => Ok(response),
            Reply::End(limit) => Err(NodeError::permanent(format!("the model is not asked: {limit}"))),
        }
    }

    /// What the model may call.
    async fn offered(&self) -> Result<Arc<[ToolSpec]>, NodeError> {
        if self.toolsets.is_empty() {
            return Ok(self.request.tools.clone());
        }
        let own = self.request.tools.iter();
        let mut known = own.map(|tool| (tool.name.clone(), format!("the node's own tool `{}`", tool.name))).collect();
        let mut offered = self.request.tools.to_vec();
        for set in &self.toolsets {
            offered.extend_from_slice(&listed(*set, &mut known).await?);
        }
        Ok(offered.into())
    }

    /// The conversation, with what the model is told to be in front.
    fn messages(&mut self) -> Messages {
        let messages = std::mem::take(&mut self.request.messages);
        match self.system.take() {
            Some(system) => [Message::system(system)].into_iter().chain(messages.iter().cloned()).collect(),
            None => messages,
        }
    }
}

impl<C: AsRef<BaseContext> + Send + Sync + 'static, T: DeserializeOwned> Ask<'_, C, Output<T>> {
    /// Reads the value from the model's text, or returns everything that does not fit.
    fn read(&self, text: &str) -> Result<T, String> {
        let given = message::read::<Value>(text)?;
        let Some(shape) = &self.shape else { return message::read(text) };
        // The value is wrapped in an object, unless the model left the object out.
        let given = match shape.argument() {
            Some(argument) if given.get(argument).is_none() => json!({ argument: given }),
            _ => given,
        };
        let argument = shape.argument().unwrap_or_default();
        if let Some(value) = shape.value(&given).and_then(|value| T::deserialize(value).ok()) {
            return Ok(value);
        }
        let mut fitted = given;
        let faults = fit::fit(&mut fitted, shape.schema());
        let value = shape.value(&fitted).unwrap_or(&Value::Null);
        serde_path_to_error::deserialize(value).map_err(|error| {
            let faults: Vec<String> = match &*fit::with(faults, &error, argument) {
                [_] => vec![fit::Fault::of(&error, argument).to_string()],
                faults => faults.iter().map(fit::Fault::to_string).collect(),
            };
            faults.join("; ")
        })
    }

    /// Asks until an answer fits.
    async fn fitting(mut self) -> Result<T, NodeError> {
        let mut messages = self.messages();
        let mut attempt = 1;
        loop {
            let response = self.once(messages.clone()).await?;
            if response.finish == Some(FinishReason::ContentFilter) {
                let (model, reason) = (self.model.name().to_owned(), words::WITHHELD.to_owned());
                return Err(failed(ModelError::Refused { model, reason }));
            }
            let text = response.text();
            let mistake = match self.read(&text) {
                Ok(value) if response.message.tool_calls().is_empty() => return Ok(value),
                Ok(_) => "it has calls of tools beside it".to_owned(),
                Err(_) if !response.message.tool_calls().is_empty() => "it calls tools, and is no answer".to_owned(),
                Err(mistake) => mistake,
            };
            if attempt >= self.attempts {
                let reason = format!("{mistake}; it said {}", message::quoted(&said(&response.message)));
                return Err(failed(ModelError::BadAnswer { model: self.model.name().to_owned(), reason }));
            }
            let refused =
                response.message.tool_calls().iter().map(|call| Message::tool_error(call, words::ONLY_ANSWER));
            let again = [Message::user(words::no_fit(&mistake))];
            let more = refused.collect::<Vec<_>>().into_iter().chain(again);
            messages = messages.iter().cloned().chain([response.message.clone()]).chain(more).collect();
            attempt += 1;
        }
    }
}

/// What a message says, with its calls.
fn said(message: &Message) -> String {
    let calls = message.tool_calls().iter().map(|call| format!("{}({})", call.name, call.args));
    let text = Some(message.text()).filter(|text| !text.is_empty());
    text.into_iter().chain(calls).collect::<Vec<_>>().join(" ")
}

impl<'a, C: AsRef<BaseContext> + Send + Sync + 'static> IntoFuture for Ask<'a, C> {
    type Output = Result<ChatResponse, NodeError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let messages = self.messages();
            self.once(messages).await
        })
    }
}

impl<'a, C, T> IntoFuture for Ask<'a, C, Output<T>>
where
    C: AsRef<BaseContext> + Send + Sync + 'static,
    T: DeserializeOwned + Send + 'a,
{
    type Output = Result<T, NodeError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fitting())
    }
}
