//! A chat agent that knows the weather.

mod fake_model;

use hier::prelude::*;
pub use fake_model::FakeModel;

graph! {
    /// Chats, and knows the weather.
    pub Assistant<MessagesState> = Agent {
        system: "You are friendly and brief.",
        tools: [weather],
    }
}

/// Returns the weather of a city.
#[tool]
async fn weather(
    /// The city's name.
    city: String,
) -> String {
    format!("sunny in {city}")
}
