use hier_agents::{ChatResponse, FinishReason, Message, Reasoning, ToolCall, Usage};

use super::AnswerDraft;
use crate::error::{FailureKind, ModelFailure};

/// The finish reasons of Gemini and Bedrock for a malformed call.
const UNREADABLE: [&str; 6] = [
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MALFORMED_RESPONSE",
    "malformed_model_output",
    "malformed_tool_use",
];

impl AnswerDraft {
    /// Converts the draft into the answer. Fails if the answer cannot be used. The caller of the model checks if the
    /// answer matches a requested schema, because it can ask the model again.
    pub(crate) fn into_answer(mut self) -> Result<ChatResponse, ModelFailure> {
        self.close();
        self.check()?;
        let (calls, reasoning) = self.take_calls_and_thoughts();
        let citations = self.take_citations();
        let message = Message::calls(self.text, calls).with_reasoning(reasoning).with_citations(citations);
        let message = match self.usage {
            Some(usage) => message.with_usage(usage + self.earlier_usage),
            None if self.earlier_usage != Usage::default() => message.with_usage(self.earlier_usage),
            None => message,
        };
        let response = ChatResponse::new(message);
        let response = match self.model {
            Some(model) => response.with_model(model),
            None => response,
        };
        Ok(match self.finish {
            Some(finish) => response.with_finish(finish),
            None => response,
        })
    }

    /// Takes the calls, with unique ids, and the thoughts, with the ids of the calls that they led to. If the answer
    /// was cut off, the arguments become text, so that no call is executed: tools refuse text with a message for the
    /// model.
    fn take_calls_and_thoughts(&mut self) -> (Vec<ToolCall>, Vec<Reasoning>) {
        let mut drafts = std::mem::take(&mut self.calls);
        let ids: Vec<String> = drafts.iter_mut().map(|call| call.assign_id(&mut self.known_ids).to_owned()).collect();
        if let Some(last) = drafts.len().checked_sub(1) {
            self.thoughts.iter_mut().for_each(|thought| thought.mark_behind(last));
        }
        let thoughts = std::mem::take(&mut self.thoughts).into_iter();
        let reasoning = thoughts.filter_map(|thought| thought.reasoning(&self.maker, &ids)).collect();
        // Numbered calls are sorted by number. Calls without numbers keep the order of their arrival.
        drafts.sort_by_key(|call| call.index);
        let cut = match self.finish {
            Some(FinishReason::Length) => Some("the limit of tokens"),
            Some(FinishReason::ContentFilter) => Some("the provider's filter"),
            _ => None,
        };
        (drafts.into_iter().map(|call| call.into_tool_call(cut)).collect(), reasoning)
    }

    /// Rejects an empty answer unless its finish reason explains it.
    fn check(&self) -> Result<(), ModelFailure> {
        if let Some(defect) = &self.defect {
            return Err(ModelFailure::bad_answer(defect));
        }
        let has_text = !self.text.is_empty();
        if !self.calls.is_empty() {
            return Ok(());
        }
        let reason = match &self.finish {
            Some(FinishReason::Other(reason)) if has_text && !UNREADABLE.contains(&&**reason) => return Ok(()),
            _ if has_text && !matches!(self.finish, Some(FinishReason::Other(_))) => return Ok(()),
            Some(FinishReason::Stop | FinishReason::Length | FinishReason::ContentFilter) => return Ok(()),
            Some(reason) => reason.to_string(),
            None => return Err(ModelFailure::bad_answer("the reply has neither text nor a tool call")),
        };
        let comment = self.comment.as_ref().map_or_else(String::new, |comment| format!(": {comment}"));
        let what =
            if has_text { "the reply has no readable tool call" } else { "the reply has neither text nor a tool call" };
        let hint = UNREADABLE.contains(&&*reason).then(|| {
            format!("Your last answer could not be read ({reason}){comment}. Answer again, and call tools as they are declared.")
        });
        let failure = ModelFailure::new(FailureKind::Unusable, format!("{what}, and ended with `{reason}`{comment}"));
        Err(ModelFailure { hint, ..failure })
    }
}
