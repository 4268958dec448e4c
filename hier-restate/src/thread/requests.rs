//! Requests of clients to a thread: updates, messages, cancellations and the deletion.

use hier_core::checkpoint::{SaverError, WhenRunning};
use restate_sdk::prelude::*;
use uuid::Uuid;

use super::{ThreadObject, Updated};
use crate::error::RunFailure;
use crate::message::{Message, Packed};
use crate::stored::ActiveRun;
use crate::wire::{Post, UpdateState};
use crate::work::{DueTime, ThreadWork, WorkEnd};

impl ThreadObject<'_, '_> {
    pub(crate) async fn update(mut self, update: UpdateState) -> Result<Message<Updated>, TerminalError> {
        let id = Uuid::from_u64_pair(self.ctx.random_seed(), 2);
        if self.meta.run.is_some() {
            if update.settings.when_running != Some(WhenRunning::TakeOver) {
                return Ok(Message::unchecked(&Err(self.busy())));
            }
            if let Some(refused) = self.check(ThreadWork::Update(update.clone(), id)).await? {
                return Ok(self.answer("the answer to the update", &Err(refused)));
            }
        }
        let ended = self.meta.run.take();
        if let Some(going) = &ended {
            let reason = format!("thread `{}` was taken over by an update", self.ctx.key());
            self.resolve(going, &Err(RunFailure::new("Superseded", reason)));
        }
        let updated = self.apply(update, id).await;
        if let (Err(_), Some(ended)) = (&updated, &ended) {
            // Wake-ups during the run were deferred to its end.
            self.schedule_wake(DueTime::Unknown, ended.clock);
        }
        self.schedule_expiry();
        // A run that was taken over is no longer active, even if the update fails.
        self.store();
        updated.map(|updated| self.answer("the answer to the update", &updated))
    }

    async fn apply(&mut self, update: UpdateState, id: Uuid) -> Result<Updated, TerminalError> {
        let done = self.work(ThreadWork::Update(update, id)).await?;
        self.schedule_wake(done.due, done.now);
        Ok(match done.end {
            WorkEnd::Updated(updated) => updated,
            WorkEnd::Run(Err(failure)) => Err(failure),
            other => Err(RunFailure::new("RunError", format!("unexpected end of an update: {other:?}"))),
        })
    }

    pub(crate) async fn post(mut self, post: Post) -> Result<Message<Result<bool, RunFailure>>, TerminalError> {
        let done = self.work(ThreadWork::Post(post.letter)).await?;
        self.schedule_wake(done.due, done.now);
        self.store();
        let posted = match done.end {
            WorkEnd::Posted(posted) => posted,
            WorkEnd::Run(Err(failure)) => Err(failure),
            other => Err(RunFailure::new("RunError", format!("unexpected end of a message: {other:?}"))),
        };
        Ok(self.answer("the answer to the message", &posted))
    }

    /// Cancels the run of the thread. `run` restricts this to a certain run. Returns true if a run was cancelled.
    pub(crate) async fn cancel(mut self, run: Option<Uuid>) -> Result<Packed<bool>, TerminalError> {
        let is_meant = |going: &mut ActiveRun| run.is_none_or(|run| run == going.id);
        let Some(going) = self.meta.run.take_if(is_meant) else { return Ok(Packed(false)) };
        let reason = format!("the run of thread `{}` was cancelled", self.ctx.key());
        // Work that became due meanwhile was deferred to the end of the run.
        let done = self.work(ThreadWork::Look).await?;
        self.meta.run = Some(going);
        self.end(&Err(RunFailure::new("Cancelled", reason)), done.due, done.now);
        Ok(Packed(true))
    }

    /// Deletes the thread, also from the saver that stores it.
    pub(crate) async fn delete(self) -> Result<(), TerminalError> {
        if let Some(saver) = self.host.saver.clone() {
            let thread = self.ctx.key().to_owned();
            let delete = || async move {
                match saver.delete_thread(&thread).await {
                    // Another attempt would fail again.
                    Err(error @ (SaverError::Invalid(_) | SaverError::NotSupported { .. })) => {
                        Err(TerminalError::new(error.to_string()).into())
                    }
                    ended => Ok(Packed(ended?)),
                }
            };
            self.ctx.run(delete).name("delete").await?;
        }
        self.forget();
        Ok(())
    }

    /// Deletes the state of the thread in Restate. A saver deletes its threads by itself after their time to live.
    pub(crate) fn forget(self) {
        if let Some(going) = &self.meta.run {
            let reason = format!("thread `{}` was deleted", self.ctx.key());
            self.resolve(going, &Err(RunFailure::new("Superseded", reason)));
        }
        self.host.threads.forget(&self.host.name, self.ctx.key());
        self.ctx.clear_all();
    }
}
