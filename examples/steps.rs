//! What a task does once: durable steps, a deadline for a question, a signal, a timer, messages to a thread that works.
//!
//! ```text
//! cargo run --example steps
//! ```
//!
//! An order is charged, approved until the evening, paid, and followed up a week later. Each of these runs the node again from its
//! beginning, and nothing that is a step is done again. The week is not waited for: the clock that the sweeper is told goes on.

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

/// What the world has seen of it.
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
    // Done once, though this node runs three times.
    let charge = run.step("charge", async || Ok(world.charged.fetch_add(1, Ordering::Relaxed) + 1)).await?;
    let mut pages = Vec::new();
    for link in &state.links {
        pages.push(run.step_for("page", link, async |link| Ok(fetch(world, link))).await?);
    }
    // Answered by a person, or with the default when the time has come.
    let evening = SystemTime::now() + DAY;
    let approval: String = run.interrupt(&"May it be sent?").until(evening, "nobody objected".to_owned()).await?;
    // Answered by whoever sends the signal, before or after it is waited for.
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

    // Somebody else sends to the thread: a message that it has with its next step, and a signal that it does not wait for yet.
    graph.send("order-7", "The customer prefers blue.").await?;
    graph.send("order-7", Signal::new("paid", &"r-17")).await?;

    // In a service: `sweeper.every(Duration::from_secs(5))`. Here the days pass at once.
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
