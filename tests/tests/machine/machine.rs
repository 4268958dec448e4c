//! Does what is to be done with a thread, and compares it with the model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::branch_off;
use hier_core::checkpoint::{Claim, Prune, Strategy as Keeping, WhenRunning};
use hier_core::prelude::*;
use uuid::Uuid;

use crate::model::{Before, Turn, UNCHANGED};
use crate::operation::{Lives, Operation, alive};
use crate::program_of::{First, Program, Saver, Second, View};
use crate::world::{Item, Kind, Watched, World};

/// A thread, and what the model says of it.
pub(crate) struct Machine {
    pub(crate) saver: Saver,
    pub(crate) world: World,
    pub(crate) program: Box<dyn Program>,
    pub(crate) thread: String,
    durability: Durability,
    turns: u32,
    /// The turn that is open, or the last one.
    pub(crate) turn: Option<Turn>,
    /// The turns before it, in this line of the history.
    past: Vec<Turn>,
    /// The view when the last turn was finished.
    finished: bool,
    notes: Vec<String>,
    answered: Option<String>,
    answers: usize,
    /// What was added to what a subgraph keeps since the last turn.
    visits: u32,
}

/// What did not hold.
pub(crate) type Law = Result<(), String>;

static THREADS: AtomicUsize = AtomicUsize::new(0);

fn new_thread() -> String {
    format!("machine {}", THREADS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn check(holds: bool, what: impl FnOnce() -> String) -> Law {
    if holds { Ok(()) } else { Err(what()) }
}

impl Machine {
    pub(crate) fn new(saver: &Saver, durability: Durability) -> Self {
        Self::on(saver, durability, false)
    }

    /// On a saver that loses what tasks wrote.
    pub(crate) fn forgetful(saver: &Saver, durability: Durability) -> Self {
        Self::on(saver, durability, true)
    }

    fn on(saver: &Saver, durability: Durability, forgets: bool) -> Self {
        let (world, thread) = (World::default(), new_thread());
        world.has_thread(&thread);
        world.stores_at_the_end(durability == Durability::Exit);
        let program = Box::new(First::new(Watched { saver: saver.clone(), world: world.clone(), forgets }));
        Self {
            saver: saver.clone(),
            world,
            program,
            thread,
            durability,
            turns: 0,
            turn: None,
            past: Vec::new(),
            finished: true,
            notes: Vec::new(),
            answered: None,
            answers: 0,
            visits: 0,
        }
    }

    pub(crate) async fn run(mut self, operations: &[Operation]) -> Law {
        for (number, operation) in operations.iter().enumerate() {
            let done = match self.apply(operation).await {
                Ok(()) => self.look().await,
                broken => broken,
            };
            // What was is read after what could have touched it, and at the end: to read all of it each time takes longest.
            let done = if done.is_ok() && operation.touches_the_past() { self.read_the_past().await } else { done };
            done.map_err(|broken| format!("operation {number}, {operation:?}: {broken}"))?;
        }
        self.end().await.map_err(|broken| format!("at the end: {broken}"))?;
        self.read_the_past().await.map_err(|broken| format!("at the end: {broken}"))
    }

    pub(crate) fn config(&self) -> Config {
        Config::thread(&self.thread)
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
            Operation::Run(items, lives) if self.finished => self.start(items, *lives).await,
            Operation::Run(_, lives) => {
                let run = self.program.go_on(self.config());
                let ended = alive(run, *lives).await;
                self.settle(ended).await
            }
            Operation::Answer(which, lives) if !view.questions.is_empty() => {
                let (id, text) = view.questions[which % view.questions.len()].clone();
                let answer = self.new_answer();
                let run = self.program.answer_by_id(self.config(), id.clone(), answer.clone());
                let ended = alive(run, *lives).await;
                self.settle(ended).await?;
                self.is_answered(id, text, answer).await
            }
            Operation::AnswerPlainly(lives) if view.questions.len() == 1 => {
                let (id, text) = view.questions[0].clone();
                let answer = self.new_answer();
                let ended = alive(self.program.answer(self.config(), answer.clone()), *lives).await;
                self.settle(ended).await?;
                self.is_answered(id, text, answer).await
            }
            // With nothing asked yet in an open step it would wait for who asks first.
            Operation::AnswerPlainly(_) if self.finished || view.questions.len() > 1 => {
                let answer = self.program.answer(self.config(), "to nobody".to_owned()).await;
                self.is_refused(&view, "a plain answer to no one question", answer).await
            }
            Operation::AnswerTwice => {
                let Some(id) = self.answered.clone() else { return Ok(()) };
                let answer = self.program.answer_by_id(self.config(), id, "again".to_owned()).await;
                self.is_refused(&view, "a second answer", answer).await
            }
            Operation::Prune(count) => {
                let (threads, strategy) = (Some(vec![self.thread.clone()]), Keeping::Keep(*count));
                let prune = Prune { threads, strategy, ..Prune::default() };
                self.saver.prune(prune).await.map_err(|error| format!("it cannot be pruned: {error}"))?;
                self.is_unchanged(&view, "pruning").await
            }
            Operation::Fork => {
                let copy = new_thread();
                let copied = self.saver.copy_thread(&self.thread, &copy).await;
                copied.map_err(|error| format!("it cannot be copied: {error}"))?;
                self.world.has_thread(&copy);
                self.thread = copy;
                self.is_unchanged(&view, "copying").await
            }
            Operation::Update if self.finished && self.turn.is_some() => {
                let note = format!("note {}", self.new_answer());
                self.notes.push(note.clone());
                let updated = self.program.note(self.config(), note).await;
                updated.map_err(|error| format!("a finished thread cannot be updated: {error}"))
            }
            Operation::Migrate => {
                self.program = Box::new(Second::new(Watched {
                    saver: self.saver.clone(),
                    world: self.world.clone(),
                    forgets: false,
                }));
                self.is_unchanged(&view, "migrating").await
            }
            Operation::Replay(turns) if self.finished => {
                let Some(input) = self.go_back(*turns).await? else { return Ok(()) };
                let run = self.program.go_on(self.config().checkpoint(input)).await;
                self.settle(Some(run)).await
            }
            Operation::GoBack(turns) => {
                let Some(input) = self.go_back(*turns).await? else { return Ok(()) };
                let copied = self.program.copy(self.config().checkpoint(input)).await;
                copied.map_err(|error| format!("a checkpoint cannot be copied: {error}"))
            }
            Operation::BranchOff => self.branch_off(&view).await,
            Operation::ChangeAsker => self.change_asker(&view).await,
            Operation::Visit if self.finished && self.turn.is_some() => {
                self.visits += 10;
                let visited = self.program.visit(self.config(), 10).await;
                visited.map_err(|error| format!("what a subgraph keeps cannot be updated: {error}"))
            }
            Operation::Sweep(lives) => self.sweep(&view, *lives).await,
            Operation::Signal => self.signal().await,
            Operation::Stray => self.stray(&view).await,
            _ => Ok(()),
        }
    }

    fn new_answer(&mut self) -> String {
        self.answers += 1;
        format!("a{}", self.answers)
    }

    async fn start(&mut self, items: &[Kind], lives: Lives) -> Law {
        let before = Before { log: self.expected_log(), notes: self.notes.clone(), visits: self.expected_visits() };
        let number = self.turns + 1;
        let sent = items.iter().enumerate().map(|(number, kind)| Item { number, kind: *kind }).collect();
        let ended = alive(self.program.start(self.config(), number, sent), lives).await;
        self.settle(ended).await?;
        let begun = self.view().await?.turn == number;
        check(begun || lives.is_some(), || "a run that was not killed has not begun".to_owned())?;
        if begun {
            self.turns = number;
            self.past.extend(self.turn.replace(Turn::new(number, items.to_vec(), before)));
            self.visits = 0;
            self.finished = false;
            self.answered = None;
        }
        Ok(())
    }

    /// Waits until a killed run has let go of the thread. A failure is fine if it is one of the items'.
    pub(crate) async fn settle(&self, ended: Option<Result<(), RunError>>) -> Law {
        match ended {
            None => {
                let claim = Claim { when_running: WhenRunning::Wait(Duration::from_secs(20)), ..Claim::default() };
                let lease = self.saver.acquire(&self.thread, claim).await;
                let lease = lease.map_err(|error| format!("a killed run holds the thread: {error}"))?;
                self.saver.release(&lease).await.map_err(|error| format!("it cannot be released: {error}"))
            }
            Some(Ok(())) => Ok(()),
            Some(Err(error)) if error.to_string().contains("fails once") => Ok(()),
            Some(Err(error)) => Err(format!("the run failed: {error}")),
        }
    }

    /// Notes an answer, unless the run was killed before it was stored.
    async fn is_answered(&mut self, id: String, text: String, answer: String) -> Law {
        let view = self.view().await?;
        let open = view.questions.iter().any(|(open, _)| *open == id);
        if !open && let Some(turn) = &mut self.turn {
            turn.answers.insert(text, answer);
            self.answered = Some(id);
        }
        Ok(())
    }

    async fn is_refused(&self, before: &View, what: &str, ended: Result<(), RunError>) -> Law {
        check(ended.is_err(), || format!("{what} was taken"))?;
        self.is_unchanged(before, what).await
    }

    async fn is_unchanged(&self, before: &View, what: &str) -> Law {
        let view = self.view().await?;
        check(view == *before, || format!("{what} has changed the thread\n from {before:?}\n to   {view:?}"))
    }

    /// What holds once the thread has gone back to the input of a turn, and the checkpoint of that, if it is still there.
    async fn go_back(&mut self, turns: usize) -> Result<Option<Uuid>, String> {
        let line: Vec<Turn> = self.past.iter().chain(&self.turn).cloned().collect();
        let Some(place) = line.len().checked_sub(1 + turns % line.len().max(1)) else { return Ok(None) };
        let turn = line[place].clone();
        let history = self.history().await?;
        let input = history.iter().rev().find(|view| view.turn == turn.number && view.next == ["open"]);
        let Some(input) = input.and_then(|view| view.checkpoint) else { return Ok(None) };
        self.world.went_back();
        self.notes.clone_from(&turn.before.notes);
        self.past = line[..place].to_vec();
        self.turn = Some(Turn::new(turn.number, turn.items, turn.before));
        (self.finished, self.answered, self.visits) = (false, None, 0);
        Ok(Some(input))
    }

    /// The step that is open begins anew, with what it asks.
    async fn branch_off(&mut self, view: &View) -> Law {
        let Some(checkpoint) = view.checkpoint else { return Ok(()) };
        let claim = Claim { when_running: WhenRunning::Wait(Duration::from_secs(20)), ..Claim::default() };
        let lease = self.saver.acquire(&self.thread, claim).await.map_err(|error| error.to_string())?;
        let branched = branch_off(&self.saver, &lease, checkpoint).await;
        self.saver.release(&lease).await.map_err(|error| error.to_string())?;
        branched.map_err(|error| format!("a checkpoint cannot be copied: {error}"))?;
        self.world.went_back();
        if let Some(turn) = &mut self.turn {
            if view.next == ["afresh"] {
                UNCHANGED.clone_into(&mut turn.said);
            }
            if view.next.iter().any(|node| node == "work") {
                // Tasks ask again, also those that had their answer.
                turn.answers.clear();
            }
        }
        self.answered = None;
        Ok(())
    }

    /// What the subgraph asked is withdrawn: an answer is refused.
    async fn change_asker(&mut self, view: &View) -> Law {
        let Some((id, _)) = view.questions.iter().find(|(_, text)| text.ends_with(".afresh")) else { return Ok(()) };
        let said = format!("changed {}", self.new_answer());
        let changed = self.program.change_asker(self.config(), said.clone()).await;
        changed.map_err(|error| format!("a subgraph that asks cannot be changed: {error}"))?;
        self.turn.iter_mut().for_each(|turn| turn.said.clone_from(&said));
        let after = self.view().await?;
        check(after.questions.is_empty(), || format!("{:?} is still asked", after.questions))?;
        let late = self.program.answer_by_id(self.config(), id.clone(), "late".to_owned()).await;
        self.is_refused(&after, "an answer to what is asked no more", late).await?;
        let late = self.program.answer(self.config(), "late".to_owned()).await;
        self.is_refused(&after, "a plain answer to what is asked no more", late).await?;
        self.answered = Some(id.clone());
        Ok(())
    }

    async fn history(&self) -> Result<Vec<View>, String> {
        self.program.history(self.config()).await.map_err(|error| format!("the history cannot be read: {error}"))
    }

    /// Everything can be read, and by its id.
    async fn read_the_past(&self) -> Law {
        for id in self.history().await?.iter().filter_map(|view| view.checkpoint).collect::<Vec<Uuid>>() {
            let read = self.program.view(self.config().checkpoint(id)).await;
            read.map_err(|error| format!("the checkpoint {id} cannot be read: {error}"))?;
        }
        Ok(())
    }

    /// Nothing ran again, and a turn that is finished is as the model says.
    async fn look(&mut self) -> Law {
        let again = self.world.ran_again();
        check(again.is_empty(), || format!("{again:?} ran again, and what they had done was committed"))?;
        let view = self.view().await?;
        self.finished = view.is_finished();
        if !self.finished {
            return Ok(());
        }
        self.is_as_expected(&view)?;
        let visits = self.program.visits(self.config()).await;
        let visits = visits.map_err(|error| format!("what a subgraph keeps cannot be read: {error}"))?;
        let wanted = self.expected_visits();
        check(visits == wanted, || format!("a subgraph keeps {visits} visits instead of {wanted}"))
    }

    fn is_as_expected(&self, view: &View) -> Law {
        let differs = |what: &str, found: &dyn std::fmt::Debug, wanted: &dyn std::fmt::Debug| {
            format!("{what}: {found:?} instead of {wanted:?}")
        };
        let log = self.expected_log();
        check(view.log == log, || differs("the log", &view.log, &log))?;
        check(view.notes == self.notes, || differs("the notes", &view.notes, &self.notes))?;
        let Some(turn) = &self.turn else { return Ok(()) };
        let said = turn.said();
        check(view.said == said, || differs("what the subgraph said", &view.said, &said))?;
        let calls = turn.visits();
        check(view.calls == calls, || differs("the calls", &view.calls, &calls))
    }

    fn expected_log(&self) -> Vec<String> {
        self.turn.as_ref().map_or_else(Vec::new, Turn::log)
    }

    fn expected_visits(&self) -> u32 {
        self.turn.as_ref().map_or(0, Turn::visits) + self.visits
    }

    /// Whatever was done, the thread can be brought to its end.
    async fn end(&mut self) -> Law {
        for _ in 0..40 {
            if self.finished {
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
