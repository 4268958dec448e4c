//! The operations on a program of any version.

use std::time::SystemTime;

use hier_agents::prelude::*;
use hier_core::checkpoint::{Checkpointer, ListQuery};
use hier_core::graph::{CompiledGraph, Signal};
use hier_core::{StateUpdate, async_trait};
use uuid::Uuid;

use crate::talk::{Talked, opening, seen};
use crate::watched::Watched;
use crate::world::{Item, World};
use crate::zoo::Zoo;
use crate::{v1, v2};

/// The visible part of a thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    pub(crate) turn: u32,
    pub(crate) log: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) said: String,
    pub(crate) calls: u32,
    pub(crate) talk: Talked,
    pub(crate) zoos: Vec<String>,
    pub(crate) zoo: String,
    pub(crate) next: Vec<String>,
    /// The number of tasks of the open step.
    pub(crate) tasks: usize,
    /// The open questions to people: id and text.
    pub(crate) questions: Vec<(String, String)>,
    /// Deadlines of the tasks that wait for a time or a signal.
    pub(crate) waits: Vec<Option<SystemTime>>,
    pub(crate) checkpoint: Option<Uuid>,
}

impl View {
    pub(crate) fn is_finished(&self) -> bool {
        self.next.is_empty() && self.tasks == 0
    }
}

#[async_trait]
pub(crate) trait Program: Send + Sync {
    async fn start(&self, config: Config, turn: u32, items: Vec<Item>) -> Result<(), RunError>;
    async fn continue_thread(&self, config: Config) -> Result<(), RunError>;
    async fn answer(&self, config: Config, answer: String) -> Result<(), RunError>;
    async fn answer_by_id(&self, config: Config, id: String, answer: String) -> Result<(), RunError>;
    /// Copies the addressed checkpoint, from which the thread continues.
    async fn copy(&self, config: Config) -> Result<(), RunError>;
    /// Changes the graph that asks, or asked last, before it asks.
    async fn change_asker(&self, config: Config, said: String) -> Result<(), RunError>;
    /// Adds to the kept state.
    async fn visit(&self, config: Config, visits: u32) -> Result<(), RunError>;
    /// Returns the kept state of the keeper.
    async fn visits(&self, config: Config) -> Result<u32, RunError>;
    /// Drives threads that are due by the world's clock.
    async fn sweep(&self, config: Config) -> Result<Vec<Result<(), RunError>>, RunError>;
    /// Sends the signal that tasks wait for; through another graph if so.
    async fn signal(&self, thread: &str, astray: bool) -> Result<(), RunError>;
    async fn note(&self, config: Config, note: String, talk: Vec<Message>) -> Result<(), RunError>;
    async fn view(&self, config: Config) -> Result<View, RunError>;
    /// True if its process still holds the thread.
    fn holds(&self, thread: &str) -> bool;
    /// The checkpoints, newest first.
    async fn history(&self, config: Config) -> Result<Vec<View>, RunError>;
}

macro_rules! program {
    ($name:ident, $version:ident, $notes:ident, $zoo:ident) => {
        pub(crate) struct $name {
            graph: CompiledGraph<$version::state::Case, World>,
            /// The graphs inside, by themselves.
            afresh: CompiledGraph<$version::program::Called, World>,
            keeper: CompiledGraph<$version::program::Called, World>,
            world: World,
        }

        impl $name {
            pub(crate) fn new(saver: Watched) -> Self {
                let world = saver.world.clone();
                let saver = std::sync::Arc::new(hier_testkit::Layered(saver));
                Self {
                    graph: $version::program::Machine::compile().checkpointer(saver.clone()),
                    afresh: $version::program::Afresh::compile().checkpointer(saver.clone()),
                    keeper: $version::program::Keeper::compile().checkpointer(saver),
                    world,
                }
            }

            fn seen(snapshot: hier_core::StateSnapshot<$version::state::Case>) -> View {
                let values = snapshot.values;
                let question = |question: &hier_core::Question| {
                    (question.id.clone(), question.value.as_str().unwrap_or_default().to_owned())
                };
                View {
                    turn: values.turn,
                    log: values.log,
                    notes: values.$notes,
                    said: values.said,
                    calls: values.calls,
                    talk: seen(&values.talk),
                    zoos: values.zoos.iter().map(Zoo::text).collect(),
                    // Migrations are given JSON, and this channel is renamed by one.
                    zoo: values.$zoo.text_after_json(),
                    next: snapshot.next,
                    tasks: snapshot.tasks.len(),
                    questions: snapshot
                        .questions
                        .iter()
                        .filter(|it| !it.answered && it.kind.is_person())
                        .map(question)
                        .collect(),
                    waits: snapshot
                        .questions
                        .iter()
                        .filter(|it| !it.answered && (it.due.is_some() || !it.kind.is_person()))
                        .map(|it| it.due)
                        .collect(),
                    checkpoint: snapshot.checkpoint,
                }
            }
        }

        #[async_trait]
        impl Program for $name {
            async fn start(&self, config: Config, turn: u32, items: Vec<Item>) -> Result<(), RunError> {
                let input = $version::state::Case::update().turn(turn).items(items).talk(opening(turn));
                self.graph.invoke(input).config(config).context(self.world.clone()).await.map(drop)
            }

            async fn continue_thread(&self, config: Config) -> Result<(), RunError> {
                self.graph.invoke(()).config(config).context(self.world.clone()).await.map(drop)
            }

            async fn answer(&self, config: Config, answer: String) -> Result<(), RunError> {
                self.graph.invoke(Command::resume(answer)).config(config).context(self.world.clone()).await.map(drop)
            }

            async fn answer_by_id(&self, config: Config, id: String, answer: String) -> Result<(), RunError> {
                self.graph
                    .invoke(Command::answers([(id, answer)]))
                    .config(config)
                    .context(self.world.clone())
                    .await
                    .map(drop)
            }

            async fn sweep(&self, config: Config) -> Result<Vec<Result<(), RunError>>, RunError> {
                let (world, now) = (self.world.clone(), self.world.now());
                let sweeper = self.graph.sweeper(move |_| world.clone()).config(config);
                let driven = sweeper.drive_due(now).await?;
                Ok(driven.into_iter().map(|driven| driven.outcome.map(drop)).collect())
            }

            async fn signal(&self, thread: &str, astray: bool) -> Result<(), RunError> {
                let signal = Signal::new("go", &Zoo::new($version::program::SIGNAL));
                if astray {
                    return self.keeper.send(thread, signal).await.map(drop);
                }
                self.graph.send(thread, signal).await.map(drop)
            }

            async fn note(&self, config: Config, note: String, talk: Vec<Message>) -> Result<(), RunError> {
                let update = $version::state::Case::update().$notes([note]).talk(talk);
                let update = StateUpdate::update(update).as_node("keeper");
                self.graph.update_state(config, update).await.map(drop)
            }

            async fn copy(&self, config: Config) -> Result<(), RunError> {
                self.graph.update_state(config, StateUpdate::copy()).await.map(drop)
            }

            async fn change_asker(&self, config: Config, said: String) -> Result<(), RunError> {
                let tasks = self.graph.state(config.clone()).await?.tasks;
                let Some(place) = tasks.into_iter().find_map(|task| task.state) else { return Ok(()) };
                let update = StateUpdate::update($version::program::Called::update().said(said)).as_node("before");
                let place = config.namespace(place.checkpoint_namespace());
                self.afresh.update_state(place, update).await.map(drop)
            }

            async fn visit(&self, config: Config, visits: u32) -> Result<(), RunError> {
                let update = StateUpdate::update($version::program::Called::update().visits(visits)).as_node("tells");
                self.keeper.update_state(config.namespace("keeper"), update).await.map(drop)
            }

            async fn visits(&self, config: Config) -> Result<u32, RunError> {
                Ok(self.keeper.state(config.namespace("keeper")).await?.values.visits)
            }

            fn holds(&self, thread: &str) -> bool {
                self.world.holds(thread)
            }

            async fn view(&self, config: Config) -> Result<View, RunError> {
                self.graph.state(config).await.map(Self::seen)
            }

            async fn history(&self, config: Config) -> Result<Vec<View>, RunError> {
                let history = self.graph.history(config, ListQuery::default()).await?;
                Ok(history.into_iter().map(Self::seen).collect())
            }
        }
    };
}

program!(First, v1, notes, zoo);
program!(Second, v2, remarks, animals);

/// The saver below the watched one, for operations without the graph.
pub(crate) type Saver = std::sync::Arc<dyn Checkpointer>;
