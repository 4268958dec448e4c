//! A thread that waits for a time or a signal is driven even if the driving process is killed.

use std::time::Duration;

use hier_agents::prelude::*;

use crate::machine::{Law, Machine, check};
use crate::operation::{Death, Lives};
use crate::program_of::View;
use crate::world::Kind;

/// Time by which the clock advances before a sweep.
const LATER: Duration = Duration::from_hours(2);
/// Time after which a thread whose process was killed is found.
const LEASE: Duration = Duration::from_mins(1);

/// Returns true if a thread has ended or waits for input, a time or a signal.
fn is_at_rest(view: &View) -> bool {
    view.is_finished() || !view.questions.is_empty() || !view.waits.is_empty()
}

impl Machine {
    /// Advances the clock by two hours and drives the due threads, also the copies. If the driving process is killed, the next one takes
    /// over.
    pub(crate) async fn sweep(&mut self, before: &View, lives: Lives) -> Law {
        self.world.goes_ahead(LATER);
        if let Some(death) = lives {
            let (program, config) = (self.program.clone(), self.config());
            // A sweeper that stands still may begin with further threads later.
            let killed = Some(Death { stalls: false, ..death });
            let swept = self.alive(async move { program.sweep(config).await }, killed).await?;
            for thread in self.left.iter().map(|line| line.thread.clone()).collect::<Vec<_>>() {
                self.is_let_go(&thread).await?;
            }
            self.swept(swept)?;
            for _ in 0..3 {
                self.world.goes_ahead(LEASE);
                let swept = self.program.sweep(self.config()).await;
                self.swept(Some(swept))?;
            }
            let fails = self.line.turn.iter().any(|turn| turn.items.contains(&Kind::Fails));
            let after = self.view().await?;
            return check(fails || !is_at_rest(before) || is_at_rest(&after), || {
                format!("a thread is lost whose sweeper was killed:\n from {before:?}\n to   {after:?}")
            });
        }
        let swept = self.program.sweep(self.config()).await;
        self.swept(Some(swept))?;
        let now = self.world.now();
        for line in std::iter::once(&self.line).chain(&self.left) {
            let view = self.program.view(self.config_of(&line.thread)).await.map_err(|error| error.to_string())?;
            let late = view.waits.iter().flatten().any(|due| *due <= now);
            check(!late, || format!("a due thread was not resumed: {}, {view:?}", line.thread))?;
        }
        Ok(())
    }

    fn swept(&self, swept: Option<Result<Vec<Result<(), RunError>>, RunError>>) -> Law {
        match swept {
            None => Ok(()),
            Some(Err(error)) => Err(format!("nothing can be driven: {error}")),
            Some(Ok(driven)) => driven.into_iter().try_for_each(|ended| self.settle(Some(ended))),
        }
    }

    /// A signal that tasks wait for, now or later.
    pub(crate) async fn signal(&self) -> Law {
        let sent = self.program.signal(&self.line.thread, false).await;
        sent.map_err(|error| format!("a signal is refused: {error}"))
    }

    /// A signal through another graph is refused, once the thread is one's own.
    pub(crate) async fn stray(&self, view: &View) -> Law {
        if view.checkpoint.is_none() {
            return Ok(());
        }
        let sent = self.program.signal(&self.line.thread, true).await;
        check(sent.is_err(), || "a signal for another graph was taken".to_owned())
    }
}
