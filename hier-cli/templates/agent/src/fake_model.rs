//! A model that needs no key. Remove it once you have a real one.

use hier::agent::{ChatModel, ChatRequest, ChatResponse, ModelError};
use hier::prelude::*;

/// Asks for the weather where a city is named, and else repeats what it was told.
pub struct StandIn;

#[hier::async_trait]
impl ChatModel for StandIn {
    fn name(&self) -> &str {
        "stand-in"
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let last = request.messages.last();
        let said = last.map(Message::text).unwrap_or_default();
        let answer = match (last.and_then(Message::tool_call_id), said.split_once("weather in ")) {
            (Some(_), _) => Message::assistant(format!("It is {said}.")),
            (None, Some((_, city))) => Message::call("weather", serde_json::json!({ "city": city.trim_end_matches('?') })),
            (None, None) => Message::assistant(format!("You said: {said}")),
        };
        Ok(ChatResponse::new(answer))
    }
}
