//! An agent that chats, and knows the weather.

mod stand_in;

use hier::prelude::*;
pub use stand_in::StandIn;

graph! {
    /// Chats, and knows the weather.
    pub Assistant<BaseState> = Agent {
        system: "You are friendly and brief.",
        tools: [weather],
    }
}

/// The weather of a city, today.
#[tool]
async fn weather(
    /// The city's name.
    city: String,
) -> String {
    format!("sunny in {city}")
}
