use crate::checkpoint::{Source, WriteRecord};
use crate::engine::durable::input;
use crate::engine::run::commit::StepCommit;
use crate::engine::run::runner::GraphRunner;
use crate::error::RunError;
use crate::policy::GraphEntry;
use crate::state::{Values, Writes};

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    /// Begins a run that is not durable.
    pub(super) async fn begin(&mut self, input: Writes<S>) -> Result<(), RunError> {
        let input = self.enter_graph(input).await?;
        self.position.set_input(Some(input));
        self.step = self.step.saturating_add(1);
        self.run_start()?;
        self.step = self.step.saturating_add(1);
        self.leave_if_over().await
    }

    /// Begins a durable run. Makes the checkpoint of the input, whose superstep is `step`, and the checkpoint of START.
    pub(super) async fn begin_durably(&mut self, input: Writes<S>, step: i64) -> Result<(), RunError> {
        self.enter_at(step, GraphEntry::Start);
        let input = self.enter_graph(input).await?;
        self.position.set_input(Some(input));
        let input = self.checkpoint(Source::Input)?;
        self.emit_checkpoint(step, Source::Input);
        self.step = self.step.saturating_add(1);
        let applied = self.apply_start().await;
        let mut commit = StepCommit { records: input.into_iter().collect(), taken: Vec::new() };
        let mut refused = None;
        if applied.is_ok() {
            // The input is stored and applied even if the inbox contains a message that the channel does not accept.
            match self.drain_inbox().await {
                Ok(taken) => commit.taken = taken,
                Err(error) => refused = Some(error),
            }
            self.add_start(&mut commit.records)?;
        }
        self.commit(commit).await?;
        applied?;
        self.emit_checkpoint(self.step, Source::Loop);
        self.step = self.step.saturating_add(1);
        refused.map_or(Ok(()), Err)
    }

    async fn apply_start(&mut self) -> Result<(), RunError> {
        self.run_start()?;
        self.leave_if_over().await
    }

    /// Adds the checkpoint of START. The checkpoint of the input refers to it, so equal bytes are stored once.
    fn add_start(&mut self, records: &mut Vec<WriteRecord>) -> Result<(), RunError> {
        if let Some(start) = self.checkpoint(Source::Loop)? {
            for input in &mut *records {
                input::shorten(input, &start);
            }
            records.push(start);
        }
        Ok(())
    }
}
