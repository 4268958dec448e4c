//! Questions of agents to their operator, a person: approvals of calls, and anything else.

use std::collections::HashMap;
use std::sync::LazyLock;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::ToolSpec;
use crate::prompts;
use crate::schema::ToolSchema;
use crate::state::added::added_messages;
use crate::state::base::BaseState;
use crate::tool::arguments::ToolArguments;
use crate::tool::client::call_of_question;
use crate::tool::{DeclaredTool, NamedTool, Tool, ToolOutput};
use hier_checkpoint::message::{Body, IdQueues, Message, Messages, ToolCall};
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values, Writes};
use hier_core::{Ask, DeclaredQuestion, NodeError, QuestionFacts, QuestionType};

/// The question with which an agent asks its operator, a person, to approve a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename = "tool_approval")]
pub struct ApprovalRequest {
    /// The name of the agent that makes the call.
    pub agent: String,
    /// The tool call to approve.
    pub call: ToolCall,
}

impl DeclaredQuestion for ApprovalRequest {
    type Answer = Approval;
    const NAME: &'static str = "tool_approval";
    const IDENT: &'static str = "ApprovalRequest";
    const MODULE: &'static str = module_path!();
    const IS_BUILT_IN: bool = true;

    fn check_answer(answer: &Value) -> Result<(), String> {
        Approval::check(answer)
    }
}

/// Adds a result to the input for each call that has no result when the input arrives. `withdrawn` contains the
/// questions that the input has withdrawn. `write` writes messages to the conversation, whose name is `channel`.
///
/// A result in the input counts only if its call was a question to the client, who runs the tool. Other results are
/// removed from the input, because a client cannot know them: some clients fill in a placeholder that reads as success.
pub(crate) fn answer_left_calls<S: Values>(
    conversation: &Messages,
    withdrawn: &[Value],
    input: Writes<S>,
    channel: &str,
    write: impl Fn(Messages) -> S::Write,
) -> Writes<S> {
    let calls = conversation.open_calls();
    if calls.is_empty() {
        return input;
    }
    // A result of a call that the input removes would have no call.
    let caller = calls.first().and_then(|call| conversation.caller_of(&call.id)?.id.as_deref());
    let is_caller = |message: &Message| matches!(message.body, Body::Remove) && message.id.as_deref() == caller;
    let removes_caller = |given: &S::Write| {
        let added = added_messages(given, channel).ok().flatten();
        added.is_some_and(|added| added.iter().any(is_caller))
    };
    if caller.is_some() && input.iter().any(removes_caller) {
        return input;
    }
    let reasons = withdrawal_reasons(withdrawn);
    let mut by_id: HashMap<&str, &ToolCall> = HashMap::new();
    for call in &calls {
        by_id.entry(&call.id).or_insert(call);
    }
    let mut ids = IdQueues::of(calls.iter().map(|call| &*call.id));
    let mut is_answered = vec![false; calls.len()];
    // A message of the conversation can have the same call id, because some providers use an id again.
    let is_known = |message: &Message| message.id.as_deref().is_some_and(|id| conversation.place(id).is_some());
    let mut is_kept = |message: &Message| {
        let call = message.tool_call_id().and_then(|id| by_id.get(id));
        let Some(call) = call.filter(|_| !is_known(message)) else { return true };
        let is_clients = reasons.get(&key(call)).is_some_and(|reason| reason.is_clients);
        let answered = if is_clients { ids.take(&call.id, 0) } else { None };
        answered.inspect(|place| is_answered[*place] = true).is_some()
    };
    let mut kept: Writes<S> = Writes::new();
    for given in input {
        let added = added_messages(&given, channel).ok().flatten().unwrap_or_default();
        let messages: Messages = added.iter().filter(|message| is_kept(message)).cloned().collect();
        kept.push(if messages.len() == added.len() { given } else { write(messages) });
    }
    // The results come first, so that they directly follow their calls.
    let left = calls.into_iter().zip(is_answered).filter(|(_, is_answered)| !is_answered);
    let text = |call: &ToolCall| reasons.get(&key(call)).map_or(prompts::LEFT, |reason| reason.text);
    let results: Messages = left.map(|(call, _)| prompts::refusal(call, text(call))).collect();
    let results = (!results.is_empty()).then(|| write(results));
    results.into_iter().chain(kept).collect()
}

/// Why a question about a call has no answer.
struct WithdrawalReason {
    text: &'static str,
    /// True if a question asks the client to run the call's tool.
    is_clients: bool,
}

fn key(call: &ToolCall) -> (String, String) {
    (call.id.clone(), call.name.clone())
}

/// Returns the reasons by the ids and names of the calls. The first question of a call determines the text.
fn withdrawal_reasons(withdrawn: &[Value]) -> HashMap<(String, String), WithdrawalReason> {
    let mut reasons: HashMap<_, WithdrawalReason> = HashMap::new();
    for question in withdrawn {
        let (call, text, is_clients) = match ApprovalRequest::deserialize(question) {
            Ok(request) => (request.call, prompts::WITHDRAWN, false),
            Err(_) => match call_of_question(question) {
                Some(call) => (call, prompts::UNANSWERED, true),
                None => continue,
            },
        };
        let first = WithdrawalReason { text, is_clients };
        reasons.entry((call.id, call.name)).or_insert(first).is_clients |= is_clients;
    }
    reasons
}

/// An operator's answer to an [`ApprovalRequest`]. Its JSON form is `{"decision": "approve"}`, `{"decision": "edit",
/// "args": {…}}` or `{"decision": "reject", "reason": "…"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Approval {
    /// The agent makes the call unchanged.
    Approve,
    /// The agent makes the call with new arguments. Its model receives the new arguments together with the result.
    Edit {
        /// The new arguments. Must be a JSON object.
        args: Value,
    },
    /// The agent does not make the call. Its model receives the reason.
    Reject {
        /// The reason.
        reason: String,
    },
}

impl Approval {
    /// Checks an answer that may have arrived as JSON. The error lists the valid forms.
    fn check(answer: &Value) -> Result<(), String> {
        let forms =
            r#"{"decision": "approve"}, {"decision": "edit", "args": {…}} or {"decision": "reject", "reason": "…"}"#;
        match Self::deserialize(answer) {
            Ok(_) => Ok(()),
            Err(_) if !answer.is_object() => Err(format!("an approval must be {forms}")),
            Err(error) => Err(format!("{error}: an approval must be {forms}")),
        }
    }
}

/// A question that an agent asks its operator with the tool [`ask_operator`]. The answer is a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename = "operator_question")]
pub struct OperatorQuestion {
    /// The name of the agent that asks.
    pub agent: String,
    /// The question.
    pub question: String,
}

impl DeclaredQuestion for OperatorQuestion {
    type Answer = String;
    const NAME: &'static str = "operator_question";
    const IDENT: &'static str = "OperatorQuestion";
    const MODULE: &'static str = module_path!();
    const IS_BUILT_IN: bool = true;
}

/// The tool with which an agent asks its operator, a person: `tools: [ask_operator]`.
///
/// A call interrupts the run with an [`OperatorQuestion`], at any depth of the hierarchy. The program resumes the run
/// with the operator's answer, a string, and the model receives it as the result of the call. The agent adds the
/// question and the answer to its channel `chat_with_operator`. If the agent is a subagent with a
/// [policy](crate::SubagentPolicy), its supervisor receives these messages only if the policy merges this channel.
///
/// ```
/// use hier_agents::ask_operator;
/// use hier_testkit::ScriptedModel;
/// use hier_core::checkpoint::MemorySaver;
/// use hier_agents::prelude::*;
/// use hier_core::message::ToolCall;
/// use serde_json::json;
///
/// graph! {
///     Desk<BaseState> = ReactGraph { tools: [ask_operator] }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// # let call = |name: &str, args| Message::calls("", [ToolCall { name: name.into(), args, id: name.into() }]);
/// let model = ScriptedModel::new([
///     call("ask_operator", json!({"question": "Which year?"})),
///     call("finish_task", json!({"result": "done"})),
/// ]);
/// let context = || BaseContext::new(model.clone());
/// let desk = Desk::compile_as_root().checkpointer(MemorySaver::new());
/// let asked = desk.invoke(BaseState::update()).thread("case").context(context()).await?;
/// let Outcome::Interrupted(asked) = asked else { panic!("no question") };
/// assert_eq!(asked.questions[0].value["question"], "Which year?");
///
/// let out = desk.invoke(Command::resume("2025")).thread("case").context(context()).await?;
/// assert_eq!(out.state().chat_with_operator.len(), 2);
/// # Ok(())
/// # }
/// ```
#[allow(non_camel_case_types)] // it is listed among functions
#[derive(Clone, Copy, Debug, Default)]
pub struct ask_operator;

const QUESTION: &str = "question";

impl NamedTool for ask_operator {
    const NAME: &'static str = "ask_operator";
    const TOOL: Self = Self;
    const QUESTIONS: QuestionFacts = QuestionFacts::One(QuestionType::of::<OperatorQuestion>());
}

impl DeclaredTool for ask_operator {
    fn declared() -> ToolSpec {
        SPEC.clone()
    }
}

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: ask_operator::NAME.to_owned(),
    description: "Asks the operator, a person, and waits for the answer. Use it for decisions and facts that only the operator has."
        .to_owned(),
    parameters: ToolSchema::default().required::<String>(QUESTION, "The question to the operator.").finish(),
}
});

#[async_trait]
impl<S, C> Tool<S, C> for ask_operator
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    fn spec(&self) -> ToolSpec {
        SPEC.clone()
    }

    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError> {
        let mut arguments = ToolArguments::new(call, &[QUESTION]).with_schema(&SPEC.parameters);
        let question = arguments.required::<String>(QUESTION);
        let (true, Some(question)) = (arguments.fit(), question) else {
            return Ok(ToolOutput::Invalid(arguments.report()));
        };
        let asked = OperatorQuestion { agent: task.run().graph().to_owned(), question };
        let answer: String = Ask::of_task(task).ask(asked.clone()).await?;
        let channels = BaseState::channels();
        let chat = [Message::assistant(asked.question), Message::user(answer.clone())];
        let mut command = Command::new();
        command.writes.push(channels.chat_with_operator.write::<S>(chat));
        command.writes.push(channels.messages.write::<S>([prompts::answer(call, answer)]));
        Ok(ToolOutput::Command(command))
    }
}
