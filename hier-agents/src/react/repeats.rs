//! Finds calls that a model makes again and again with the same result.

use crate::prompts;
use hier_checkpoint::message::{Body, Content, Message, Messages, ToolCall, ToolStatus};

/// A call of a model, compared with the replies before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepeatCheck {
    /// The call may be made.
    No,
    /// The call was repeated too often: the agent warns the model.
    Warn,
    /// The agent already warned the model after its last reply.
    Warned,
}

/// The replies of a turn so far.
#[derive(Clone, Copy)]
pub(super) struct EarlierAnswers<'a> {
    pub(super) messages: &'a Messages,
    /// Number of replies that the model has given in this turn.
    pub(super) answers: u32,
    /// True if a user message ends a series of repeated calls. False if the agent sends a user message for each request
    /// to its model.
    pub(super) users_count: bool,
    /// Number of times in a row that a call may return the same result.
    pub(super) most: u32,
}

impl EarlierAnswers<'_> {
    /// Compares a call that is about to be made with the calls of earlier replies. Equal calls with equal results count
    /// if their replies follow each other.
    pub(super) fn repeat(&self, call: &ToolCall) -> RepeatCheck {
        let mut results: Vec<(&str, CallOutcome<'_>)> = Vec::new();
        let (mut answers, mut equal) = (0, 0);
        let mut last: Option<CallOutcome<'_>> = None;
        for message in self.messages.iter().rev() {
            // Older messages belong to earlier turns, and there may be many.
            if answers == self.answers {
                break;
            }
            match &message.body {
                Body::Tool { content, status, tool_call_id, .. } => results.push((tool_call_id, (content, *status))),
                Body::User { .. } if self.users_count => break,
                Body::Assistant { .. } => {
                    answers += 1;
                    let calls = message.tool_calls().iter();
                    let same = calls.filter(|other| other.name == call.name && other.args == call.args);
                    let mut outcomes = same.filter_map(|other| {
                        results.iter().find(|(id, _)| *id == other.id).map(|(_, outcome)| *outcome)
                    });
                    let Some(outcome) = outcomes.next() else { break };
                    results.clear();
                    match last {
                        None if is_warning(outcome) => return RepeatCheck::Warned,
                        None => last = Some(outcome),
                        Some(last) if last == outcome => {}
                        Some(_) => break,
                    }
                    equal += 1;
                    if equal >= self.most {
                        return RepeatCheck::Warn;
                    }
                }
                _ => {}
            }
        }
        RepeatCheck::No
    }
}

type CallOutcome<'a> = (&'a Content, ToolStatus);

/// Returns true if the result is the warning that the call was repeated too often.
fn is_warning((content, status): CallOutcome<'_>) -> bool {
    let is_refusal = matches!(content, Content::Text(text) if text.contains(prompts::REPEATED));
    is_refusal && status == ToolStatus::Error
}

/// Splits calls into the calls that may be made, and the refusals of calls that are repeated too often.
pub(super) fn partition(earlier: &EarlierAnswers<'_>, calls: Vec<ToolCall>) -> PartitionedCalls {
    let mut parted = PartitionedCalls { made: Vec::new(), refused: Vec::new(), is_stuck: !calls.is_empty() };
    for call in calls {
        let repeat = earlier.repeat(&call);
        parted.is_stuck &= repeat == RepeatCheck::Warned;
        match repeat {
            RepeatCheck::No => parted.made.push(call),
            RepeatCheck::Warn | RepeatCheck::Warned => {
                parted.refused.push(prompts::refusal(&call, &prompts::repeated(earlier.most)));
            }
        }
    }
    parted
}

pub(super) struct PartitionedCalls {
    pub(super) made: Vec<ToolCall>,
    pub(super) refused: Vec<Message>,
    /// True if the model already received a warning for every call and makes no other call.
    pub(super) is_stuck: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: u32, order: u32) -> ToolCall {
        ToolCall::new("look", json!({ "order": order })).with_id(id.to_string())
    }

    /// Returns a conversation in which these orders were looked up one by one, with these results.
    fn looked_up(rounds: &[(u32, &str)]) -> Vec<Message> {
        let mut all = vec![Message::user("look")];
        for ((order, result), id) in rounds.iter().zip(0..) {
            all.extend([Message::calls("", [call(id, *order)]), Message::tool(&call(id, *order), *result)]);
        }
        all
    }

    fn repeat(all: Vec<Message>, answers: u32) -> RepeatCheck {
        let messages = all.into();
        EarlierAnswers { messages: &messages, answers, users_count: true, most: 3 }.repeat(&call(99, 1))
    }

    #[test]
    fn equal_calls_in_a_row_with_equal_results_are_repeats() {
        let same = (1, "nothing");
        assert_eq!(repeat(looked_up(&[same; 2]), 2), RepeatCheck::No);
        assert_eq!(repeat(looked_up(&[same; 3]), 3), RepeatCheck::Warn);
        // Another call or another result in between means that something has changed.
        assert_eq!(repeat(looked_up(&[same, same, (2, "nothing"), same]), 4), RepeatCheck::No);
        assert_eq!(repeat(looked_up(&[same, same, (1, "found"), same]), 4), RepeatCheck::No);
        // Calls of an earlier turn do not count, with or without a user message.
        assert_eq!(repeat(looked_up(&[same; 3]), 2), RepeatCheck::No);
        let mut all = looked_up(&[same; 3]);
        all.insert(5, Message::user("once more"));
        assert_eq!(repeat(all, 3), RepeatCheck::No);
        // System messages in between do not reset the count.
        let mut all = looked_up(&[same; 3]);
        all.insert(4, Message::system("rules"));
        assert_eq!(repeat(all, 3), RepeatCheck::Warn);
    }

    #[test]
    fn warned_model_is_stuck() {
        let mut all = looked_up(&[(1, "nothing"); 3]);
        let warning = [Message::calls("", [call(7, 1)]), prompts::refusal(&call(7, 1), &prompts::repeated(3))];
        all.extend(warning);
        assert_eq!(repeat(all.clone(), 4), RepeatCheck::Warned);
        let messages = all.into();
        let earlier = EarlierAnswers { messages: &messages, answers: 4, users_count: true, most: 3 };
        assert!(partition(&earlier, vec![call(8, 1)]).is_stuck);
        let both = partition(&earlier, vec![call(8, 1), call(9, 2)]);
        assert_eq!((both.made.len(), both.refused.len(), both.is_stuck), (1, 1, false));
    }
}
