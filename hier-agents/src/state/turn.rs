//! The state of an agent's turn, and how the turn ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::prompts;
use hier_checkpoint::message::{Message, Messages, ToolCall, Usd};

/// The internal state of an agent's turn. The channel `agent_turn` has this type. A turn begins with each new input or,
/// in a subagent, with each call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AgentTurn {
    /// The way in which the turn ended, or `None` while the turn is in progress.
    pub end: Option<AgentEnd>,
    /// The number of unusable replies of the model in this turn.
    pub misfits: u32,
    /// Replies that the agent rejected. The agent sends them to the model with its next requests, but does not add them
    /// to the conversation.
    pub drafts: Vec<RejectedAnswer>,
    /// The number of consecutive replies that the token limit cut off before they were usable.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_off: u32,
    /// The fingerprints of the tools that the model called in its last reply, by the name of the tool. Contains only
    /// tools of toolsets. A fingerprint identifies the parameters that the model received for the tool. If the tool has
    /// other parameters when the agent makes the call, the agent rejects the call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
}

/// A reply that did not fit the type of the agent's answer. The agent sends the reply to the model at its original
/// position in the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RejectedAnswer {
    /// The id of the message before the reply. `None` if the conversation was empty.
    pub after: Option<String>,
    /// The rejected reply.
    pub answer: Message,
    /// The message that asks the model for a correction.
    pub correction: Message,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Number of times that the model may retry a call that was cut off at the token limit.
pub(crate) const MOST_CUT_OFF: u32 = 2;

/// Returns true if the arguments of a call are only a piece of JSON.
pub(crate) fn is_fragment(call: &ToolCall) -> bool {
    call.args.is_string()
}

impl AgentTurn {
    /// Returns the number of consecutive cut-off answers, including this one.
    pub(crate) fn cut_off_with(&self, is_cut_off: bool) -> u32 {
        if is_cut_off { self.cut_off.saturating_add(1) } else { 0 }
    }

    /// Returns the conversation with the drafts at their positions. The ids of drafts begin with
    /// [`DRAFT`](prompts::DRAFT).
    pub(crate) fn with_drafts(&self, messages: &Messages) -> Messages {
        if self.drafts.is_empty() {
            return messages.clone();
        }
        let place = |draft: &RejectedAnswer| match draft.after.as_deref() {
            Some(id) => messages.place(id).map_or(messages.len(), |place| place + 1),
            None => 0,
        };
        let mut drafts: Vec<(usize, usize, &RejectedAnswer)> =
            self.drafts.iter().enumerate().map(|(number, draft)| (place(draft), number, draft)).collect();
        drafts.sort_by_key(|(place, number, _)| (*place, *number));
        let named = |message: &Message, number: usize, what: &str| {
            Arc::new(message.clone().with_id(format!("{}{number}:{what}", prompts::DRAFT)))
        };
        let mut all: Vec<Arc<Message>> = messages.shared().iter().cloned().collect();
        for (place, number, draft) in drafts.into_iter().rev() {
            all.splice(
                place..place,
                [named(&draft.answer, number, "answer"), named(&draft.correction, number, "correction")],
            );
        }
        Messages::of(all.into_iter())
    }

    pub(crate) fn ended(end: AgentEnd) -> Self {
        Self { end: Some(end), ..Self::default() }
    }
}

/// The way in which an agent's turn ended. [`AgentOutcome::ending`](crate::AgentOutcome::ending) and
/// [`BaseState::ending`](crate::BaseState::ending) return it.
///
/// ```
/// use hier_agents::AgentEnd;
/// use hier_agents::prelude::*;
/// use hier_testkit::ScriptedModel;
///
/// graph! {
///     Chat<BaseState> = Agent { system: "You answer in one word." }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let context = BaseContext::new(ScriptedModel::new([Message::assistant("Hello!")]));
/// let out = Chat::compile().invoke(Message::user("Good morning")).context(context).await?;
/// match out.ending() {
///     Some(AgentEnd::Text) => assert_eq!(out.state().current_agent_report, "Hello!"),
///     Some(end) => panic!("{end}"),
///     None => panic!("the run asks first"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentEnd {
    /// The model replied without a tool call. The text of the reply is the last message and the report.
    Text,
    /// The model gave a typed answer. The answer is in the channel that the agent declares as `answer`.
    Answer,
    /// The model of a `ReactGraph` or `TodoGraph` called `report_to_supervisor` or `finish_task`.
    Report,
    /// The agent reached a limit before its model had finished.
    Limit(AgentLimit),
    /// The channel `is_cancelled` was set.
    Cancelled,
    /// The model of a subagent gave no usable reply. The supervisor receives the string as the reason. In a root agent,
    /// the run fails with [`AgentFailed`](crate::AgentFailed) instead.
    Failed(String),
}

/// The limit that ended an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentLimit {
    /// The maximum number of model requests of the agent (`max_iterations`).
    Iterations(u32),
    /// The agent's share of the [`Budget`](crate::Budget). The string names the resource that the agent has used up.
    Budget(String),
    /// The maximum number of model calls of a [`Limit`](crate::layer::Limit) layer (`model_calls`).
    ModelCalls(u64),
    /// The maximum number of tokens of a [`Limit`](crate::layer::Limit) layer (`tokens`).
    Tokens(u64),
    /// The maximum cost of a [`Limit`](crate::layer::Limit) layer (`cost`).
    Cost(Usd),
    /// The length limit of a reply (`max_tokens`, or the model's own limit).
    ///
    /// The incomplete text of the reply is the last message and the report. A new input can ask the agent to continue.
    /// If reasoning used all tokens, the reply has no text. If a tool call is cut off, the agent asks the model again,
    /// and ends with this limit after three such replies in a row.
    Length,
    /// A content filter: the provider or the model withheld the reply. The partial text of the reply is not added to
    /// the conversation. If the replies of later turns are withheld too, remove the user message with
    /// [`Message::remove`].
    Filtered,
    /// The maximum number of equal tool calls with the same result (`max_repeats`). The model repeated the call even
    /// after the agent's warning.
    Repeats(u32),
    /// A limit of a custom layer. The string is the layer's reason.
    Layer(String),
}

impl AgentEnd {
    /// Returns true if the agent completed its task: for `Text`, `Answer` and `Report`.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Text | Self::Answer | Self::Report)
    }
}

impl fmt::Display for AgentEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("the agent replied"),
            Self::Answer => f.write_str("the agent gave its answer"),
            Self::Report => f.write_str("the agent reported"),
            Self::Limit(limit) => write!(f, "the agent ended early: {limit}"),
            Self::Cancelled => f.write_str("the agent ended early: the run was cancelled"),
            Self::Failed(reason) => write!(f, "the agent failed: {reason}"),
        }
    }
}

impl fmt::Display for AgentLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iterations(most) => write!(f, "it reached its limit of model requests (`max_iterations`: {most})"),
            Self::Budget(what) | Self::Layer(what) => f.write_str(what),
            Self::ModelCalls(most) => write!(f, "the run reached its limit of model calls ({most})"),
            Self::Tokens(most) => write!(f, "the run reached its token limit ({most})"),
            Self::Cost(most) => write!(f, "the run reached its cost limit ({most})"),
            Self::Length => {
                f.write_str("its reply was cut off at the token limit (`max_tokens`, or the limit of the model)")
            }
            Self::Filtered => f.write_str("the provider withheld its reply"),
            Self::Repeats(most) => {
                write!(f, "it repeated a call that returned the same result {most} times in a row")
            }
        }
    }
}
