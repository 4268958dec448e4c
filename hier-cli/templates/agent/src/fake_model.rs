//! A fake model that needs no key. Remove it when you use a real one.

use hier::agent::{ChatModel, ChatRequest, ChatResponse, ModelError};
use hier::prelude::*;

/// Asks for the weather if the message names a city, and otherwise repeats the message.
pub struct FakeModel;

#[hier::async_trait]
impl ChatModel for FakeModel {
    fn name(&self) -> &str {
        "fake"
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let last = request.messages.last();
        let text = last.map(Message::text).unwrap_or_default();
        let answer = match (last.and_then(Message::tool_call_id), text.split_once("weather in ")) {
            (Some(_), _) => Message::assistant(format!("It is {text}.")),
            (None, Some((_, city))) => Message::call("weather", serde_json::json!({ "city": city.trim_end_matches('?') })),
            (None, None) => Message::assistant(format!("You said: {text}")),
        };
        Ok(ChatResponse::new(answer))
    }
}
