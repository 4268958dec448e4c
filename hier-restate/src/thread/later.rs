//! What a thread is to do later: look at what is due, end its life.

use std::time::{Duration, SystemTime};

use restate_sdk::prelude::*;
use uuid::Uuid;

use super::Thread;
use crate::slice::Progress;
use crate::stored::Running;
use crate::wire::{Expire, Packed, Wake};
use crate::work::{Due, End, Work, millis};

/// Delay before a thread with an unknown due time is checked again, in milliseconds.
const AGAIN: u64 = 60_000;

impl Thread<'_, '_> {
    /// Sends somebody to end the thread's life once its time has passed, unless one is under way.
    pub(super) fn live_on(&mut self) {
        let lives = self.meta.last.as_ref().and_then(|settings| settings.time_to_live);
        if let (Some(lives), None) = (lives, self.meta.expiry) {
            let number = self.meta.version;
            self.meta.expiry = Some(number);
            self.ctx.request::<_, ()>(self.to_itself("expire"), Packed(Expire { number })).send_after(lives);
        }
    }

    /// Ends the thread's life if nothing has happened to it since this was sent; else it lives on for as long again.
    pub(crate) fn expire(mut self, Expire { number }: Expire) {
        if self.meta.expiry != Some(number) {
            return;
        }
        self.meta.expiry = None;
        if self.meta.run.is_none() {
            let lives = self.meta.last.as_ref().is_some_and(|settings| settings.time_to_live.is_some());
            if lives && self.meta.version == number {
                self.delete();
                return;
            }
            self.live_on();
        }
        self.store();
    }

    /// Schedules a wake-up for when the thread is due, unless a run is active. If the due time is unknown, keeps the earlier wake-up or
    /// schedules one soon.
    pub(super) fn look_later(&mut self, due: Due, now: u64) {
        let due = match due {
            Due::Known(due) => due,
            Due::Unknown => Some(self.meta.wake.unwrap_or(now.saturating_add(AGAIN))),
        };
        if self.meta.run.is_some() || due == self.meta.wake {
            return;
        }
        self.meta.wake = due;
        if let Some(due) = due {
            // The clock is read again by whoever looks; here only the delay depends on it, which Restate does not compare.
            let delay = Duration::from_millis(due.saturating_sub(millis(SystemTime::now())));
            self.ctx.request::<_, ()>(self.to_itself("wake"), Packed(Wake { due })).send_after(delay);
        }
    }

    /// Runs what is due.
    pub(crate) async fn wake(mut self, wake: Wake) -> Result<(), TerminalError> {
        if self.meta.wake != Some(wake.due) {
            return Ok(());
        }
        self.meta.wake = None;
        if self.meta.run.is_some() {
            // What is due is seen at the end of the run.
            self.store();
            return Ok(());
        }
        let Some(mut settings) = self.meta.last.clone() else { return Ok(()) };
        settings.checkpoint = None;
        let id = Uuid::from_u64_pair(self.ctx.random_seed(), 1);
        let (progress, slice) = (Progress::default(), 0);
        let going = Running { id, awakeable: None, settings, progress, slice, clock: wake.due, listener: None };
        let done = self.work(Work::Wake(going.piece())).await?;
        if matches!(done.end, End::Nothing) {
            self.look_later(done.due, done.now);
            self.store();
            return Ok(());
        }
        self.meta.run = Some(Running { progress: done.progress.clone(), clock: done.now, ..going });
        if let End::Run(ended) = done.end {
            self.end(ended, done.due, done.now);
        } else {
            // The next slice finds where it stands.
            self.next_turn();
        }
        Ok(())
    }
}
