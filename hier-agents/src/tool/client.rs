//! Tools that run in the client, such as the user's browser. A call is a question of the run, and its answer is the
//! result of the call.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::{DeclaredTool, ToolOutput};
use crate::prompts;
use hier_checkpoint::message::{Content, ToolCall};
use hier_core::graph::Task;
use hier_core::state::Values;
use hier_core::{Ask, DeclaredQuestion, NodeError};

/// The field `type` of every call of a client tool. Clients of LangGraph run a tool when they receive it.
pub(super) const TYPE: &str = "tool";

/// A tool that runs in the client, such as the user's browser. `#[tool(client)]` implements this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a client tool",
    label = "not a client tool",
    note = "a client tool is an `async fn` without a body: `#[tool(client)] async fn pick_file(kind: String) -> FileRef;`"
)]
pub trait ClientTool: DeclaredTool {
    /// The type of the arguments: the struct of `#[args]`, or a struct with a field for each argument.
    type Args: Send + Sync + 'static;
    /// The type of a call's result.
    type Output: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// The name of the question's type, such as `PickFileCall` for the tool `pick_file`.
    #[doc(hidden)]
    const IDENT: &'static str;
    /// The path of the module that contains the tool.
    #[doc(hidden)]
    const MODULE: &'static str;

    /// Reads the arguments of a call. If they are invalid, returns a description of the invalid arguments as the error.
    #[doc(hidden)]
    fn client_args(call: &ToolCall) -> Result<Self::Args, String>;
}

/// The question with which a run waits for the client to run the tool `T`. For a tool `pick_file`, `#[tool(client)]`
/// creates the alias `PickFileCall` of this type. The JSON form is `{"type": "tool", "toolCall": {"id": …, "name": …,
/// "args": …}}`.
pub struct ClientCall<T: ClientTool> {
    call: ToolCall,
    args: T::Args,
}

impl<T: ClientTool> ClientCall<T> {
    /// Returns the arguments.
    pub fn args(&self) -> &T::Args {
        &self.args
    }

    /// Returns the call as the model made it.
    pub fn call(&self) -> &ToolCall {
        &self.call
    }
}

impl<T: ClientTool> fmt::Debug for ClientCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientCall").field(&self.call).finish()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "tool")]
struct WireCall<'a> {
    #[serde(rename = "toolCall")]
    call: Cow<'a, ToolCall>,
}

/// The JSON of a call, without its field `type`.
#[derive(Deserialize)]
struct UntypedCall {
    #[serde(rename = "toolCall")]
    call: ToolCall,
}

/// Returns the call of a question if the question waits for a client tool.
pub(crate) fn call_of_question(question: &Value) -> Option<ToolCall> {
    question.get("type").filter(|kind| *kind == TYPE)?;
    UntypedCall::deserialize(question).ok().map(|asked| asked.call)
}

impl<T: ClientTool> Serialize for ClientCall<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireCall { call: Cow::Borrowed(&self.call) }.serialize(serializer)
    }
}

impl<'de, T: ClientTool> Deserialize<'de> for ClientCall<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let UntypedCall { call } = UntypedCall::deserialize(deserializer)?;
        let args = T::client_args(&call).map_err(D::Error::custom)?;
        Ok(Self { call, args })
    }
}

impl<T: ClientTool> JsonSchema for ClientCall<T> {
    fn schema_name() -> Cow<'static, str> {
        T::IDENT.into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!("{}::{}", T::MODULE, T::IDENT).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (spec, mut parameters) = (T::declared(), T::declared().parameters);
        if let Some(Value::Object(shared)) = parameters.as_object_mut().and_then(|schema| schema.remove("$defs")) {
            generator.definitions_mut().extend(shared);
        }
        json_schema!({
            "type": "object",
            "description": spec.description,
            "required": ["toolCall"],
            "properties": {
                "toolCall": {
                    "type": "object",
                    "required": ["id", "name", "args"],
                    "properties": {
                        "id": { "type": "string" },
                        "name": { "type": "string", "const": spec.name },
                        "args": parameters,
                    },
                },
            },
        })
    }
}

impl<T: ClientTool> DeclaredQuestion for ClientCall<T> {
    type Answer = ClientResult<T::Output>;
    const NAME: &'static str = T::NAME;
    const IDENT: &'static str = T::IDENT;
    const MODULE: &'static str = T::MODULE;
    const TYPE: &'static str = TYPE;
    const IS_BUILT_IN: bool = true;
}

/// A call as the question that is asked. Its arguments are not read, so that a result counts even if the tool now takes
/// other arguments.
struct AskedCall<T> {
    call: WireCall<'static>,
    tool: PhantomData<fn() -> T>,
}

impl<T> Serialize for AskedCall<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.call.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for AskedCall<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let call = Cow::Owned(UntypedCall::deserialize(deserializer)?.call);
        Ok(Self { call: WireCall { call }, tool: PhantomData })
    }
}

impl<T: ClientTool> JsonSchema for AskedCall<T> {
    fn schema_name() -> Cow<'static, str> {
        ClientCall::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ClientCall::<T>::json_schema(generator)
    }
}

impl<T: ClientTool> DeclaredQuestion for AskedCall<T> {
    type Answer = <ClientCall<T> as DeclaredQuestion>::Answer;
    const NAME: &'static str = T::NAME;
    const IDENT: &'static str = T::IDENT;
    const MODULE: &'static str = T::MODULE;
    const TYPE: &'static str = TYPE;
    const IS_BUILT_IN: bool = true;
}

/// A client's answer to a [`ClientCall`]. The JSON form is the tool's result, or `{"error": "…"}` if the tool failed.
/// hier also accepts a string that contains this JSON.
///
/// If the result type is not a string, the answer `"Error: …"` also reports a failure, because `CopilotKit` sends
/// failures in this form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientResult<T> {
    /// The result of the tool.
    Done(T),
    /// The reason why the tool failed. The model receives this reason.
    Failed(String),
}

impl<T> From<T> for ClientResult<T> {
    fn from(result: T) -> Self {
        Self::Done(result)
    }
}

impl<T: Serialize> Serialize for ClientResult<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Done(result) => result.serialize(serializer),
            Self::Failed(error) => json!({ "error": error }).serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for ClientResult<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let answer = Value::deserialize(deserializer)?;
        read_result(&answer).or_else(|error| read_text(&answer).unwrap_or(Err(error))).map_err(D::Error::custom)
    }
}

/// Reads a text that is the JSON of an answer, or that reports a failure. Returns `None` for other answers.
fn read_text<T: DeserializeOwned>(answer: &Value) -> Option<Result<ClientResult<T>, serde_json::Error>> {
    let text = answer.as_str()?;
    if let Some(reason) = text.strip_prefix("Error: ") {
        return Some(Ok(ClientResult::Failed(reason.to_owned())));
    }
    Some(read_result(&serde_json::from_str::<Value>(text).ok()?))
}

/// Reads an answer: the report of a failure, or else a result.
fn read_result<T: DeserializeOwned>(answer: &Value) -> Result<ClientResult<T>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Failure {
        error: String,
    }
    match Failure::deserialize(answer) {
        Ok(Failure { error }) => Ok(ClientResult::Failed(error)),
        Err(_) => T::deserialize(answer).map(ClientResult::Done),
    }
}

impl<T: JsonSchema> JsonSchema for ClientResult<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ClientResult_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                generator.subschema_for::<T>(),
                {
                    "type": "object",
                    "title": "ClientFailure",
                    "description": "Reports that the tool failed.",
                    "required": ["error"],
                    "properties": { "error": { "type": "string" } },
                    "additionalProperties": false,
                },
            ],
        })
    }
}

/// The result type of a client tool without a return type. hier accepts any answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoResult;

impl Serialize for NoResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for NoResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for NoResult {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NoResult".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "Any value." })
    }
}

/// Asks the client to run a tool, and returns the client's result. If the client does not answer within the time limit,
/// the model receives an error. Code that `#[tool]` generates calls this function.
pub async fn ask_client<T, S, C>(
    call: &ToolCall,
    task: &Task<S, C>,
    timeout: Option<Duration>,
) -> Result<ToolOutput<S>, NodeError>
where
    T: ClientTool,
    S: Values,
    C: Send + Sync + 'static,
{
    let asked = WireCall { call: Cow::Owned(call.clone()) };
    if !task.run().has_answer_to_key(&question_key(call))?
        && let Err(mistake) = T::client_args(call)
    {
        return Ok(ToolOutput::Invalid(mistake));
    }
    let ask = Ask::<AskedCall<T>>::of_task(task);
    let question = ask.ask(AskedCall { call: asked, tool: PhantomData }).key(question_key(call));
    let deadline = timeout.and_then(|limit| Some((limit, SystemTime::now().checked_add(limit)?)));
    let answer = match deadline {
        Some((limit, due)) => question.until(due, ClientResult::Failed(prompts::late_client(limit))).await?,
        None => question.await?,
    };
    Ok(match answer {
        ClientResult::Done(result) => ToolOutput::Content(content(&result)?),
        ClientResult::Failed(reason) => ToolOutput::Invalid(reason),
    })
}

/// Returns the key of a call's question. The arguments are not part of the key, because a layer, a person or the schema
/// may change them before the client is asked.
pub(super) fn question_key(call: &ToolCall) -> String {
    format!("client call {}", call.id)
}

/// Converts a result to the text for the model: a text as it is, and other values as JSON.
pub(super) fn content(result: &impl Serialize) -> Result<Content, NodeError> {
    let json = serde_json::to_string(result).map_err(|error| {
        NodeError::permanent(format!("the result of the client cannot be serialized to JSON: {error}"))
    })?;
    let text = match serde_json::from_str::<Option<String>>(&json) {
        Ok(Some(text)) => text,
        Ok(None) => prompts::DONE.to_owned(),
        Err(_) => json,
    };
    Ok(Content::Text(text))
}
