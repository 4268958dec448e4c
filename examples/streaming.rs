//! A progress display of the events of a run.
//!
//! Five parcels are fetched at once. Each task reports its progress with `run.emit(…)` (mode `Custom`). Finished tasks are
//! typed updates (mode `Updates`), and each step ends with the graph's state (mode `Values`).
//!
//! The `match` in `main` shows that events are an enum and that a node's update has the type of the graph's state. A
//! terminal shows a bar for each parcel, a pipe one line for each event. The display never blocks the run: if it is too slow,
//! the oldest events are dropped and `Lagged` has their number.
//!
//! Run it: `cargo run --example streaming`

use std::collections::BTreeMap;
use std::time::Duration;

use hier::prelude::*;
use hier::{Event, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Delivery {
    parcels: Vec<Parcel>,
    #[reducer(sum)]
    weight: u64,
    #[reducer(append)]
    stops: Vec<String>,
    label: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Parcel {
    town: String,
    kilometres: u64,
}

/// The progress of a running task.
#[derive(Serialize, Deserialize)]
struct Progress {
    town: String,
    kilometre: u64,
    of: u64,
}

graph! {
    /// Fetches parcels from all over the country, then weighs and labels them.
    Fetch<Delivery> = Graph {
        nodes: [plan, drive, label],
        edges: [START >> plan >> for parcel in parcels { drive(parcel) }, drive >> label >> END],
    }
}

async fn plan() -> DeliveryUpdate {
    let towns = [("Basel", 34), ("Bern", 52), ("Chur", 79), ("Genève", 95), ("Lugano", 64)];
    let parcels = towns.map(|(town, kilometres)| Parcel { town: town.to_owned(), kilometres });
    Delivery::update().parcels(parcels)
}

fn parcels(delivery: &Delivery) -> Vec<Parcel> {
    delivery.parcels.clone()
}

/// Waits a few milliseconds for each kilometre.
async fn drive(Sent(parcel): Sent<Parcel>, run: &Run) -> DeliveryUpdate {
    let Parcel { town, kilometres } = parcel;
    for kilometre in 1..=kilometres {
        tokio::time::sleep(Duration::from_millis(10 + kilometre % 7)).await;
        run.emit(Progress { town: town.clone(), kilometre, of: kilometres });
    }
    Delivery::update().weight(kilometres * 3).stops([town])
}

async fn label(delivery: &Delivery) -> DeliveryUpdate {
    Delivery::update().label(format!("{} parcels, {} kg", delivery.stops.len(), delivery.weight))
}

#[tokio::main]
async fn main() -> Result<()> {
    let modes = [StreamMode::Custom, StreamMode::Updates, StreamMode::Values];
    let mut events = Fetch::compile().stream(Delivery::update()).modes(modes);
    let mut display = Display::new()?;
    while let Some(event) = events.next().await {
        match event? {
            Event::Custom { value, .. } => display.progress(&serde_json::from_value(value)?),
            Event::Updates(done) => display.line(&format!("{:6} wrote {}", done.node, done.update.writes().to_json()?)),
            Event::Values(state) => display.line(&format!("       so far {} kg", state.weight)),
            Event::Lagged(missed) => display.line(&format!("       {missed} events were dropped")),
            _ => {}
        }
    }
    let out = events.outcome().await?;
    display.line(out.state().label.as_deref().unwrap_or("nothing was fetched"));
    Ok(())
}

/// Shows bars in a terminal, and lines elsewhere.
struct Display {
    all: MultiProgress,
    bars: BTreeMap<String, ProgressBar>,
    style: ProgressStyle,
}

impl Display {
    fn new() -> Result<Self> {
        let style = ProgressStyle::with_template("{prefix:>8} {bar:40.cyan/blue} {pos:>3}/{len} km  {msg}")?;
        Ok(Self {
            all: MultiProgress::new(), bars: BTreeMap::new(), style: style.progress_chars("█▉▊▋▌▍▎▏ ")
        })
    }

    fn progress(&mut self, Progress { town, kilometre, of }: &Progress) {
        let bar = self.bars.entry(town.clone()).or_insert_with(|| {
            self.all.add(ProgressBar::new(*of).with_style(self.style.clone()).with_prefix(town.clone()))
        });
        bar.set_position(*kilometre);
        let quarter = kilometre * 4 / of > (kilometre - 1) * 4 / of;
        if kilometre == of {
            bar.finish_with_message("here");
        }
        if quarter && self.all.is_hidden() {
            println!("{town:>8} {kilometre:>3}/{of} km");
        }
    }

    fn line(&self, text: &str) {
        // Printed through the bars, so that they stay below. A hidden display prints nothing itself.
        if self.all.is_hidden() || self.all.println(text).is_err() {
            println!("{text}");
        }
    }
}
