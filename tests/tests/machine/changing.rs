//! Random sequences of turns of a program that changes between them: another reducer, a node with another name, and back.
//!
//! Any program that reads a thread behaves as follows:
//! * it reads stored data by the rules under which it was stored, or fails with the channel or the node in the error;
//! * a rejected call changes nothing: the program that ran last continues;
//! * nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{CompiledGraph, GraphBuilder, Task};
use hier_core::{Durability, Result, async_trait};
use proptest::prelude::*;

use crate::machine::{Law, check};
use crate::program_of::Saver;

type Log = Vec<String>;

/// The node that asks in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Neither,
    Work,
    Beside,
}

/// The name of the node that writes the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Work,
    Labour,
    /// As `Labour`, and the program says that it was `work`.
    LabourThatWasWork,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    /// The place of its reducer.
    reducer: usize,
    name: Name,
}

#[derive(Clone, Debug)]
enum Operation {
    Change(Version),
    Turn(Log, Asks),
    Answer,
    /// Continues a copy.
    Fork,
}

/// The visible part of a thread: the log, and the number of questions.
type Seen = (Log, usize);

/// A program with one reducer.
#[async_trait]
trait Program: Sync {
    fn merge(&self, old: &mut Log, new: Log);
    async fn turn(&self, at: Place<'_>, next: Log, asks: Asks) -> Result<(), RunError>;
    async fn answer(&self, at: Place<'_>) -> Result<(), RunError>;
    async fn read(&self, at: Place<'_>) -> Result<Seen, RunError>;
}

/// The saver, the thread, and the name of the node.
#[derive(Clone, Copy)]
struct Place<'a> {
    saver: &'a Saver,
    thread: &'a str,
    durability: Durability,
    name: Name,
}

impl Place<'_> {
    fn config(&self) -> Config {
        Config::new().thread(self.thread).durability(self.durability)
    }
}

fn extend(old: &mut Log, new: Log) {
    old.extend(new);
}

fn replace(old: &mut Log, new: Log) {
    *old = new;
}

/// Puts the new lines in front.
fn newest_first(old: &mut Log, mut new: Log) {
    new.append(old);
    *old = new;
}

macro_rules! program {
    ($module:ident, $merge:path, $(#[$channel:meta])*) => {
        mod $module {
            use super::*;

            #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
            struct Case {
                next: Log,
                work_asks: bool,
                beside_asks: bool,
                $(#[$channel])*
                log: Log,
            }

            fn graph(at: Place<'_>) -> CompiledGraph<Case> {
                let name = if at.name == Name::Work { "work" } else { "labour" };
                let mut graph = GraphBuilder::<Case>::new("review");
                graph = graph.node(name, async |task: Task<Case>| -> Result<CaseUpdate> {
                    if task.state().work_asks {
                        let _: String = task.run().interrupt(&"work?").await?;
                    }
                    Ok(Case::update().log(task.state().next.clone()))
                });
                graph = graph.node("beside", async |task: Task<Case>| -> Result<CaseUpdate> {
                    if task.state().beside_asks {
                        let _: String = task.run().interrupt(&"beside?").await?;
                    }
                    Ok(Case::update())
                });
                graph = graph.edge(START, name).edge(START, "beside").edge(name, END).edge("beside", END);
                let graph = graph.compile().expect("it is a graph").checkpointer(at.saver.clone());
                if at.name == Name::LabourThatWasWork { graph.renamed("work", "labour") } else { graph }
            }

            pub(super) struct Reduced;

            #[async_trait]
            impl Program for Reduced {
                fn merge(&self, old: &mut Log, new: Log) {
                    $merge(old, new);
                }

                async fn turn(&self, at: Place<'_>, next: Log, asks: Asks) -> Result<(), RunError> {
                    let input = Case::update().next(next);
                    let input = input.work_asks(asks == Asks::Work).beside_asks(asks == Asks::Beside);
                    graph(at).invoke(input).config(at.config()).await.map(drop)
                }

                async fn answer(&self, at: Place<'_>) -> Result<(), RunError> {
                    graph(at).invoke(Command::resume("yes")).config(at.config()).await.map(drop)
                }

                async fn read(&self, at: Place<'_>) -> Result<Seen, RunError> {
                    let state = graph(at).state(at.config()).await?;
                    Ok((state.values.log, state.questions.iter().filter(|question| !question.answered).count()))
                }
            }
        }
    };
}

program!(last, replace,);
program!(append, extend, #[reducer(append)]);
program!(whole, newest_first, #[reducer(with = newest_first)]);
program!(delta, newest_first, #[reducer(with = newest_first)] #[channel(delta)]);

const PROGRAMS: [&dyn Program; 4] = [&last::Reduced, &append::Reduced, &whole::Reduced, &delta::Reduced];

struct Machine {
    saver: Saver,
    thread: String,
    durability: Durability,
    version: Version,
    /// The program that ran last.
    home: Version,
    log: Log,
    /// The writes of the open turn, and the reducer under which they are stored.
    open: Option<(Log, Option<usize>)>,
    has_run: bool,
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

fn new_thread() -> String {
    format!("changing {}", THREADS.fetch_add(1, Ordering::Relaxed))
}

impl Machine {
    fn at(&self, version: Version) -> (&'static dyn Program, Place<'_>) {
        let Self { saver, thread, durability, .. } = self;
        (PROGRAMS[version.reducer], Place { saver, thread, durability: *durability, name: version.name })
    }

    async fn run(mut self, operations: &[Operation]) -> Law {
        for (number, operation) in operations.iter().enumerate() {
            let done = self.apply(operation).await;
            done.map_err(|broken| format!("operation {number}, {operation:?}: {broken}"))?;
        }
        self.version = self.home;
        for _ in 0..2 {
            self.apply(&Operation::Answer).await.map_err(|broken| format!("at the end: {broken}"))?;
        }
        check(self.open.is_none(), || "it does not end".to_owned())
    }

    async fn apply(&mut self, operation: &Operation) -> Law {
        match operation {
            Operation::Change(version) => {
                self.version = *version;
                if !self.has_run {
                    self.home = *version;
                }
            }
            Operation::Turn(next, asks) if self.open.is_none() => {
                let (program, at) = self.at(self.version);
                let ended = program.turn(at, next.clone(), *asks).await;
                if self.is_taken(ended)? {
                    let stored = (*asks != Asks::Work).then_some(self.version.reducer);
                    self.open = Some((next.clone(), stored));
                    if *asks == Asks::Neither {
                        self.ends();
                    }
                }
            }
            Operation::Answer if self.open.is_some() => {
                let (program, at) = self.at(self.version);
                let ended = program.answer(at).await;
                if self.is_taken(ended)? {
                    self.ends();
                }
            }
            Operation::Fork if self.has_run => {
                let copy = new_thread();
                self.saver
                    .admin()
                    .unwrap()
                    .copy_thread(&self.thread, &copy)
                    .await
                    .map_err(|error| error.to_string())?;
                self.thread = copy;
            }
            _ => return Ok(()),
        }
        self.look().await
    }

    /// The open turn ends: what was stored is merged by the reducer under which it was stored.
    fn ends(&mut self) {
        if let Some((next, stored)) = self.open.take() {
            PROGRAMS[stored.unwrap_or(self.version.reducer)].merge(&mut self.log, next);
        }
    }

    /// Returns true if a run was not refused.
    fn is_taken(&mut self, ended: Result<(), RunError>) -> Result<bool, String> {
        match ended {
            Ok(()) => {
                (self.home, self.has_run) = (self.version, true);
                Ok(true)
            }
            Err(error) => {
                self.is_named(&error)?;
                Ok(false)
            }
        }
    }

    fn is_named(&self, error: &RunError) -> Law {
        let text = error.to_string();
        let named = ["`log`", "`work`", "`labour`"].iter().any(|name| text.contains(name));
        check(named && self.version != self.home, || format!("an error that names neither channel nor node: {text}"))
    }

    /// The program that ran last reads its own state. Any other one reads the same, or is rejected.
    async fn look(&self) -> Law {
        let mut expected = (self.log.clone(), usize::from(self.open.is_some()));
        if let Some((next, Some(reducer))) = &self.open {
            // The results next to a question are shown.
            PROGRAMS[*reducer].merge(&mut expected.0, next.clone());
        }
        for version in [self.home, self.version] {
            let (program, at) = self.at(version);
            match program.read(at).await {
                Ok(seen) => check(seen == expected, || format!("{version:?} reads {seen:?} instead of {expected:?}"))?,
                Err(error) if version == self.home => return Err(format!("its stored data is refused: {error}")),
                Err(error) => self.is_named(&error)?,
            }
        }
        Ok(())
    }
}

fn version() -> impl Strategy<Value = Version> {
    let name = prop_oneof![Just(Name::Work), Just(Name::Labour), Just(Name::LabourThatWasWork)];
    (0..PROGRAMS.len(), name).prop_map(|(reducer, name)| Version { reducer, name })
}

fn operation() -> impl Strategy<Value = Operation> {
    let asks = prop_oneof![Just(Asks::Neither), Just(Asks::Work), Just(Asks::Beside)];
    let log = proptest::collection::vec("[a-c]", 0..3);
    prop_oneof![
        4 => version().prop_map(Operation::Change),
        4 => (log, asks).prop_map(|(log, asks)| Operation::Turn(log, asks)),
        4 => Just(Operation::Answer),
        1 => Just(Operation::Fork),
    ]
}

fn sequences(default_cases: u32, saver: impl AsyncFn() -> Saver) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let saver = runtime.block_on(saver());
    let durability = prop_oneof![Just(Durability::Sync), Just(Durability::Async), Just(Durability::Exit)];
    let input = (durability, version(), proptest::collection::vec(operation(), 1..20));
    crate::check((default_cases, 400), &input, |(durability, version, operations)| {
        let (saver, thread, log) = (saver.clone(), new_thread(), Log::new());
        let machine = Machine { saver, thread, durability, version, home: version, log, open: None, has_run: false };
        runtime.block_on(machine.run(&operations))
    });
}

#[test]
fn changed_programs_in_memory() {
    sequences(200, async || Arc::new(MemorySaver::new()) as Saver);
}

#[test]
fn changed_programs_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    sequences(40, async || crate::sqlite(folder.path()).await);
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn changed_programs_in_postgres() {
    let url = crate::postgres_url();
    sequences(20, async || crate::postgres(&url).await);
}
