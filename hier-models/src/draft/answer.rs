//! The answer that comes of a draft, or why it cannot be used.

use hier_agents::{ChatRequest, ChatResponse, FinishReason, Message, Reasoning, ToolCall, Usage};
use serde_json::Value;

use super::Draft;
use crate::error::{Failure, Kind};

/// The longest piece of an answer that an error repeats, in characters.
const SHOWN: usize = 200;

/// Finish reasons with which Gemini reports a malformed call.
const UNREADABLE: [&str; 4] =
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"];

impl Draft {
    /// The answer to this request.
    pub(crate) fn answer(mut self, request: &ChatRequest) -> Result<ChatResponse, Failure> {
        self.close();
        self.check()?;
        let (calls, reasoning) = self.settle();
        let is_cut_off = matches!(self.finish, Some(FinishReason::Length | FinishReason::ContentFilter));
        if request.output.is_some() && calls.is_empty() && !is_cut_off {
            self.check_shape()?;
        }
        let message = Message::calls(self.text, calls).with_reasoning(reasoning);
        let message = match self.usage {
            Some(usage) => message.with_usage(usage + self.spent),
            None if self.spent != Usage::default() => message.with_usage(self.spent),
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

    /// The calls, each with an id that no other call of the conversation has, and what was thought, with the ids of the
    /// calls that it led to. Where the answer was cut off, no call can be made: the arguments are text, which tools refuse
    /// in words for the model.
    fn settle(&mut self) -> (Vec<ToolCall>, Vec<Reasoning>) {
        let mut drafts = std::mem::take(&mut self.calls);
        let ids: Vec<String> = drafts.iter_mut().map(|call| call.settle(&mut self.known).to_owned()).collect();
        let thoughts = std::mem::take(&mut self.thoughts).into_iter();
        let reasoning = thoughts.filter_map(|thought| thought.reasoning(&self.maker, &ids)).collect();
        // In the order of their numbers if they have any, else as they arrived.
        drafts.sort_by_key(|call| call.index);
        let cut = match self.finish {
            Some(FinishReason::Length) => Some("the limit of tokens"),
            Some(FinishReason::ContentFilter) => Some("the provider's filter"),
            _ => None,
        };
        (drafts.into_iter().map(|call| call.made(cut)).collect(), reasoning)
    }

    /// Rejects an empty answer unless its finish reason explains it.
    fn check(&self) -> Result<(), Failure> {
        if let Some(mistake) = &self.mistake {
            return Err(Failure::bad_answer(mistake));
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
            None => return Err(Failure::bad_answer("it has neither text nor a call")),
        };
        let remark = self.remark.as_ref().map_or_else(String::new, |remark| format!(": {remark}"));
        let what = if has_text { "it has no call that can be read" } else { "it has neither text nor a call" };
        let hint = UNREADABLE.contains(&&*reason).then(|| {
            format!("Your last answer could not be read ({reason}){remark}. Answer again, and call tools as they are declared.")
        });
        let failure = Failure::new(Kind::Unusable, format!("{what}, and ended with `{reason}`{remark}"));
        Err(Failure { hint, ..failure })
    }

    fn check_shape(&self) -> Result<(), Failure> {
        let Err(error) = serde_json::from_str::<Value>(&self.text) else { return Ok(()) };
        let shown: String = self.text.chars().take(SHOWN).collect();
        let tail = if shown.len() < self.text.len() { "…" } else { "" };
        Err(Failure::bad_answer(format!("it is not the JSON that was asked for ({error}): {shown}{tail}")))
    }
}
