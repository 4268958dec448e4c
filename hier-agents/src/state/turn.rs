//! The state of an agent's turn, and how the turn ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::prompts;
use hier_checkpoint::message::{Message, Messages, ToolCall, Usd};

/// The progress of an agent's turn. It is the value of the channel `agent_turn`. A turn begins with a new input or, in
/// a subagent, with each call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AgentTurn {
    /// The end of the turn. `None` while it is in progress.
    pub end: Option<AgentEnd>,
    /// The number of unusable answers of the model.
    pub misfits: u32,
    /// Rejected answers that the model sees in its requests. They are not part of the conversation.
    pub drafts: Vec<RejectedAnswer>,
    /// The number of consecutive answers that the token limit cut off before they were usable.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_off: u32,
    /// The fingerprints of the toolset tools that are being called, as the model last received them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
}

/// An answer that did not fit the requested type. The model sees it in its original place in the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RejectedAnswer {
    /// The id of the message before the answer. `None` if the answer came first.
    pub after: Option<String>,
    /// The answer.
    pub answer: Message,
    /// The correction that the model receives.
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
    /// The model answered without a tool call. Its text is the last message and the report.
    Text,
    /// The model gave a typed answer, which is in the channel that the agent declares as `answer`.
    Answer,
    /// The model called `report_to_supervisor` or `finish_task`. Only in a `ReactGraph` or `TodoGraph`.
    Report,
    /// The agent reached a limit before the model had finished.
    Limit(AgentLimit),
    /// The run was cancelled.
    Cancelled,
    /// The model gave no usable answer. Only for a subagent, whose supervisor receives this reason. The run of a root
    /// agent fails with [`AgentFailed`](crate::AgentFailed) instead.
    Failed(String),
}

/// The limit that ended an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentLimit {
    /// The maximum number of model requests of the agent (`max_iterations`).
    Iterations(u32),
    /// The [`Budget`](crate::Budget). The string names the resource that was used up.
    Budget(String),
    /// The maximum number of model calls of a [`Limit`](crate::layer::Limit) layer (`model_calls`).
    ModelCalls(u64),
    /// The maximum number of tokens of a [`Limit`](crate::layer::Limit) layer (`tokens`).
    Tokens(u64),
    /// The maximum cost of a [`Limit`](crate::layer::Limit) layer (`cost`).
    Cost(Usd),
    /// The answer reached the token limit (`max_tokens`, or the model's own limit).
    ///
    /// The cut-off text is the last message and the report, and a new input can ask the agent to continue. If reasoning
    /// took all tokens, there is no text. Tool calls that are cut off three times in a row are not made.
    Length,
    /// The provider or the model withheld the answer. Its partial text is not added to the conversation. If later turns
    /// are withheld too, remove the user message with [`Message::remove`].
    Filtered,
    /// The model repeated a tool call that had returned the same result this many times in a row (`max_repeats`), even
    /// after a warning.
    Repeats(u32),
    /// A custom layer ended the turn. The string is its reason.
    Layer(String),
}

impl AgentEnd {
    /// Returns true if the agent completed its task.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Text | Self::Answer | Self::Report)
    }
}

impl fmt::Display for AgentEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("the agent answered"),
            Self::Answer => f.write_str("the agent gave its answer"),
            Self::Report => f.write_str("the agent reported"),
            Self::Limit(limit) => write!(f, "the agent was ended: {limit}"),
            Self::Cancelled => f.write_str("the agent was ended: the run was cancelled"),
            Self::Failed(reason) => write!(f, "the agent failed: {reason}"),
        }
    }
}

impl fmt::Display for AgentLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iterations(most) => write!(f, "it asked its model {most} times"),
            Self::Budget(what) | Self::Layer(what) => f.write_str(what),
            Self::ModelCalls(most) => write!(f, "models answered {most} times in this run"),
            Self::Tokens(most) => write!(f, "{most} tokens were used in this run"),
            Self::Cost(most) => write!(f, "{most} were spent in this run"),
            Self::Length => f.write_str("its answer was cut off at the token limit"),
            Self::Filtered => f.write_str("the provider withheld its answer"),
            Self::Repeats(most) => {
                write!(f, "it repeated a call that returned the same result {most} times in a row")
            }
        }
    }
}
