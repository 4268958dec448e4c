//! The code of `docs/durability.md`.

use std::time::{Duration, SystemTime};

use hier::checkpoint::{Key, Postgres};
use hier::graph::{CompiledGraph, Signal};
use hier::prelude::*;
use serde_json::{Map, Value};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 2, migrate = [from_v1])]
struct Filing {
    title: String,
}

/// Version 1 had the channel `name` instead of `title`.
fn from_v1(stored: &mut Map<String, Value>) -> hier::Result<()> {
    if let Some(title) = stored.remove("name") {
        stored.insert("title".to_owned(), title);
    }
    Ok(())
}

graph! {
    Review<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] }
}

async fn assess() {}

async fn first() -> hier::Result<()> {
    let review = Review::compile().checkpointer(Sqlite::open("review.db").await?);
    let outcome = review.invoke(Filing::update().title("2026")).thread("case-17").await?;
    Ok(())
}

async fn options(key: &str, url: &str) -> hier::Result<()> {
    let saver = Postgres::options().schema("desk").compress().encrypt(&Key::from_hex(key)?).connect(url).await?;
    saver.migrate().await?; // creates or updates the tables; several processes may call it at once
    Ok(())
}

async fn continuing(review: CompiledGraph<Filing>) -> hier::Result<()> {
    let outcome = review.invoke(()).thread("case-17").await?;
    Ok(())
}

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    links: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Receipt {
    number: u32,
}

struct Bank;

impl Bank {
    async fn charge(&self, order: &Order) -> hier::Result<Receipt> {
        Ok(Receipt { number: 7 })
    }
}

async fn fetch(url: &String) -> hier::Result<String> {
    Ok(url.clone())
}

async fn steps(run: &Run, bank: Bank, order: Order) -> hier::Result<Vec<String>> {
    let mut pages = Vec::new();
    let receipt = run.step("charge", async || bank.charge(&order).await).await?;
    for url in &order.links {
        pages.push(run.step_for("page", url, async |url| fetch(url).await).await?);
    }
    Ok(pages)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Decision {
    Yes,
    No,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Question {
    pay: f64,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: f64,
    decision: Option<Decision>,
}

/// The payment of an order.
#[derive(Serialize, Deserialize)]
enum Paid {
    Yes,
    No,
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

async fn timers(run: &Run, question: Question, evening: SystemTime) -> hier::Result<()> {
    run.sleep(WEEK).await?; // or `sleep_until(time)`
    let ok = run.interrupt(&question).until(evening, false).await?; // a default after the deadline
    let receipt: Receipt = run.signal("receipt").await?;
    let paid = run.signal("paid").until(evening, Paid::No).await?; // a default if no signal arrives
    Ok(())
}

async fn signals(graph: CompiledGraph<Invoice>, receipt: Receipt) -> hier::Result<()> {
    graph.send("order-7", Signal::new("receipt", &receipt)).await?; // before or after the wait, from any process
    Ok(())
}

struct Desk;

impl Desk {
    fn new() -> Self {
        Self
    }
}

fn sweeps(graph: CompiledGraph<Invoice, Desk>) {
    let _sweeper = graph.sweeper(|_thread| Desk::new()).every(Duration::from_secs(5)); // in each process that may do it
}

mod inbox {
    use super::*;

    type Chat = BaseState;

    graph! {
        Support<Chat> = Agent { system: "You answer customers.", inbox: messages }
    }

    async fn send_message() -> hier::Result<()> {
        let graph = Support::compile().checkpointer(MemorySaver::new());
        graph.send("case-17", "The customer called again.").await?; // the channel's value, or one item of it
        Ok(())
    }
}

async fn back(graph: CompiledGraph<Filing>) -> hier::Result<()> {
    let now = graph.state("case-17").await?;
    let past = graph.states("case-17").await?; // all checkpoints, newest first
    Ok(())
}
