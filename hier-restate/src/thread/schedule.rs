//! Scheduled work of a thread: wake-ups at due times, and the deletion after the time to live.

use std::time::{Duration, SystemTime};

use restate_sdk::prelude::*;
use uuid::Uuid;

use super::ThreadObject;
use crate::message::Packed;
use crate::slice::SliceProgress;
use crate::stored::ActiveRun;
use crate::wire::{Expire, Wake};
use crate::work::{DueTime, ThreadWork, WorkEnd, millis};

/// The delay before a thread with an unknown due time is checked again, in milliseconds.
const AGAIN: u64 = 60_000;

impl ThreadObject<'_, '_> {
    /// Schedules the deletion of the thread if the thread has a time to live and no deletion is scheduled.
    pub(super) fn schedule_expiry(&mut self) {
        let lives = self.meta.last.as_ref().and_then(|settings| settings.time_to_live);
        if let (Some(lives), None) = (lives, self.meta.expiry) {
            let number = self.meta.version;
            self.meta.expiry = Some(number);
            self.ctx.request::<_, ()>(self.to_itself("expire"), Packed(Expire { number })).send_after(lives);
        }
    }

    /// Deletes the thread if it has not changed since the message was sent. Otherwise, schedules the deletion again.
    pub(crate) fn expire(mut self, Expire { number }: Expire) {
        if self.meta.expiry != Some(number) {
            return;
        }
        self.meta.expiry = None;
        if self.meta.run.is_none() {
            let lives = self.meta.last.as_ref().is_some_and(|settings| settings.time_to_live.is_some());
            if lives && self.meta.version == number {
                self.forget();
                return;
            }
            self.schedule_expiry();
        }
        self.store();
    }

    /// Schedules a wake-up for the time at which the thread is due. Does nothing while a run is active. If the time is
    /// unknown, keeps the scheduled wake-up or schedules one in a minute. A wake-up that is overdue may have been
    /// cancelled by an operator, so it is scheduled again.
    pub(super) fn schedule_wake(&mut self, due: DueTime, now: u64) {
        let due = match due {
            DueTime::Known(due) => due,
            DueTime::Unknown => Some(self.meta.wake.unwrap_or(now.saturating_add(AGAIN))),
        };
        let is_scheduled = due == self.meta.wake && due.is_none_or(|due| due > now);
        if self.meta.run.is_some() || is_scheduled {
            return;
        }
        self.meta.wake = due;
        if let Some(due) = due {
            // Only the delay depends on the clock, which Restate does not compare between attempts.
            let delay = Duration::from_millis(due.saturating_sub(millis(SystemTime::now())));
            self.ctx.request::<_, ()>(self.to_itself("wake"), Packed(Wake { due })).send_after(delay);
        }
    }

    pub(crate) async fn wake(mut self, wake: Wake) -> Result<(), TerminalError> {
        if self.meta.wake != Some(wake.due) {
            return Ok(());
        }
        self.meta.wake = None;
        if self.meta.run.is_some() {
            // The end of the run checks for due work.
            self.store();
            return Ok(());
        }
        let Some(settings) = self.meta.last.clone() else { return Ok(()) };
        let id = Uuid::from_u64_pair(self.ctx.random_seed(), 1);
        let (progress, slice) = (SliceProgress::default(), 0);
        let going = ActiveRun { id, awakeable: None, settings, progress, slice, clock: wake.due, listener: None };
        let done = match self.work(ThreadWork::Wake(going.piece())).await {
            Ok(done) => done,
            Err(error) => {
                self.schedule_wake(DueTime::Unknown, wake.due);
                self.store();
                return Err(error);
            }
        };
        if matches!(done.end, WorkEnd::Nothing) {
            self.schedule_wake(done.due, done.now);
            self.store();
            return Ok(());
        }
        self.meta.run = Some(ActiveRun { progress: done.progress.clone(), clock: done.now, ..going });
        if let WorkEnd::Run(ended) = done.end {
            self.end(&ended, done.due, done.now);
        } else {
            // The next slice continues from the stored state.
            self.next_turn();
        }
        Ok(())
    }
}
