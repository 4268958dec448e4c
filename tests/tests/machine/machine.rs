//! Applies operations to a thread, and compares the results with the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::checkpoint::{Claim, Prune, Strategy as Keeping, WhenRunning};
use hier_core::{Durability, branch_off};
use uuid::Uuid;

use crate::model::{Turn, UNCHANGED, seed};
use crate::operation::{Lives, Operation};
use crate::processes::Stalled;
use crate::program_of::{First, Program, Saver, View};
use crate::threads::Line;
use crate::watched::{Fault, Watched};
use crate::world::{Item, Kind, World};
use crate::zoo::Zoo;

/// A thread, its copies, and their models.
pub(crate) struct Machine {
    /// The savers of two processes.
    pub(crate) savers: [Saver; 2],
    /// The process that applies the operations.
    pub(crate) at: usize,
    pub(crate) world: World,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) migrated: bool,
    pub(crate) fault: Fault,
    durability: Durability,
    pub(crate) line: Line,
    pub(crate) left: Vec<Line>,
    pub(crate) stalled: Vec<Stalled>,
    answers: usize,
}

/// A violated law.
pub(crate) type Law = Result<(), String>;

static THREADS: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn new_thread() -> String {
    format!("machine {}", THREADS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn check(holds: bool, what: impl FnOnce() -> String) -> Law {
    if holds { Ok(()) } else { Err(what()) }
}

impl Machine {
    pub(crate) fn new(savers: &[Saver; 2], durability: Durability) -> Self {
        Self::faulty(savers, durability, Fault::None)
    }

    pub(crate) fn faulty(savers: &[Saver; 2], durability: Durability, fault: Fault) -> Self {
        let (world, thread) = (World::default(), new_thread());
        world.has_thread(&thread);
        world.stores_at_the_end(durability == Durability::Exit);
        let watched = Watched { saver: savers[0].clone(), world: world.process(), fault };
        Self {
            savers: savers.clone(),
            at: 0,
            program: Arc::new(First::new(watched)),
            world,
            migrated: false,
            fault,
            durability,
            line: Line { thread, finished: true, ..Line::default() },
            left: Vec::new(),
            stalled: Vec::new(),
            answers: 0,
        }
    }

    pub(crate) fn saver(&self) -> &Saver {
        &self.savers[self.at]
    }

    pub(crate) async fn run(mut self, operations: &[Operation]) -> Law {
        for (number, operation) in operations.iter().enumerate() {
            let done = match self.apply(operation).await {
                Ok(()) => self.look().await,
                broken => broken,
            };
            // The past is read after operations that can change it, and at the end, because reading it takes longest.
            let done = if done.is_ok() && operation.touches_the_past() { self.read_the_past().await } else { done };
            done.map_err(|broken| format!("operation {number}, {operation:?}: {broken}"))?;
        }
        self.end().await.map_err(|broken| format!("at the end: {broken}"))
    }

    pub(crate) fn config(&self) -> Config {
        self.config_of(&self.line.thread)
    }

    pub(crate) fn config_of(&self, thread: &str) -> Config {
        Config::new()
            .thread(thread)
            .durability(self.durability)
            .at(self.world.now())
            .when_running(WhenRunning::Wait(Duration::from_secs(20)))
    }

    pub(crate) async fn view(&self) -> Result<View, String> {
        self.program.view(self.config()).await.map_err(|error| format!("the thread cannot be read: {error}"))
    }

    async fn apply(&mut self, operation: &Operation) -> Law {
        let view = self.view().await?;
        match operation {
            Operation::Run(items, lives) if self.line.finished => self.start(items, *lives).await,
            Operation::Run(_, lives) => {
                let (program, config) = (self.program.clone(), self.config());
                let ended = self.alive(async move { program.continue_thread(config).await }, *lives).await?;
                self.settle(ended)
            }
            Operation::Answer(which, lives) if !view.questions.is_empty() => {
                let (id, text) = view.questions[which % view.questions.len()].clone();
                let answer = self.new_answer();
                let (program, config) = (self.program.clone(), self.config());
                let (to, with) = (id.clone(), answer.clone());
                let ended = self.alive(async move { program.answer_by_id(config, to, with).await }, *lives).await?;
                self.settle(ended)?;
                self.is_answered(id, text, answer).await
            }
            Operation::AnswerPlainly(lives) if view.questions.len() == 1 => {
                let (id, text) = view.questions[0].clone();
                let answer = self.new_answer();
                let (program, config, with) = (self.program.clone(), self.config(), answer.clone());
                let ended = self.alive(async move { program.answer(config, with).await }, *lives).await?;
                self.settle(ended)?;
                self.is_answered(id, text, answer).await
            }
            // Without a question in an open step, it would wait for the first one.
            Operation::AnswerPlainly(_) if self.line.finished || view.questions.len() > 1 => {
                let answer = self.program.answer(self.config(), "to nobody".to_owned()).await;
                self.is_refused(&view, "a plain answer to no one question", answer).await
            }
            Operation::AnswerTwice => {
                let Some(id) = self.line.answered.clone() else { return Ok(()) };
                let answer = self.program.answer_by_id(self.config(), id, "again".to_owned()).await;
                self.is_refused(&view, "a second answer", answer).await
            }
            Operation::Prune(count) => {
                let (threads, strategy) = (Some(vec![self.line.thread.clone()]), Keeping::Keep(*count));
                let prune = Prune { threads, strategy, ..Prune::default() };
                self.saver()
                    .admin()
                    .unwrap()
                    .prune(prune)
                    .await
                    .map_err(|error| format!("it cannot be pruned: {error}"))?;
                self.is_unchanged(&view, "pruning").await
            }
            Operation::Fork => self.fork(&view).await,
            Operation::Return(which) => {
                self.go_back_to(*which);
                Ok(())
            }
            Operation::Update(talk) if self.line.finished && self.line.turn.is_some() => {
                let note = format!("note {}", self.new_answer());
                self.line.notes.push(note.clone());
                self.line.talk.push((*talk, note.clone()));
                let updated = self.program.note(self.config(), note.clone(), talk.messages(&note)).await;
                updated.map_err(|error| format!("a finished thread cannot be updated: {error}"))
            }
            Operation::Migrate => {
                self.migrated = true;
                self.program = self.compile(self.at);
                self.is_unchanged(&view, "migrating").await
            }
            Operation::Replay(turns) if self.line.finished => {
                let Some(input) = self.go_back(*turns).await? else { return Ok(()) };
                let run = self.program.continue_thread(self.config().checkpoint(input)).await;
                self.settle(Some(run))
            }
            Operation::GoBack(turns) => {
                let Some(input) = self.go_back(*turns).await? else { return Ok(()) };
                let copied = self.program.copy(self.config().checkpoint(input)).await;
                copied.map_err(|error| format!("a checkpoint cannot be copied: {error}"))
            }
            Operation::BranchOff => self.branch_off(&view).await,
            Operation::ChangeAsker => self.change_asker(&view).await,
            Operation::Visit if self.line.finished && self.line.turn.is_some() => {
                self.line.visits += 10;
                let visited = self.program.visit(self.config(), 10).await;
                visited.map_err(|error| format!("the kept state of a subgraph cannot be updated: {error}"))
            }
            Operation::Sweep(lives) => self.sweep(&view, *lives).await,
            Operation::Signal => self.signal().await,
            Operation::Stray => self.stray(&view).await,
            Operation::Other => {
                self.at = 1 - self.at;
                self.program = self.compile(self.at);
                self.is_unchanged(&view, "another process").await
            }
            Operation::Race(policy, order) => self.race(&view, *policy, *order).await,
            Operation::Wake => self.wake().await,
            Operation::Older => self.meets_an_older_program(&view).await,
            _ => Ok(()),
        }
    }

    pub(crate) fn new_answer(&mut self) -> String {
        self.answers += 1;
        format!("a{}", self.answers)
    }

    async fn start(&mut self, items: &[Kind], lives: Lives) -> Law {
        let before = self.line.before_the_next();
        let turn = self.line.turns + 1;
        let item = |(number, kind): (usize, &Kind)| {
            let seed = seed(turn, number);
            Item { number, kind: *kind, seed, zoo: Zoo::new(seed) }
        };
        let sent = items.iter().enumerate().map(item).collect();
        let (program, config) = (self.program.clone(), self.config());
        let ended = self.alive(async move { program.start(config, turn, sent).await }, lives).await?;
        self.settle(ended)?;
        let begun = self.view().await?.turn == turn;
        check(begun || lives.is_some(), || "a run that was not killed has not begun".to_owned())?;
        if begun {
            self.line.turns = turn;
            self.line.past.extend(self.line.turn.replace(Turn::new(turn, items.to_vec(), before)));
            self.line.visits = 0;
            self.line.talk.clear();
            self.line.finished = false;
            self.line.answered = None;
        }
        Ok(())
    }

    /// A run has ended, or its process died. A failure is fine if it is one of the items'.
    #[allow(clippy::unused_self)]
    pub(crate) fn settle(&self, ended: Option<Result<(), RunError>>) -> Law {
        match ended {
            None | Some(Ok(())) => Ok(()),
            Some(Err(error)) if error.to_string().contains("fails once") => Ok(()),
            Some(Err(error)) => Err(format!("the run failed: {error}")),
        }
    }

    /// Notes an answer, unless the run was killed before it was stored.
    pub(crate) async fn is_answered(&mut self, id: String, text: String, answer: String) -> Law {
        let view = self.view().await?;
        let open = view.questions.iter().any(|(open, _)| *open == id);
        if !open && let Some(turn) = &mut self.line.turn {
            turn.answers.insert(text, answer);
            self.line.answered = Some(id);
        }
        Ok(())
    }

    async fn is_refused(&self, before: &View, what: &str, ended: Result<(), RunError>) -> Law {
        check(ended.is_err(), || format!("{what} was taken"))?;
        self.is_unchanged(before, what).await
    }

    pub(crate) async fn is_unchanged(&self, before: &View, what: &str) -> Law {
        let view = self.view().await?;
        check(view == *before, || format!("{what} has changed the thread\n from {before:?}\n to   {view:?}"))
    }

    /// Moves the thread back to the input of a turn, if its checkpoint still exists.
    async fn go_back(&mut self, turns: usize) -> Result<Option<Uuid>, String> {
        let line: Vec<Turn> = self.line.past.iter().chain(&self.line.turn).cloned().collect();
        let Some(place) = line.len().checked_sub(1 + turns % line.len().max(1)) else { return Ok(None) };
        let turn = line[place].clone();
        let history = self.history().await?;
        let input = history.iter().rev().find(|view| view.turn == turn.number && view.next == ["open"]);
        let Some(input) = input.and_then(|view| view.checkpoint) else { return Ok(None) };
        self.world.went_back(&self.line.thread);
        self.line.notes.clone_from(&turn.before.notes);
        self.line.past = line[..place].to_vec();
        self.line.turn = Some(Turn::new(turn.number, turn.items, turn.before));
        (self.line.finished, self.line.answered, self.line.visits) = (false, None, 0);
        self.line.talk.clear();
        Ok(Some(input))
    }

    /// The open step begins anew, with its questions.
    async fn branch_off(&mut self, view: &View) -> Law {
        let Some(checkpoint) = view.checkpoint else { return Ok(()) };
        let claim = Claim { when_running: WhenRunning::Wait(Duration::from_secs(20)), ..Claim::default() };
        let lease = self.saver().acquire(&self.line.thread, claim).await.map_err(|error| error.to_string())?;
        let branched = branch_off(self.saver(), &lease, checkpoint).await;
        self.saver().release(&lease).await.map_err(|error| error.to_string())?;
        branched.map_err(|error| format!("a checkpoint cannot be copied: {error}"))?;
        self.world.went_back(&self.line.thread);
        if let Some(turn) = &mut self.line.turn {
            if view.next == ["afresh"] {
                UNCHANGED.clone_into(&mut turn.said);
            }
            if view.next.iter().any(|node| node == "work") {
                // Tasks ask again, also those that had their answer.
                turn.answers.clear();
            }
        }
        self.line.answered = None;
        Ok(())
    }

    /// The subgraph's question is withdrawn: an answer is refused.
    async fn change_asker(&mut self, view: &View) -> Law {
        let Some((id, _)) = view.questions.iter().find(|(_, text)| text.ends_with(".afresh")) else { return Ok(()) };
        let said = format!("changed {}", self.new_answer());
        let changed = self.program.change_asker(self.config(), said.clone()).await;
        changed.map_err(|error| format!("a subgraph that asks cannot be changed: {error}"))?;
        self.line.turn.iter_mut().for_each(|turn| turn.said.clone_from(&said));
        let after = self.view().await?;
        check(after.questions.is_empty(), || format!("{:?} is still asked", after.questions))?;
        let late = self.program.answer_by_id(self.config(), id.clone(), "late".to_owned()).await;
        self.is_refused(&after, "an answer to what is asked no more", late).await?;
        let late = self.program.answer(self.config(), "late".to_owned()).await;
        self.is_refused(&after, "a plain answer to what is asked no more", late).await?;
        self.line.answered = Some(id.clone());
        Ok(())
    }

    async fn history(&self) -> Result<Vec<View>, String> {
        self.program.history(self.config()).await.map_err(|error| format!("the history cannot be read: {error}"))
    }

    /// Everything can be read, and by its id.
    pub(crate) async fn read_the_past(&self) -> Law {
        for id in self.history().await?.iter().filter_map(|view| view.checkpoint).collect::<Vec<Uuid>>() {
            let read = self.program.view(self.config().checkpoint(id)).await;
            read.map_err(|error| format!("the checkpoint {id} cannot be read: {error}"))?;
        }
        Ok(())
    }

    /// Nothing ran again, and a turn that is finished is as the model says.
    pub(crate) async fn look(&mut self) -> Law {
        if let Some(broken) = self.world.broken() {
            return Err(broken);
        }
        let view = self.view().await?;
        self.line.finished = view.is_finished();
        if !self.line.finished {
            return Ok(());
        }
        self.is_as_expected(&view)?;
        let visits = self.program.visits(self.config()).await;
        let visits = visits.map_err(|error| format!("the kept state of a subgraph cannot be read: {error}"))?;
        let wanted = self.line.visits();
        check(visits == wanted, || format!("a subgraph keeps {visits} visits instead of {wanted}"))
    }

    fn is_as_expected(&self, view: &View) -> Law {
        let differs = |what: &str, found: &dyn std::fmt::Debug, wanted: &dyn std::fmt::Debug| {
            format!("{what}: {found:?} instead of {wanted:?}")
        };
        let log = self.line.log();
        check(view.log == log, || differs("the log", &view.log, &log))?;
        check(view.notes == self.line.notes, || differs("the notes", &view.notes, &self.line.notes))?;
        let talk = self.line.talk();
        check(view.talk == talk, || differs("the conversation", &view.talk, &talk))?;
        let zoos: Vec<String> = self.line.zoos().into_iter().map(|seed| Zoo::new(seed).text()).collect();
        check(view.zoos == zoos, || differs("the zoos", &view.zoos, &zoos))?;
        let Some(turn) = &self.line.turn else { return Ok(()) };
        let zoo = Zoo::new(turn.number.into()).text_after_json();
        check(view.zoo == zoo, || differs("the zoo", &view.zoo, &zoo))?;
        let said = turn.said();
        check(view.said == said, || differs("the events of the subgraph", &view.said, &said))?;
        let calls = turn.visits();
        check(view.calls == calls, || differs("the calls", &view.calls, &calls))
    }

    /// After any operations, the thread can be run to its end.
    pub(crate) async fn end_of_line(&mut self) -> Law {
        for _ in 0..40 {
            if self.line.finished {
                return Ok(());
            }
            let view = self.view().await?;
            let next = match (view.questions.len(), view.waits.len()) {
                (0, 0) => Operation::Run(Vec::new(), None),
                (0, _) => Operation::Sweep(None),
                _ => Operation::Answer(0, None),
            };
            if !view.waits.is_empty() {
                self.signal().await?;
            }
            self.apply(&next).await?;
            self.look().await?;
        }
        Err(format!("it does not end: {:?}", self.view().await?))
    }
}
