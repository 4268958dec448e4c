//! Durable steps that run once, a question with a deadline, a signal, a timer, and messages to a running thread.
//!
//! ```text
//! cargo run --example steps
//! ```
//!
//! An order is charged, approved until the evening, paid, and followed up a week later. After each wait the node runs again from its
//! beginning, and its recorded steps are not repeated. The example does not wait a week: it moves the clock of the sweeper.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hier::Result;
use hier::checkpoint::MemorySaver;
use hier::graph::Signal;
use hier::prelude::*;

const DAY: Duration = Duration::from_hours(24);
const WEEK: Duration = Duration::from_hours(168);

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Order {
    links: Vec<String>,
    #[reducer(append)]
    notes: Vec<String>,
    #[reducer(append)]
    log: Vec<String>,
}

/// The effects outside of the thread.
#[derive(Default)]
struct World {
    charged: AtomicUsize,
    fetched: AtomicUsize,
}

type Shared = std::sync::Arc<World>;

graph! {
    /// Handles an order.
    Shop<Order, Shared> = Graph {
        nodes: [handle, follow_up],
        edges: [START >> handle >> follow_up >> END],
        inbox: notes,
    }
}

async fn handle(state: &Order, run: &Run<Shared>) -> Result<OrderUpdate> {
    let world = run.context();
    // Runs once, although this node runs three times.
    let charge = run.step("charge", async || Ok(world.charged.fetch_add(1, Ordering::Relaxed) + 1)).await?;
    let mut pages = Vec::new();
    for link in &state.links {
        pages.push(run.step_for("page", link, async |link| Ok(fetch(world, link))).await?);
    }
    // A person's answer, or the default after the deadline.
    let evening = SystemTime::now() + DAY;
    let approval: String = run.interrupt(&"May it be sent?").until(evening, "no objection".to_owned()).await?;
    // A signal that another program sends before or after this wait.
    let receipt: String = run.signal("paid").await?;
    Ok(Order::update().log([format!("charge {charge}, pages {pages:?}, {approval}, receipt {receipt}")]))
}

fn fetch(world: &World, link: &str) -> String {
    world.fetched.fetch_add(1, Ordering::Relaxed);
    format!("page of {link}")
}

async fn follow_up(state: &Order, run: &Run<Shared>) -> Result<OrderUpdate> {
    run.sleep(WEEK).await?;
    Ok(Order::update().log([format!("asked how it was; notes: {:?}", state.notes)]))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (graph, world) = (Shop::compile().checkpointer(MemorySaver::new()), Shared::default());
    let order = Order::update().links(["a".to_owned(), "b".to_owned()].to_vec());
    show(&graph.invoke(order).thread("order-7").context(world.clone()).await?);

    // Another program sends a message, which the thread receives with its next step, and a signal before the wait.
    graph.send("order-7", "The customer prefers blue.").await?;
    graph.send("order-7", Signal::new("paid", &"r-17")).await?;

    // A service calls `sweeper.every(Duration::from_secs(5))`. Here the clock is moved instead.
    let context = world.clone();
    let sweeper = graph.sweeper(move |_thread| context.clone());
    let mut now = SystemTime::now();
    for _ in 0..12 {
        now += DAY;
        for driven in sweeper.drive_due(now).await? {
            show(&driven.outcome?);
        }
    }
    let World { charged, fetched } = &*world;
    println!("charged {} time, fetched {} pages", charged.load(Ordering::Relaxed), fetched.load(Ordering::Relaxed));
    assert_eq!((charged.load(Ordering::Relaxed), fetched.load(Ordering::Relaxed)), (1, 2));
    assert_eq!(graph.state("order-7").await?.values.log.len(), 2);
    Ok(())
}

fn show(outcome: &Outcome<Order>) {
    match outcome {
        Outcome::Interrupted(interrupted) => {
            for question in &interrupted.questions {
                println!("waits: {}", question.value);
            }
        }
        other => other.state().log.iter().for_each(|line| println!("{line}")),
    }
}
