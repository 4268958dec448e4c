//! The graph: a step of Sends, a join, a subgraph of each kind. Compiled for each version of the state.

use hier_agents::prelude::*;
use hier_core::Result;

use super::state::{Case, CaseUpdate, keeps};
use crate::world::{Item, Kind, World};
use crate::zoo::Zoo;

const HOUR: std::time::Duration = std::time::Duration::from_hours(1);
/// The number of the zoo that signals carry.
pub(crate) const SIGNAL: u64 = 1_000_000;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Called {
    turn: u32,
    said: String,
    calls: u32,
    #[reducer(sum)]
    pub(crate) visits: u32,
}

graph! {
    pub(crate) Machine<Case, World> = Graph {
        name: "machine",
        nodes: [open, work, left, right, joined, afresh = Afresh, keeper = Keeper { checkpoints: per_thread }],
        edges: [
            START >> open >> for item in items { work(item) },
            work >> [left, right],
            [left, right] >> joined >> afresh >> keeper >> END,
        ],
    }
}

graph! {
    pub(crate) Afresh<Called, World> = Graph {
        name: "afresh",
        nodes: [before, asks],
        edges: [START >> before >> asks >> END],
    }
}

graph! {
    pub(crate) Keeper<Called, World> = Graph {
        name: "keeper",
        nodes: [counts, tells],
        edges: [START >> counts >> tells >> END],
    }
}

async fn open() {}

fn items(state: &Case) -> Vec<Item> {
    state.items.clone()
}

async fn work(Sent(item): Sent<Item>, state: &Case, run: &Run<World>) -> Result<CaseUpdate> {
    let world = run.context();
    world.enters(run);
    world.sees("a Send", &item.zoo, item.seed);
    let name = format!("{}.{}", state.turn, item.number);
    let said = match item.kind {
        Kind::Plain | Kind::Says(_) | Kind::Keeps => name.clone(),
        Kind::Asks => format!("{name}={}", run.interrupt::<String>(&name).await?),
        Kind::AsksTwice => {
            let first: String = run.interrupt(&format!("{name}a")).await?;
            format!("{name}={first},{}", run.interrupt::<String>(&format!("{name}b")).await?)
        }
        Kind::Fails => {
            world.fails(&name)?;
            name.clone()
        }
        Kind::Sleeps => {
            run.sleep(HOUR).await?;
            name.clone()
        }
        Kind::Expires => {
            let question = run.interrupt::<String>(&name).until(world.now() + HOUR, "late".to_owned());
            format!("{name}={}", question.await?)
        }
        Kind::Waits => {
            world.sees("a signal", &run.signal::<Zoo>("go").await?, SIGNAL);
            format!("{name}=told")
        }
        Kind::Steps => {
            let zoo = world.steps(run, &name, item.seed).await?;
            world.sees("a step", &zoo, item.seed);
            name.clone()
        }
    };
    world.pauses().await;
    let update = Case::update().log([said]);
    Ok(match item.kind {
        Kind::Says(talk) => update.talk(talk.messages(&name)),
        Kind::Keeps => update.zoos([item.zoo]),
        _ => update,
    })
}

async fn left(state: &Case, run: &Run<World>) -> CaseUpdate {
    run.context().enters(run);
    Case::update().log([format!("{} left", state.turn)])
}

async fn right(state: &Case, run: &Run<World>) -> CaseUpdate {
    run.context().enters(run);
    run.context().pauses().await;
    Case::update().log([format!("{} right", state.turn)])
}

async fn joined(state: &Case, run: &Run<World>) -> CaseUpdate {
    run.context().enters(run);
    keeps(Zoo::new(state.turn.into())).log([format!("{} joined", state.turn)])
}

async fn before(state: &Called, run: &Run<World>) -> CalledUpdate {
    run.context().enters(run);
    Called::update().said(format!("{} visits", state.visits)).visits(1)
}

async fn asks(state: &Called, run: &Run<World>) -> Result<CalledUpdate> {
    run.context().enters(run);
    let name = format!("{}.afresh", state.turn);
    let answer: String = run.interrupt(&name).await?;
    Ok(Called::update().said(format!("{}, {name}={answer}", state.said)))
}

async fn counts(run: &Run<World>) -> CalledUpdate {
    run.context().enters(run);
    Called::update().visits(1)
}

async fn tells(state: &Called, run: &Run<World>) -> Result<CalledUpdate> {
    run.context().enters(run);
    let _: String = run.interrupt(&format!("{}.keeper", state.turn)).await?;
    run.context().pauses().await;
    Ok(Called::update().calls(state.visits))
}
