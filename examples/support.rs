//! A support agent whose refunds need a person's approval.
//!
//! ```text
//! cargo run --example support                                        without a key: a scripted model
//! cargo run --example support -- "Refund order 18, please."
//! cargo run --example support -- --model anthropic:claude-sonnet-4-5
//! ```
//!
//! The program shows each call of `refund` before it is made. `yes` approves it, a number changes the amount, and any other
//! text rejects it and is sent to the model as the reason.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use hier::Result;
use hier::agent::{Approval, ApprovalRequest, Body, ChatModel, ChatRequest};
use hier::checkpoint::MemorySaver;
use hier::prelude::*;
use hier::testing::ScriptedModel;
use serde_json::{Value, json};

/// The context: a model, and the payments for the tools.
struct Shop {
    base: BaseContext,
    /// The payment of each order in euros.
    orders: BTreeMap<u32, u32>,
    refunds: Mutex<Vec<(u32, u32)>>,
}

impl AsRef<BaseContext> for Shop {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    /// Answers customers of the shop.
    Support<MessagesState, Shop> = Agent {
        system: "You answer customers of the shop. Look an order up before you refund it.",
        tools: [order, refund],
        max_iterations: 8,
    }
}

/// Looks up the payment of an order.
#[tool]
async fn order(number: u32, run: &Run<Shop>) -> String {
    match run.context().orders.get(&number) {
        Some(eur) => format!("{eur} euros were paid"),
        None => "there is no such order".to_owned(),
    }
}

/// Pays money back.
#[tool(needs_approval)]
async fn refund(number: u32, eur: u32, run: &Run<Shop>) -> String {
    run.context().refunds.lock().unwrap_or_else(PoisonError::into_inner).push((number, eur));
    format!("{eur} euros are on their way")
}

/// Answers a customer of the shop.
#[derive(Parser)]
struct Arguments {
    /// The message of the customer.
    #[arg(default_value = "Please refund order 17.")]
    question: String,
    /// The model: `openai:NAME`, `anthropic:NAME`, `ollama:NAME`, or the URL of a server compatible with OpenAI's.
    /// Defaults to a scripted model.
    #[arg(long)]
    model: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { question, model } = Arguments::parse();
    let model: Arc<dyn ChatModel> = match model {
        Some(name) => hier_examples::model(&name)?,
        None => Arc::new(ScriptedModel::reacting(decide)),
    };
    let shop = || Shop {
        base: BaseContext::new(model.clone()),
        orders: [(17, 30), (18, 250)].into(),
        refunds: Mutex::default(),
    };
    let support = Support::compile().checkpointer(MemorySaver::new());
    let mut out = support.invoke(Message::user(question)).thread("customer").context(shop()).await?;
    while let Outcome::Interrupted(asked) = &out {
        let answers = asked.questions.iter().map(|question| Ok((question.id.clone(), approval(&question.parse()?)?)));
        let answers = answers.collect::<Result<Vec<_>>>()?;
        out = support.invoke(Command::answers(answers)).thread("customer").context(shop()).await?;
    }
    println!("{}", out.text());
    Ok(())
}

/// Asks for approval in the terminal.
fn approval(asked: &ApprovalRequest) -> Result<Approval> {
    print!("{} wants {} {}: ", asked.agent, asked.call.name, asked.call.args);
    std::io::stdout().flush()?;
    let mut said = String::new();
    std::io::stdin().lock().read_line(&mut said)?;
    Ok(match (said.trim(), said.trim().parse::<u32>()) {
        ("yes", _) => Approval::Approve,
        (_, Ok(eur)) => {
            let mut args = asked.call.args.clone();
            args["eur"] = json!(eur);
            Approval::Edit { args }
        }
        ("", _) => Approval::Reject { reason: "it was not approved".to_owned() },
        (reason, _) => Approval::Reject { reason: reason.to_owned() },
    })
}

/// Answers for the scripted model: looks the order up, refunds the payment and reports the result.
fn decide(request: &ChatRequest) -> Message {
    let question = request.messages.iter().rfind(|message| matches!(message.body, Body::User { .. }));
    let question = question.map(Message::text).unwrap_or_default();
    let number = number(&question).unwrap_or_default();
    let Some(last) = request.messages.last() else { return Message::assistant("How can I help?") };
    match &last.body {
        Body::Tool { name: Some(name), .. } if name == "order" => match self::number(&last.text()) {
            Some(eur) => Message::call("refund", json!({ "number": number, "eur": eur })),
            None => Message::assistant(format!("Order {number}: {}.", last.text())),
        },
        Body::Tool { .. } => Message::assistant(format!("Order {number}: {}.", last.text())),
        _ => Message::call("order", json!({ "number": Value::from(number) })),
    }
}

/// Finds the first number in a text.
fn number(text: &str) -> Option<u32> {
    text.split(|letter: char| !letter.is_ascii_digit()).find_map(|digits| digits.parse().ok())
}
