//! A model request of a custom node, and the loop that sends the request until a reply fits.

use std::borrow::Cow;
use std::mem;
use std::sync::{Arc, LazyLock};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::call::model::{ModelCaller, node_error};
use crate::coercion::{self, SchemaFault};
use crate::layer::{CallLayers, InheritedLayers, ModelOutcome, StateProjection};
use crate::model::{ChatModel, ChatRequest, ModelError, ToolSpec};
use crate::prompts;
use crate::schema::ObjectSchema;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::tool::catalogue::list_toolset;
use crate::tool::toolset::Toolset;
use hier_checkpoint::message::{self, ChatResponse, FinishReason, Message, Messages};
use hier_core::{NodeError, Run};

pub(super) const ATTEMPTS: u32 = 3;

/// A request without the type of its answer.
pub(super) struct PreparedRequest<'a, C> {
    pub(super) run: &'a Run<C>,
    pub(super) model: &'a dyn ChatModel,
    pub(super) request: ChatRequest,
    pub(super) toolsets: Vec<&'a dyn Toolset>,
    pub(super) system: Option<String>,
    pub(super) attempts: u32,
    /// The step name under which each reply is recorded.
    pub(super) step: Option<String>,
    pub(super) shape: Option<ObjectSchema>,
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

/// The state that layers see. It is empty, because a custom node has no agent state.
static NO_AGENT: LazyLock<BaseState> = LazyLock::new(BaseState::default);

impl<C> PreparedRequest<'_, C> {
    pub(super) fn take(&mut self) -> Self {
        Self {
            run: self.run,
            model: self.model,
            request: mem::take(&mut self.request),
            toolsets: mem::take(&mut self.toolsets),
            system: self.system.take(),
            attempts: self.attempts,
            step: self.step.take(),
            shape: self.shape.take(),
        }
    }
}

impl<C: AsRef<BaseContext> + Send + Sync + 'static> PreparedRequest<'_, C> {
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
            search: None,
        };
        match caller.call_model(self.model, request, None).await?.into_parts().0 {
            ModelOutcome::Answer(response) => Ok(response),
            ModelOutcome::End(limit) => Err(NodeError::permanent(format!("no request was sent to the model: {limit}"))),
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
        let messages = mem::take(&mut self.request.messages);
        match self.system.take() {
            Some(system) => [Message::system(system)].into_iter().chain(messages.iter().cloned()).collect(),
            None => messages,
        }
    }

    /// Reads the value from the model's text. The error lists the faults of the text.
    fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, String> {
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

    pub(super) async fn ask_once(mut self) -> Result<ChatResponse, NodeError> {
        let messages = self.messages();
        self.send_or_replay(messages).await
    }

    /// Asks until a reply fits or the attempts are used up.
    pub(super) async fn ask_until_fitting<T: DeserializeOwned>(mut self) -> Result<T, NodeError> {
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
                Err(_) if !response.message.tool_calls().is_empty() => {
                    "it calls tools instead of giving an answer".to_owned()
                }
                Err(mistake) => mistake,
            };
            if attempt >= self.attempts {
                let reason = format!("{mistake}; the model replied {}", message::quoted(&render(&response.message)));
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

fn render(message: &Message) -> String {
    let calls = message.tool_calls().iter().map(|call| format!("{}({})", call.name, call.args));
    let text = Some(message.text()).filter(|text| !text.is_empty());
    text.into_iter().chain(calls).collect::<Vec<_>>().join(" ")
}
