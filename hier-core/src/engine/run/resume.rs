//! Opens a durable thread: begins the thread, or continues it from a checkpoint.

use std::sync::Arc;

use crate::channel::Kind;
use crate::checkpoint::Checkpoint;
use crate::engine::durable::commands::CommandEffect;
use crate::engine::durable::heads::HeadReader;
use crate::engine::durable::journal::{Journal, JournalStart};
use crate::engine::durable::load::{LoadRequest, LoadedThread, load};
use crate::engine::durable::pending::Pending;
use crate::engine::durable::stored_graph::{StoredGraph, read_root};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::durable::{answer, attempts, check};
use crate::engine::log::committer::Committer;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{GraphContext, Input, Program, Task, TaskKey};
use crate::engine::run::runner::GraphRunner;
use crate::error::RunError;
use crate::state::{Values, Writes};

/// A thread that continues from a checkpoint.
pub(super) struct OpenThread {
    pub(super) checkpoint: Checkpoint,
    pub(super) pending: Pending,
    /// True if the thread has no newer checkpoint.
    pub(super) is_newest: bool,
}

/// Opens the thread of `log`, and applies the input.
pub(super) async fn open_thread<S: Values, C: GraphContext>(
    runner: &mut GraphRunner<S, C>,
    log: Arc<TaskLog>,
    input: Input<S>,
) -> Result<(), RunError> {
    let graph = runner.task.graph.clone();
    let config = runner.task.run.shared.config.clone();
    let committer = log.committer.clone();
    let reader = ThreadReader { graph: &graph, thread: &committer.lease.thread };
    let stored = read_root(reader, &committer.saver, &config).await.map_err(|error| reader.failed(error))?;
    let StoredGraph { saved, conversations, conversations_since, newest, heads } = stored;
    runner.configure_breakpoints()?;
    if config.is_detached
        && let Some(saved) = &saved
    {
        attempts::begin(reader, &committer, saved, config.max_attempts).await?;
    }
    log.set_heads(heads);
    let journal = |start| {
        Journal::new(&graph, log, config.metadata.clone(), Arc::default(), start)
            .step_policy(config.step_policy.as_deref())
    };
    let Some(saved) = saved else {
        if let Some(id) = config.checkpoint {
            return Err(RunError::NoCheckpoint { thread: reader.thread.to_owned(), checkpoint: id.to_string() });
        }
        let start = JournalStart { newest, ..JournalStart::default() };
        runner.start_journal(journal(start));
        if matches!(input, Input::Enter) {
            runner.store_whole_state();
        }
        return runner.begin_durably(first_input(reader, input)?, -1).await;
    };
    if matches!(input, Input::Whole(_)) {
        return Err(RunError::WholeState { graph: reader.graph_name(), thread: reader.thread.to_owned() });
    }
    let request =
        LoadRequest { saved, conversations, newest, initial: unstored(&graph, &runner.task.state), is_child: false };
    let LoadedThread { checkpoint, state, position, pending, start } = load(reader, request)?;
    runner.restore(journal(start).remember_conversations(conversations_since), state, position);
    if pending.has_waiting_task().map_err(|error| reader.unfit(error))? {
        committer.note_waiting();
    }
    let effect = pending.command_effect(reader, &runner.task.state).map_err(|error| reader.unfit(error))?;
    runner.apply_commands(effect)?;
    let is_newest = newest.is_none_or(|newest| newest <= checkpoint.id);
    let thread = OpenThread { checkpoint, pending, is_newest };
    match input {
        Input::New(writes) | Input::Whole(writes) => runner.replace_open_step(thread, writes).await,
        Input::Continue | Input::Enter => runner.continue_thread(thread, None).await,
        Input::Command(command) => runner.continue_thread(thread, Some(*command)).await,
    }
}

/// Returns the input of a thread without checkpoints. The update of a command is such an input.
fn first_input<S: Values, C>(reader: ThreadReader<'_, S, C>, input: Input<S>) -> Result<Writes<S>, RunError> {
    match input {
        Input::New(writes) | Input::Whole(writes) => Ok(writes),
        Input::Enter => Ok(Writes::new()),
        Input::Command(command) if command.answers.is_some() && !reader.graph.lenient => {
            Err(answer::unknown_thread(reader))
        }
        Input::Command(command) if check::is_input(&command) || command.answers.is_some() => {
            check::check_targets(reader.graph, &command)?;
            Ok(command.writes)
        }
        Input::Continue | Input::Command(_) => Err(RunError::EmptyInput { graph: reader.graph_name() }),
    }
}

/// Returns the initial state, but with the values of `state` in the channels that are never stored.
pub(super) fn unstored<S: Values, C>(graph: &Program<S, C>, state: &S) -> S {
    let mut initial = (graph.initial)();
    let channels = graph.channels.iter().enumerate();
    for (channel, _) in channels.filter(|(_, spec)| spec.kind == Kind::Untracked) {
        if let Some(value) = state.get_any(channel) {
            initial.set_any(channel, value);
        }
    }
    initial
}

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    /// Makes the next checkpoint store all values, because the state does not begin with initial values.
    pub(super) fn store_whole_state(&mut self) {
        self.position.store_again(self.task.graph.channels.len());
    }

    /// Starts the journal of a graph that has no checkpoint.
    pub(super) fn start_journal(&mut self, journal: Journal) {
        self.position.track_changes(&self.task.graph.channels);
        self.journal = Some(Box::new(journal));
    }

    /// Applies the writes of commands, and follows their destinations in addition to the next nodes.
    pub(super) fn apply_commands(&mut self, effect: CommandEffect<S>) -> Result<(), RunError> {
        let Task { graph, state, .. } = &mut self.task;
        self.position.apply_outside(graph, Arc::make_mut(state), effect.writes)?;
        self.position.follow(&graph.plan, effect.destinations);
        Ok(())
    }

    /// Drops the open superstep, and begins again with a new input.
    async fn replace_open_step(&mut self, thread: OpenThread, input: Writes<S>) -> Result<(), RunError> {
        let OpenThread { checkpoint, pending, is_newest } = thread;
        if is_newest {
            self.keep_heads_of_open_calls(&pending, checkpoint.step).await?;
        }
        let questions = pending.open().map_err(|error| self.reader().unfit(error))?;
        let questions = questions.into_iter().flat_map(|(_, questions)| questions);
        let withdrawn = questions.filter(|question| !question.answered).map(|question| question.value);
        self.withdrawn = Some(withdrawn.collect());
        self.discard()?;
        self.begin_durably(input, checkpoint.step.saturating_add(1)).await
    }

    /// Records the heads that calls of the open superstep have made in their subgraphs. `step` is the superstep before
    /// the open superstep.
    pub(super) async fn keep_heads_of_open_calls(&self, pending: &Pending, step: i64) -> Result<(), RunError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let Committer { saver, lease, .. } = &*journal.log.committer;
        let namespace = &*self.task.run.shared.namespace;
        let reader = HeadReader { graph: &*self.task.graph, saver, thread: &lease.thread, namespace };
        let keys: Vec<TaskKey> = self.position.tasks(step.saturating_add(1)).collect();
        let (mut heads, base) = (journal.log.heads(), journal.base.unwrap_or_default());
        let added = reader.add_open_calls(&mut heads, pending, keys.into_iter(), base).await;
        added.map_err(|error| journal.saver(error))?;
        journal.log.set_heads(heads);
        Ok(())
    }

    pub(super) fn reader(&self) -> ThreadReader<'_, S, C> {
        let thread = self.task.run.shared.config.thread_id().unwrap_or_default();
        ThreadReader { graph: &self.task.graph, thread }
    }
}
