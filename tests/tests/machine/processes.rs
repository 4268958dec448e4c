//! Several processes on one thread: one that stands still and is taken over, two at once.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::checkpoint::{Claim, SaverError, WhenRunning};

use crate::machine::{Law, Machine, check};
use crate::operation::{Lives, Policy};
use crate::program_of::{First, Program, Second, View};
use crate::watched::Watched;

/// Everything ends sooner.
const LONG: Duration = Duration::from_secs(30);

/// A run that is not polled any more.
pub(crate) struct Stalled {
    thread: String,
    run: Pin<Box<dyn Future<Output = ()>>>,
}

/// Polls a run a limited number of times. Returns none if it has not ended.
pub(crate) async fn polled<T>(mut run: Pin<&mut impl Future<Output = T>>, polls: u8) -> Option<T> {
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await;
        if let Poll::Ready(ended) = polled {
            return Some(ended);
        }
        tokio::task::yield_now().await;
    }
    None
}

impl Machine {
    /// Compiles the graph of a separate process.
    pub(crate) fn compile(&self, saver: usize) -> Arc<dyn Program> {
        let (saver, world) = (self.savers[saver].clone(), self.world.process());
        let watched = Watched { saver, world, fault: self.fault };
        if self.migrated { Arc::new(Second::new(watched)) } else { Arc::new(First::new(watched)) }
    }

    /// Returns the end of a run, or `None` if its process died or stands still. Then the thread is free again.
    pub(crate) async fn alive<T: 'static>(
        &mut self,
        run: impl Future<Output = T> + 'static,
        lives: Lives,
    ) -> Result<Option<T>, String> {
        let Some(death) = lives else { return Ok(Some(run.await)) };
        // From now on the program holds the thread if this run has claimed it.
        self.world.is_free(&self.line.thread);
        let mut run = Box::pin(run);
        if let Some(ended) = polled(run.as_mut(), death.polls).await {
            return Ok(Some(ended));
        }
        // A process that has no claim yet would begin later, as any other.
        let stalls = death.stalls && self.program.holds(&self.line.thread);
        if !stalls {
            drop(run);
            self.is_let_go(&self.line.thread.clone()).await?;
            return Ok(None);
        }
        let thread = self.line.thread.clone();
        let claim = Claim { when_running: WhenRunning::TakeOver, ..Claim::default() };
        let lease = self.saver().acquire(&thread, claim).await.map_err(|error| format!("no takeover: {error}"))?;
        self.world.is_free(&thread);
        self.stalled.push(Stalled { thread, run: Box::pin(async move { drop(run.await) }) });
        self.program = self.compile(self.at);
        self.saver().release(&lease).await.map_err(|error| format!("it cannot be released: {error}"))?;
        Ok(None)
    }

    /// Waits until a killed run has let go of a thread.
    pub(crate) async fn is_let_go(&self, thread: &str) -> Law {
        let claim = Claim { when_running: WhenRunning::Wait(Duration::from_secs(20)), ..Claim::default() };
        let lease = self.saver().acquire(thread, claim).await;
        let lease = lease.map_err(|error| format!("a killed run holds the thread: {error}"))?;
        self.saver().release(&lease).await.map_err(|error| format!("it cannot be released: {error}"))
    }

    /// The process that was suspended the longest continues. Its work is not stored.
    pub(crate) async fn wake(&mut self) -> Law {
        if self.stalled.is_empty() {
            return Ok(());
        }
        let Stalled { thread, run } = self.stalled.remove(0);
        let config = self.config_of(&thread);
        let before = self.everything(config.clone()).await?;
        let ended = tokio::time::timeout(LONG, run).await;
        check(ended.is_ok(), || "a run that was taken over does not end".to_owned())?;
        let after = self.everything(config).await?;
        let counts = (before.len(), after.len());
        check(counts.0 == counts.1, || format!("a run that was taken over has stored checkpoints: {counts:?}"))?;
        let changed = before.iter().zip(&after).find(|(before, after)| before != after);
        check(changed.is_none(), || format!("a run that was taken over has changed the thread: {changed:#?}"))
    }

    /// The thread as it is, and its checkpoints.
    async fn everything(&self, config: Config) -> Result<Vec<View>, String> {
        let mut views = vec![self.program.view(config.clone()).await.map_err(|error| error.to_string())?];
        views.extend(self.program.history(config).await.map_err(|error| error.to_string())?);
        Ok(views)
    }

    /// A program of the first version reads the thread, or is refused and changes nothing.
    pub(crate) async fn meets_an_older_program(&self, view: &View) -> Law {
        let watched = Watched { saver: self.savers[0].clone(), world: self.world.process(), fault: self.fault };
        let older = First::new(watched);
        if let Ok(read) = older.view(self.config()).await {
            return check(read == *view, || format!("an older program reads\n {read:?}\n instead of\n {view:?}"));
        }
        let ended = older.continue_thread(self.config()).await;
        check(ended.is_err(), || "an older program runs a thread that it cannot read".to_owned())?;
        // A new turn drops what an open one has done so far: that need not be read.
        if self.line.finished {
            let ended = older.start(self.config(), self.line.turns + 1, Vec::new()).await;
            check(ended.is_err(), || "an older program begins a turn of a thread that it cannot read".to_owned())?;
        }
        self.is_unchanged(view, "an older program").await
    }

    /// Two processes answer one question, or continue the thread.
    pub(crate) async fn race(&mut self, view: &View, policy: Policy, order: u64) -> Law {
        let question = view.questions.first().cloned();
        if self.line.finished || question.is_none() && !view.waits.is_empty() {
            return Ok(());
        }
        let policy = match (policy, question.is_some()) {
            // An answer may be stored by a run that is taken over: neither run says which answer that was.
            (Policy::Reject, _) | (Policy::TakeOver, true) => WhenRunning::Reject,
            (Policy::TakeOver, false) => WhenRunning::TakeOver,
            (Policy::Wait, _) => WhenRunning::Wait(Duration::from_secs(20)),
        };
        let answers = [self.new_answer(), self.new_answer()];
        let programs = [self.compile(0), self.compile(1)];
        let config = self.config().when_running(policy);
        let run = |which: usize| {
            let (program, config, answer) = (&programs[which], config.clone(), answers[which].clone());
            match &question {
                Some((id, _)) => program.answer_by_id(config, id.clone(), answer),
                None => program.continue_thread(config),
            }
        };
        let ended = tokio::time::timeout(LONG, both(run(0), run(1), order)).await;
        let ended = ended.map_err(|_| "two runs of a thread do not end".to_owned())?;
        let mut taken = Vec::new();
        for (ended, answer) in ended.into_iter().zip(answers) {
            match ended {
                Ok(()) => taken.push(answer),
                Err(error) if error.to_string().contains("fails once") => taken.push(answer),
                Err(RunError::Saver { error: SaverError::Busy { .. } | SaverError::Superseded { .. }, .. }) => {}
                // The other answer was there first.
                Err(_) if question.is_some() => {}
                Err(error) => return Err(format!("one of two runs failed: {error}")),
            }
        }
        check(!taken.is_empty(), || "each of two runs has left the thread to the other".to_owned())?;
        let Some((id, text)) = question else { return Ok(()) };
        check(taken.len() == 1, || format!("two answers to one question were taken: {taken:?}"))?;
        self.is_answered(id, text, taken.remove(0)).await
    }
}

/// Polls two runs in this order until both have ended.
async fn both<T>(one: impl Future<Output = T>, other: impl Future<Output = T>, order: u64) -> [T; 2] {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    for place in 0..u64::from(u64::BITS) {
        if order >> place & 1 == 0 && first.is_none() {
            first = polled(one.as_mut(), 1).await;
        } else if second.is_none() {
            second = polled(other.as_mut(), 1).await;
        }
    }
    let (one, other) = tokio::join!(async { if let Some(ended) = first { ended } else { one.await } }, async {
        if let Some(ended) = second { ended } else { other.await }
    });
    [one, other]
}
