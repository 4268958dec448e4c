//! The detached subagents of an agent, which continue between the turns of their supervisor.

use serde_json::json;

use super::background_set::{BackgroundRunner, BackgroundSet, SubagentEnd};
use crate::state::background::BackgroundSubagent;
use crate::state::base::BaseState;
use hier_core::NodeError;
use hier_core::graph::Task;
use hier_core::internals::{BackgroundEnd, DetachedEnd, DetachedRuns};
use hier_core::state::{Contains, Values};

impl<S: Values + Contains<BaseState>, C: Send + Sync + 'static> BackgroundSet<S, C> {
    /// Iterates over the detached subagents whose reports are not collected.
    fn detached<'a>(
        &'a self,
        state: &'a S,
    ) -> impl Iterator<Item = (&'a str, &'a BackgroundSubagent, &'a dyn BackgroundRunner<S, C>)> {
        let running = state.part().background_subagents.running();
        let runners = running.filter_map(|(handle, record)| Some((handle, record, self.runner(record)?)));
        runners.filter(|(_, _, runner)| runner.is_detached())
    }
}

impl<S: Values + Contains<BaseState>, C: Send + Sync + 'static> DetachedRuns<S, C> for BackgroundSet<S, C> {
    fn graphs(&self) -> Vec<String> {
        let detached = self.0.iter().filter(|(_, runner)| runner.is_detached());
        detached.map(|(_, runner)| runner.graph().to_owned()).collect()
    }

    fn names(&self, state: &S) -> Vec<String> {
        self.detached(state).map(|(handle, record, _)| record.thread_name(handle)).collect()
    }

    fn start(&self, task: &Task<S, C>, name: &str) -> Result<(), NodeError> {
        let mut detached = self.detached(task.state());
        let found = detached.find(|(handle, record, _)| record.thread_name(handle) == name);
        found.map_or(Ok(()), |(handle, record, runner)| runner.start(task, handle, record, Vec::new()))
    }

    fn end(&self, end: &BackgroundEnd) -> DetachedEnd {
        match end.downcast_ref() {
            Some(SubagentEnd::Ended { report, is_success, .. }) => {
                let status = if *is_success { "reported" } else { "failed" };
                DetachedEnd::Ended(json!({ "status": status, "report": report }))
            }
            Some(SubagentEnd::Asks(questions)) => DetachedEnd::Asks(questions.clone()),
            Some(SubagentEnd::Unstored(error)) => DetachedEnd::Unstored(error.clone()),
            Some(SubagentEnd::Elsewhere) => DetachedEnd::Elsewhere,
            // This run passes no answers, so no answer can be wrong.
            Some(SubagentEnd::WrongAnswer(..) | SubagentEnd::Stopped) | None => DetachedEnd::Stopped,
        }
    }
}
