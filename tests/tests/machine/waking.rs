//! What waits for a time or a signal is driven, whatever becomes of who drives it.

use std::time::Duration;

use crate::machine::{Law, Machine, check};
use crate::operation::{Lives, alive};
use crate::program_of::View;
use crate::world::Kind;

/// How much later the threads are that are driven.
const LATER: Duration = Duration::from_hours(2);
/// After so long a thread is found whose process was killed.
const LEASE: Duration = Duration::from_mins(1);

/// Whether a thread waits for somebody, or has ended.
fn is_at_rest(view: &View) -> bool {
    view.is_finished() || !view.questions.is_empty() || !view.waits.is_empty()
}

impl Machine {
    /// Two hours later, whoever is due goes on; if who drives is killed, the next one goes on with it.
    pub(crate) async fn sweep(&mut self, before: &View, lives: Lives) -> Law {
        self.world.goes_ahead(LATER);
        if lives.is_some() {
            let swept = alive(self.program.sweep(self.config()), lives).await;
            self.swept(swept).await?;
            for _ in 0..3 {
                self.world.goes_ahead(LEASE);
                let swept = self.program.sweep(self.config()).await;
                self.swept(Some(swept)).await?;
            }
            let fails = self.turn.iter().any(|turn| turn.items.contains(&Kind::Fails));
            let after = self.view().await?;
            return check(fails || !is_at_rest(before) || is_at_rest(&after), || {
                format!("a thread is lost whose sweeper was killed:\n from {before:?}\n to   {after:?}")
            });
        }
        let swept = self.program.sweep(self.config()).await;
        self.swept(Some(swept)).await?;
        let (after, now) = (self.view().await?, self.world.now());
        let late = after.waits.iter().flatten().any(|due| *due <= now);
        check(!late, || format!("what is due was not driven: {after:?}"))
    }

    async fn swept(&self, swept: Option<Result<Vec<Result<(), hier_core::RunError>>, hier_core::RunError>>) -> Law {
        match swept {
            None => self.settle(None).await,
            Some(Err(error)) => Err(format!("nothing can be driven: {error}")),
            Some(Ok(driven)) => {
                for ended in driven {
                    self.settle(Some(ended)).await?;
                }
                Ok(())
            }
        }
    }

    /// A signal that tasks wait for, now or later.
    pub(crate) async fn signal(&self) -> Law {
        let sent = self.program.signal(&self.thread, false).await;
        sent.map_err(|error| format!("a signal is refused: {error}"))
    }

    /// A signal through another graph is refused, once the thread is one's own.
    pub(crate) async fn stray(&self, view: &View) -> Law {
        if view.checkpoint.is_none() {
            return Ok(());
        }
        let sent = self.program.signal(&self.thread, true).await;
        check(sent.is_err(), || "a signal for another graph was taken".to_owned())
    }
}
