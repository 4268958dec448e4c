//! A support desk: a person approves large refunds, the customer's app picks photos, and each run may cost five cents.
//!
//! ```text
//! cargo run --example support_desk                                    without a key: a scripted model
//! cargo run --example support_desk -- "Order 18 arrived broken."      a refund that needs approval
//! cargo run --example support_desk -- --db desk.db                    durable: press Ctrl-C at a question, run again
//! cargo run --features models --example support_desk -- --model anthropic:claude-sonnet-5
//! cargo run --features models --example support_desk -- --model ollama:qwen3 --price 0 0
//! ```
//!
//! The terminal is the customer's app and the person who approves. As the app, enter the name of a photo, or nothing if
//! there is none. As the person, enter `yes` to approve a refund, a number to change its amount, or a reason to
//! reject it.
//!
//! Customers write the messages and `order` reads private data, so the compiler refuses a `refund` without `approve:`.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::Arc;

use clap::Parser;
use hier::agent::layer::Limit;
use hier::agent::{
    Approval, ApprovalRequest, Body, ChatModel, ChatRequest, ClientResult, ModelPrice, Prices, Usage, Usd,
};
use hier::checkpoint::{Checkpointer, MemorySaver};
use hier::message::ToolCall;
use hier::prelude::*;
use hier::testing::ScriptedModel;
use hier::{QuestionAnswer, Result};
use serde_json::json;

graph! {
    /// Answers customers of the shop.
    SupportDesk<MessagesState, Shop> = Agent {
        system: "You answer customers of the shop. Before you refund an order, look it up and ask for a photo of the damage.",
        input: untrusted,
        tools: [order, pick_photo, refund { approve: |args, shop| args.eur > shop.limit }],
        layers: [Limit { cost: 0.05 }],
        asks: [PickPhotoCall, ApprovalRequest],
        max_iterations: 12,
    }
}

/// Looks up the payment of an order.
#[tool(private)]
async fn order(number: u32, run: &Run<Shop>) -> String {
    match run.context().payments.get(&number) {
        Some(eur) => format!("{eur} euros were paid"),
        None => "there is no such order".to_owned(),
    }
}

/// Lets the customer pick a photo.
#[tool(client, untrusted, timeout = 1h)]
async fn pick_photo(
    /// The object to photograph, such as the damage.
    shows: String,
) -> Photo;

/// A photo in the customer's app.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Photo {
    name: String,
}

/// Pays money back.
#[tool(sends)]
async fn refund(number: u32, eur: u32) -> String {
    println!("(order {number}: {eur} euros are paid back)");
    format!("{eur} euros are on their way")
}

/// The context of the tools.
struct Shop {
    base: BaseContext,
    /// The payment of each order in euros.
    payments: BTreeMap<u32, u32>,
    /// The amount in euros up to which refunds need no approval.
    limit: u32,
}

impl AsRef<BaseContext> for Shop {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Answers a customer of the shop.
#[derive(Parser)]
struct Arguments {
    /// The message of the customer.
    #[arg(default_value = "Order 17 arrived broken.")]
    message: String,
    /// The model: `openai:NAME`, `anthropic:NAME`, `ollama:NAME`, or the URL of a server compatible with OpenAI's.
    /// Defaults to a scripted model.
    #[arg(long)]
    model: Option<String>,
    /// The prices of the model's input and output in US dollars per million tokens, if `Prices::published` lacks it.
    #[arg(long, num_args = 2, value_names = ["INPUT", "OUTPUT"])]
    price: Vec<f64>,
    /// The database of the desk: a file, `sqlite:PATH` or `postgres:URL`. Defaults to memory.
    #[arg(long)]
    db: Option<String>,
}

/// The customer's conversation.
const THREAD: &str = "customer-1";

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { message, model, price, db } = Arguments::parse();
    let model: Arc<dyn ChatModel> = match model {
        Some(name) => hier_examples::model(&name)?,
        None => Arc::new(ScriptedModel::reacting(decide)),
    };
    let saver: Arc<dyn Checkpointer> = match db {
        Some(name) => hier_examples::database(&name).await?,
        None => Arc::new(MemorySaver::new()),
    };
    let prices = Arc::new(prices(model.name(), &price)?);
    let shop = || Shop {
        base: BaseContext::new(model.clone()).prices(prices.clone()),
        payments: [(17, 30), (18, 250)].into(),
        limit: 100,
    };
    let desk = SupportDesk::compile().checkpointer(saver);
    // An earlier process may have left a run that is not finished. It continues where it stopped.
    let is_new = desk.state(THREAD).await?.is_finished();
    let run = if is_new { desk.invoke(Message::user(message)) } else { desk.invoke(()) };
    let mut out = run.thread(THREAD).context(shop()).await?;
    while let Outcome::Interrupted(_) = &out {
        let answers = out.questions()?.iter().map(answer).collect::<Result<Vec<_>>>()?;
        out = desk.invoke(answers).thread(THREAD).context(shop()).await?;
    }
    println!("{}", out.text());
    let costs = out.state().messages().iter().filter_map(|message| message.usage()?.cost);
    println!("(the conversation has cost {})", costs.sum::<Usd>());
    Ok(())
}

/// Returns the published prices, and those of the model if they are given.
fn prices(model: &str, given: &[f64]) -> Result<Prices> {
    let prices = Prices::published().model("scripted", ModelPrice::new(2.0, 10.0));
    Ok(match given {
        [input, output] => prices.model(model, serde_json::from_value(json!({ "input": input, "output": output }))?),
        _ => prices,
    })
}

/// Answers a question in the terminal.
fn answer(question: &SupportDeskQuestion) -> Result<QuestionAnswer> {
    Ok(match question {
        SupportDeskQuestion::PickPhotoCall(pick) => {
            let name = entered(&format!("Please pick a photo. It should show {}", pick.args().shows))?;
            pick.answer(match name.as_str() {
                "" => ClientResult::Failed("the customer has no photo".to_owned()),
                _ => ClientResult::Done(Photo { name }),
            })
        }
        SupportDeskQuestion::ApprovalRequest(asked) => {
            let entered = entered(&format!("{} wants {} {}", asked.agent, asked.call.name, asked.call.args))?;
            asked.answer(match (entered.as_str(), entered.parse::<u32>()) {
                ("yes", _) => Approval::Approve,
                (_, Ok(eur)) => {
                    let mut args = asked.call.args.clone();
                    args["eur"] = json!(eur);
                    Approval::Edit { args }
                }
                ("", _) => Approval::Reject { reason: "it was not approved".to_owned() },
                _ => Approval::Reject { reason: entered },
            })
        }
    })
}

fn entered(prompt: &str) -> Result<String> {
    print!("{prompt}: ");
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Answers for the scripted model: looks the order up, requests a photo, refunds the payment and reports the result.
fn decide(request: &ChatRequest) -> Message {
    let question = request.messages.iter().rfind(|message| matches!(message.body, Body::User { .. }));
    let number = question.and_then(|question| number(&question.text()));
    let turn = request.messages.iter().rev().take_while(|message| !matches!(message.body, Body::User { .. }));
    let results: BTreeMap<String, String> = turn
        .filter_map(|message| match &message.body {
            Body::Tool { name: Some(name), .. } => Some((name.clone(), message.text())),
            _ => None,
        })
        .collect();
    let result = |name: &str| results.get(name).map(String::as_str);
    let message = match (number, result("order"), result("pick_photo"), result("refund")) {
        (None, ..) => Message::assistant("Which order do you mean?"),
        (Some(number), None, ..) => {
            let order = ToolCall::new("order", json!({ "number": number }));
            Message::calls("", [order, ToolCall::new("pick_photo", json!({ "shows": "the damage" }))])
        }
        (Some(number), Some(order), Some(photo), None) if !photo.starts_with("Error") => match self::number(order) {
            Some(eur) => Message::call("refund", json!({ "number": number, "eur": eur })),
            None => Message::assistant(format!("Order {number}: {order}.")),
        },
        (Some(number), _, _, Some(refund)) => {
            // If the operator edited the call, a line before the result says so.
            let result = refund.lines().last().unwrap_or_default();
            Message::assistant(format!("Order {number}: {result}."))
        }
        (Some(number), ..) => Message::assistant(format!("Order {number}: please send a photo of the damage.")),
    };
    message.with_usage(Usage::new(1_200, 60))
}

/// Finds the first number in a text.
fn number(text: &str) -> Option<u32> {
    text.split(|letter: char| !letter.is_ascii_digit()).find_map(|digits| digits.parse().ok())
}
