//! The code of `docs/agents.md` and `docs/layers.md`.

use std::sync::Arc;

use hier::agent::layer::{Emails, Fallback, Limit, Redact};
use hier::agent::{ChatModel, Effort, ModelOptions, ToolAnswer, ToolSpec, Toolset};
use hier::async_trait;
use hier::message::ToolCall;
use hier::prelude::*;
use hier::state::wants_tools;

async fn first() -> hier::Result<()> {
    use hier::prelude::*;

    graph! {
        /// Answers customers.
        pub Support<MessagesState> = Agent {
            system: "You answer customers of the shop.",
            tools: [weather],
        }
    }

    /// The weather of a city, today.
    #[tool]
    async fn weather(city: String) -> String {
        format!("sunny in {city}")
    }

    let context = BaseContext::new(Model::parse("anthropic:claude-sonnet-4-5")?);
    let out = Support::compile().invoke(Message::user("What is the weather in Rome?")).context(context).await?;
    println!("{}", out.text());
    Ok(())
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    accepted: bool,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Chat {
    #[state(flatten)]
    base: BaseState,
    mood: String,
    #[reducer(append)]
    findings: Vec<String>,
    verdict: Option<Verdict>,
}

pub struct Desk {
    base: BaseContext,
    smart: Arc<dyn ChatModel>,
    cheap: Arc<dyn ChatModel>,
    crm: Arc<Crm>,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

pub struct Crm;

#[async_trait]
impl Toolset for Crm {
    fn name(&self) -> &str {
        "crm"
    }

    async fn tools(&self) -> hier::Result<Arc<[ToolSpec]>> {
        Ok([].into())
    }

    async fn call(&self, call: &ToolCall, _: &Run) -> hier::Result<ToolAnswer> {
        Ok(ToolAnswer::Refused(call.name.clone()))
    }
}

/// Looks an order up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("{order}: 30 euros")
}

/// Pays an order back.
#[tool(needs_approval)]
async fn refund(order: u32) -> String {
    format!("{order} is paid back")
}

graph! {
    /// Finds out.
    Researcher<Chat, Desk> = Agent { system: "You find out." }
}

mod one {
    use super::*;

    graph! {
        /// Answers customers.
        pub Support<Chat, Desk> = Agent {
            system: |state: &Chat| format!("You answer customers. Be {}.", state.mood),   // or a text
            model: |desk| &desk.smart,                          // defaults to the context's model
            options: ModelOptions { temperature: 0.2, reasoning: Effort::Low },  // the model decides the others
            tools: [lookup, refund],
            subagents: [Researcher { merge_fields: [findings] }],
            answer: verdict,                                    // a channel; without it the agent ends with text
            max_iterations: 20,
        }
    }
}

mod search {
    use super::*;

    graph! {
        Clerk<Chat, Desk> = Agent {
            tools: [lookup, refund, |desk| &desk.crm],
            search: ToolSearch { above: 20, results: 5 },
        }
    }
}

mod nodes {
    use super::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Chat {
        #[reducer(messages)]
        messages: Messages,
    }

    graph! {
        Support<Chat, Desk> = Graph {
            nodes: [think, act = tools![lookup, refund]],
            edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
        }
    }

    async fn think(state: &Chat, run: &Run<Desk>) -> hier::Result<ChatUpdate> {
        let question = run.model()?.ask(&state.messages).system("You help customers.");
        Ok(Chat::update().messages(question.tools(tools![lookup, refund]).await?.message))
    }
}

mod layers {
    use super::*;

    graph! {
        Support<Chat, Desk> = Agent {
            layers: [Fallback(|desk| &desk.cheap), Limit { model_calls: 50 }, Redact(Emails)],
        }
    }
}

mod costs {
    use super::*;
    use hier::agent::{ModelPrice, Prices};

    graph! {
        Thrifty<BaseState> = Agent { layers: [Limit { cost: 2.00 }] }
    }

    const HOUSE_MODEL: ModelPrice = ModelPrice::new(0.50, 2.00).cached_input(0.05);

    fn priced(base: BaseContext) -> BaseContext {
        base.prices(Prices::published().model("house-model", HOUSE_MODEL))
    }
}
